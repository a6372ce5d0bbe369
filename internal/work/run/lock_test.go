package run_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/work/run"
)

// TestIsLocked checks that IsLocked sees a run, and that it writes nothing: lists ask about
// every session.
func TestIsLocked(t *testing.T) {
	at := t.TempDir()
	dir, err := state.Open(at)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if run.IsLocked(dir) {
		t.Error("locked without a run")
	}
	if list, err := os.ReadDir(at); err != nil || len(list) > 0 {
		t.Errorf("got %v, %v", list, err)
	}
	free, err := run.Lock(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !run.IsLocked(dir) {
		t.Error("not locked during a run")
	}
	if err := free(); err != nil {
		t.Fatal(err)
	}
	leases := filepath.Join(at, "leases")
	before, err := os.Stat(leases)
	if err != nil {
		t.Fatal(err)
	}
	if run.IsLocked(dir) {
		t.Error("locked after a run")
	}
	if after, err := os.Stat(leases); err != nil || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("the directory of leases was written: %v, %v", after, err)
	}
}
