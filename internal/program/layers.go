package program

import (
	"errors"
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

// Layered implements shell.Runner. A command that writes in a copy touches nothing of the
// user's either.
func (c *commands) Layered() bool { return !c.direct || c.work.canOverlay() || c.work.canApart() }

// canOverlay reports whether overlays can be mounted. A no counts until the end.
func (w *work) canOverlay() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.never = w.never || !w.layers.can()
	return !w.never
}

// canApart reports whether commands can work on copies of what they would write directly:
// the level landlock cannot show other directories at names in them.
func (w *work) canApart() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.apart == nil {
		s, err := jail.Start(jail.Policy{Least: jail.Namespaces}, w.layers.now)
		can := jail.CanCopy && err == nil
		if w.apart = &can; can {
			s.Close()
		}
	}
	return *w.apart
}

// started calls do with a session of the jail for commands that see these files, and
// returns what do does. Where commands would write directly and no overlay can be mounted,
// they work on copies, and the result has what they changed.
func (c *commands) started(files *sandbox.Sandbox, layered bool, do func(*jail.Session) (jail.Result, error)) (jail.Result, error) {
	if !layered || !c.direct || c.work.canOverlay() {
		s, err := c.session(files, layered)
		if err != nil {
			return jail.Result{}, told(err)
		}
		return do(s)
	}
	mounts, err := c.mounts(files)
	if err != nil {
		return jail.Result{}, told(err)
	}
	a, err := jail.SetApart(c.work.layers.dir, mounts, c.work.most, c.now)
	if err != nil {
		return jail.Result{}, told(copyError(err, "what the command may write"))
	}
	s, err := c.start(a.Mounts, false, jail.Namespaces)
	if err != nil {
		return jail.Result{}, told(errors.Join(err, a.Drop()))
	}
	r, err := do(s)
	if closed := s.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return r, errors.Join(err, a.Drop())
	}
	r.Direct = false
	r.Changed, err = a.Changed()
	return r, err
}

// direct reports whether something in a sandbox can be written that no session keeps.
func direct(files *sandbox.Sandbox) bool {
	for _, name := range files.Anchors() {
		m, shown := files.MountOf(name)
		if shown && m.Access >= sandbox.ReadWrite && (m.Backend == nil || m.Backend.Traits().Through == "") {
			return true
		}
	}
	return false
}

// landed returns when something was applied last, the zero time for never.
func (l layers) landed() time.Time {
	info, err := os.Stat(filepath.Join(string(l.dir), "last"))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

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
