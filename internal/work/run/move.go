package run

import (
	"context"
	"errors"
	"fmt"
)

// ErrInterrupted is the error of a run that cannot continue here, because Claim or Checkpoint
// failed. It can be continued from its last checkpoint.
var ErrInterrupted = errors.New("the run was interrupted")

// ErrInDoubt is the error of Claim if another machine has claimed the call and then failed,
// so that nobody knows whether the call was made.
var ErrInDoubt = errors.New("another machine may have made this call")

// inDoubt is the result of a call that may have been made.
const inDoubt = "golem was killed during this call, and does not know whether it was done; check before you make it again"

// claim reserves a call that has an effect. A call that was paused or stopped after it had
// begun gets another name, because it begins again.
func (t *conversation) claim(ctx context.Context, call *inCall, digest string) error {
	if t.Claim == nil {
		return nil
	}
	name := call.id
	if n := t.Log.timesBegun(call.id); n > 0 {
		name = fmt.Sprintf("%s+%d", call.id, n)
	}
	err := t.Claim(ctx, name, digest)
	if errors.Is(err, ErrInDoubt) {
		call.inDoubt = true
		return err
	}
	return t.interrupt(err)
}

// checkpoint lets others keep the state of the run. A stop of the run does not end it.
func (r *Run) checkpoint(ctx context.Context) error {
	if r.Checkpoint == nil {
		return nil
	}
	return r.interrupt(r.Checkpoint(context.WithoutCancel(ctx)))
}

// interrupt ends the run with an error, if there is one. The callers of a worker end too.
func (r *Run) interrupt(err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%w: %w", ErrInterrupted, err)
	r.interruption.CompareAndSwap(nil, &err)
	return err
}
