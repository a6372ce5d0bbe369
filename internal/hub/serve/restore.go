package serve

import (
	"fmt"

	"github.com/golem-forge/golem/internal/hub"
)

// lostAttempts is added to the number of a job's attempt after a restore: no attempt that the
// backup does not know has the number of a new one.
const lostAttempts = 1000

// restoredWhy says why a job is in doubt after a restore.
const restoredWhy = "the hub was restored from a backup, and calls since then have no mark; retry makes them again"

// stopRestored puts every job that is not over in doubt. The data came from an older backup, so
// the fence lacks the calls that were made since.
func (b *board) stopRestored() error {
	open := b.index.findJobs(func(j *hub.Job) bool { return !j.State.IsOver() })
	for _, j := range open {
		_, err := b.update(j.ID, func(j *hub.Job) error {
			if j.State.IsOver() {
				return errSame
			}
			j.State, j.Node, j.Result.Why = hub.InDoubt, "", restoredWhy
			j.Attempt += lostAttempts
			return nil
		})
		if err != nil {
			return fmt.Errorf("job %s: %w", j.ID, err)
		}
	}
	b.tell("restored from a backup: %d jobs that were not over are in doubt; golem jobs retry JOB continues one, golem jobs cancel JOB ends it. Start the hub without --restored from now on", len(open))
	return nil
}
