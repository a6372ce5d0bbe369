package audit

import (
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/records/state"
)

// MonotonicClock returns a clock that never goes back, not even behind the latest time
// that an earlier process recorded. So setting the machine's clock back does not extend
// an approval that expires.
func MonotonicClock(folder *state.Dir, now func() time.Time) (func() time.Time, error) {
	latest, err := Witness(folder, now())
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
