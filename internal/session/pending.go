package session

import (
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
func (s Store) pending() pendingChanges {
	return pendingChanges{sandbox.Host(filepath.Join(s.State, "layers")), s.Now}
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

// LastApplied returns when changes were last applied, the zero time for never.
func (s Store) LastApplied() time.Time { return s.pending().lastApplied() }

// AppliedMounts returns the mounts that the changes applied last were made in.
func (s Store) AppliedMounts() ([]jail.Over, error) {
	last, err := jail.Last(s.pending().dir)
	if err != nil {
		return nil, err
	}
	return last.Over(), nil
}
