package cli

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// A signaled is the end of a call by a signal.
type signaled struct{ os.Signal }

func (s signaled) Error() string { return "ended by a signal: " + s.String() }

// code is the exit code that shells know for a program that a signal has ended.
func (s signaled) code() exit {
	if number, ok := s.Signal.(syscall.Signal); ok {
		return exit(exitSignal + int(number))
	}
	return exitFailed
}

// untilSignal returns a context that ends with a signal that asks golem to end,
// which is its cause then: what was begun is ended, told and journaled. A second
// one ends golem at once. What golem was started to ignore stays ignored.
func untilSignal(parent context.Context) (ctx context.Context, stop func()) {
	ctx, end := context.WithCancelCause(parent)
	caught, done := make(chan os.Signal, 1), make(chan struct{})
	if heard := slices.DeleteFunc(ends(), signal.Ignored); len(heard) > 0 { // none would be all
		signal.Notify(caught, heard...)
	}
	go func() {
		defer close(done)
		select {
		case s := <-caught:
			signal.Stop(caught)
			end(signaled{s})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(caught)
		end(nil)
		<-done
	}
}
