package state_test

import (
	"context"
	"os"
	"testing"
)

// TestLeaseHolder checks that golem finds the process that has a lease, and only while it
// has it.
func TestLeaseHolder(t *testing.T) {
	f := openDir(t, t.TempDir())
	if got := f.LeaseHolder("run"); got != 0 {
		t.Errorf("before: got %d", got)
	}
	leases, err := f.Leases()
	if err != nil {
		t.Fatal(err)
	}
	free, err := leases.Take(context.Background(), "run", "a run")
	if err != nil {
		t.Fatal(err)
	}
	if got := f.LeaseHolder("run"); got != os.Getpid() {
		t.Errorf("got %d, want %d", got, os.Getpid())
	}
	if got := f.LeaseHolder("other"); got != 0 {
		t.Errorf("another lease: got %d", got)
	}
	if err := free(); err != nil {
		t.Fatal(err)
	}
	if got := f.LeaseHolder("run"); got != 0 {
		t.Errorf("after: got %d", got)
	}
}
