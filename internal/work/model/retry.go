package model

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Retry configures how often a request is repeated, and with which waits.
type Retry struct {
	Tries int           // in total; 0 means 5
	First time.Duration // before the second try, doubled for each further one; 0 means 1 second
	Most  time.Duration // sum of all waits; 0 means 2 minutes
	// Sleep waits. It returns early with an error when the context ends. Nil means the
	// system's clock.
	Sleep func(context.Context, time.Duration) error
	// Jitter returns a factor from 0 to 1 for the random part of a wait. Nil means 1.
	Jitter func() float64
	// Tell is called before each wait. The pieces of the answer so far are void.
	Tell func(e *Error, tried int, wait time.Duration)
}

// Retrying returns a model that repeats a request if its error may pass. It waits as long
// as the server asks for. If that is too long it fails at once, with an error that says so.
func Retrying(m Model, r Retry) Model {
	if r.Tries == 0 {
		r.Tries = 5
	}
	if r.First == 0 {
		r.First = time.Second
	}
	if r.Most == 0 {
		r.Most = 2 * time.Minute
	}
	if r.Sleep == nil {
		r.Sleep = sleep
	}
	if r.Jitter == nil {
		r.Jitter = func() float64 { return 1 }
	}
	return &retrying{m, r}
}

type retrying struct {
	model Model
	retry Retry
}

func (r *retrying) Answer(ctx context.Context, request Request, tell func(Piece)) (Answer, error) {
	left := r.retry.Most
	for tried := 1; ; tried++ {
		answer, err := r.model.Answer(ctx, request, tell)
		var e *Error
		if err == nil || !errors.As(err, &e) || !e.Passing() || tried >= r.retry.Tries {
			return answer, err
		}
		// Half of the wait is fixed, the other half is jitter.
		wait := r.retry.First << min(tried-1, 20)
		wait = wait/2 + time.Duration(float64(wait/2)*r.retry.Jitter())
		wait = max(wait, e.After)
		if wait > left {
			told := *e
			if e.After > 0 {
				told.Hint = fmt.Sprintf("the server asks to wait %s, and golem waits at most %s; run it again then", e.After.Round(time.Second/10), r.retry.Most)
			}
			return answer, &told
		}
		left -= wait
		if r.retry.Tell != nil {
			r.retry.Tell(e, tried, wait)
		}
		if err := r.retry.Sleep(ctx, wait); err != nil {
			return Answer{}, err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
