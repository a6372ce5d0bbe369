package run

import (
	"context"
	"errors"
	"time"

	"github.com/golem-forge/golem/internal/records/state"
)

// ErrLocked is the error of Lock while another run works in the session.
var ErrLocked = errors.New("another run works in this session")

// leaseName is the name of the lease that a run has in the state of its session.
const leaseName = "run"

// Process returns the process of the run that works in a session, whose state is in dir: 0
// if there is none, or if the system does not show it.
func Process(dir *state.Dir) int { return dir.LeaseHolder(leaseName) }

// Lock prevents other runs in a session, whose state is in dir: two that continue the same
// run would do everything twice. free ends that. Lock waits at most patience for another
// run to end.
func Lock(dir *state.Dir, patience time.Duration) (free func() error, err error) {
	leases, err := dir.Leases()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	free, err = leases.Take(ctx, leaseName, "a run")
	if errors.Is(err, context.DeadlineExceeded) {
		err = ErrLocked
	}
	return free, err
}

// IsLocked reports whether a run works in a session.
func IsLocked(dir *state.Dir) bool {
	if !dir.MayBeLeased(leaseName) {
		return false
	}
	free, err := Lock(dir, 0)
	if err == nil {
		free()
	}
	return errors.Is(err, ErrLocked)
}
