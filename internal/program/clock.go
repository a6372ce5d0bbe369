package program

import (
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/audit"
	"github.com/golem-forge/golem/internal/state"
)

// monotonicClock returns a clock that never goes back, not even behind the latest time that an
// earlier process has seen: whoever sets the machine's clock back does not extend what was
// approved until a certain time.
func monotonicClock(folder *state.Folder, now func() time.Time) (func() time.Time, error) {
	latest, err := audit.Witness(folder, now())
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		if at := now(); at.After(latest) {
			latest = at
		}
		return latest
	}, nil
}
