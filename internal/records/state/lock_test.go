package state_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/records/state"
)

// TestLock checks that a Lock excludes others and leases of the same name, names its owner,
// and can be taken again.
func TestLock(t *testing.T) {
	folder, err := state.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	leases, err := folder.Leases()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		release, err := folder.Lock(t.Context(), "a", "somebody")
		if err != nil {
			t.Fatal(err)
		}
		other, err := folder.Lock(t.Context(), "b", "somebody")
		if err != nil {
			t.Fatal(err)
		}
		for name, take := range map[string]func(context.Context, string, string) (func() error, error){"lock": folder.Lock, "lease": leases.Take} {
			short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			if _, err := take(short, "a", "other"); err == nil || !strings.Contains(err.Error(), `held by "somebody"`) {
				t.Errorf("%s: got %v", name, err)
			}
			cancel()
		}
		if err := release(); err != nil {
			t.Fatal(err)
		}
		if err := other(); err != nil {
			t.Fatal(err)
		}
	}
	release, err := leases.Take(t.Context(), "a", "other")
	if err != nil {
		t.Fatal(err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
}
