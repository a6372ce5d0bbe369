package session

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/transaction"
	"github.com/golem-forge/golem/sandbox"
)

// pendingChanges is the directory where changes of commands stay until they are applied.
type pendingChanges struct {
	dir sandbox.Host
	now func() time.Time
}

func (s Store) pending() pendingChanges {
	return pendingChanges{sandbox.Host(filepath.Join(s.State, "layers")), s.Now}
}

// lastApplied returns when changes were last applied that can be undone, the zero time
// for never.
func (l pendingChanges) lastApplied() time.Time { return transaction.AppliedAt(l.dir) }

// canOverlay reports whether overlays can be mounted. It tries once after each boot.
func (l pendingChanges) canOverlay() bool {
	if _, err := os.Stat(l.probeFile()); err == nil {
		return true
	}
	try := filepath.Join(string(l.dir), "work-tried")
	if err := os.MkdirAll(try, 0o700); err != nil {
		return false
	}
	s, err := jail.Start(jail.Policy{Mounts: []jail.Mount{{Source: sandbox.Host(try), Target: jail.Work, Write: true}}, Recorder: transaction.Recorder{Dir: l.dir}, Least: jail.Namespaces}, l.now)
	if err != nil {
		return false
	}
	defer s.Close()
	return os.WriteFile(l.probeFile(), nil, 0o600) == nil
}

// forgetProbe makes the next call of canOverlay try again.
func (l pendingChanges) forgetProbe() { os.Remove(l.probeFile()) }

// probeFile returns the file that exists if overlays could be mounted since the last
// boot.
func (l pendingChanges) probeFile() string {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return filepath.Join(string(l.dir), "work-"+strings.TrimSpace(string(boot)))
}

// LastApplied returns when changes were last applied that can be undone, the zero time
// for never.
func (s Store) LastApplied() time.Time { return s.pending().lastApplied() }

// AppliedMounts returns the mounts that the changes applied last were made in.
func (s Store) AppliedMounts() ([]transaction.Directory, error) {
	last, err := transaction.Last(s.pending().dir)
	if err != nil {
		return nil, err
	}
	return last.Directories(), nil
}
