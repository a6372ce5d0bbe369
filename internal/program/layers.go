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

// pending is the folder where changes of commands are kept until they land.
type pendingChanges struct {
	dir sandbox.Host
	now func() time.Time
}

// pending returns it.
func (p *Program) pending() pendingChanges {
	return pendingChanges{sandbox.Host(filepath.Join(p.state, "layers")), p.options.Now}
}

// Layered implements shell.Runner. A command that writes in a copy touches nothing of the
// user's either.
func (c *commands) Layered() bool {
	return !c.direct || c.workspace.canOverlay() || c.workspace.canCopy()
}

// canOverlay reports whether overlays can be mounted. A no counts until the end.
func (w *workspace) canOverlay() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noOverlay = w.noOverlay || !w.pending.canOverlay()
	return !w.noOverlay
}

// canCopy reports whether commands can work on copies of what they would write directly:
// the level landlock cannot show other directories at names in them.
func (w *workspace) canCopy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.canCopyMounts == nil {
		s, err := jail.Start(jail.Policy{Least: jail.Namespaces}, w.pending.now)
		can := jail.CanCopy && err == nil
		if w.canCopyMounts = &can; can {
			s.Close()
		}
	}
	return *w.canCopyMounts
}

// runIn calls do with a session of the jail for commands that see these files, and
// returns what do does. Where commands would write directly and no overlay can be mounted,
// they work on copies, and the result has what they changed.
func (c *commands) runIn(files *sandbox.Sandbox, layered bool, do func(*jail.Session) (jail.Result, error)) (jail.Result, error) {
	if !layered || !c.direct || c.workspace.canOverlay() {
		for tries := 0; ; tries++ {
			s, err := c.session(files, layered)
			if err != nil {
				return jail.Result{}, asWorkerError(err)
			}
			r, err := do(s)
			if tries == 0 && errors.Is(err, jail.ErrNotBegun) {
				continue // the holder was killed before the command began
			}
			return r, err
		}
	}
	mounts, err := c.mountsOf(files)
	if err != nil {
		return jail.Result{}, asWorkerError(err)
	}
	a, err := jail.SetApart(c.workspace.pending.dir, mounts, c.workspace.copyLimit, c.now)
	if err != nil {
		return jail.Result{}, asWorkerError(copyError(err, "what the command may write"))
	}
	s, err := c.start(a.Mounts, false, jail.Namespaces)
	if err != nil {
		return jail.Result{}, asWorkerError(errors.Join(err, a.Drop()))
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

// writesDirectly reports whether something in a sandbox can be written that no session keeps.
func writesDirectly(files *sandbox.Sandbox) bool {
	for _, name := range files.Anchors() {
		m, shown := files.MountOf(name)
		if shown && m.Access >= sandbox.ReadWrite && (m.Backend == nil || m.Backend.Traits().Through == "") {
			return true
		}
	}
	return false
}

// lastApplied returns when something was applied last, the zero time for never.
func (l pendingChanges) lastApplied() time.Time {
	info, err := os.Stat(filepath.Join(string(l.dir), "last"))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// canOverlay finds out whether layers can be had, by trying once for each start of the
// machine.
func (l pendingChanges) canOverlay() bool {
	if _, err := os.Stat(l.probeFile()); err == nil {
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
	return os.WriteFile(l.probeFile(), nil, 0o600) == nil
}

// forgetProbe forgets that layers can be had.
func (l pendingChanges) forgetProbe() { os.Remove(l.probeFile()) }

// probeFile is a file that says that they can, since the machine was started.
func (l pendingChanges) probeFile() string {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return filepath.Join(string(l.dir), "work-"+strings.TrimSpace(string(boot)))
}
