package forge

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// layers is the folder where changes of commands are kept until they land.
type layers struct {
	dir sandbox.Host
	now func() time.Time
}

// layers returns it.
func (p *Program) layers() layers {
	return layers{sandbox.Host(filepath.Join(p.state, "layers")), p.options.Now}
}

// Layered implements shell.Runner.
func (c *commands) Layered() bool { return c.work.layers.can() }

// Last implements changes.Undoer.
func (c *commands) Last() (*jail.Landed, error) { return jail.Last(c.work.layers.dir) }

// Undo implements changes.Undoer.
func (c *commands) Undo(l *jail.Landed) ([]string, error) { return l.Undo(c.work.kept, c.now) }

// can finds out whether layers can be had, by trying once for each start of the
// machine.
func (l layers) can() bool {
	if _, err := os.Stat(l.mark()); err == nil {
		return true
	}
	try := filepath.Join(string(l.dir), "work-tried")
	if err := os.MkdirAll(try, 0o700); err != nil {
		return false
	}
	s, err := jail.Start(jail.Policy{Mounts: []jail.Mount{{Source: sandbox.Host(try), Target: jail.Work, Write: true}}, Layers: l.dir, Least: jail.Namespaces}, l.now)
	if err != nil {
		return false
	}
	defer s.Close()
	return os.WriteFile(l.mark(), nil, 0o600) == nil
}

// doubt forgets that layers can be had.
func (l layers) doubt() { os.Remove(l.mark()) }

// mark is a file that says that they can, since the machine was started.
func (l layers) mark() string {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return filepath.Join(string(l.dir), "work-"+strings.TrimSpace(string(boot)))
}
