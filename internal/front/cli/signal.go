package cli

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// A signaled is the error of a call that a signal ended.
type signaled struct{ os.Signal }

func (s signaled) Error() string { return "ended by a signal: " + s.String() }

// code returns the exit code by which shells report a program that a signal ended.
func (s signaled) code() exit {
	if number, ok := s.Signal.(syscall.Signal); ok {
		return exit(exitSignal + int(number))
	}
	return exitFailed
}

// atQuestion returns the exit code after a signal at a question. Ctrl-C is a no there, as in
// every command.
func (s signaled) atQuestion() exit {
	if s.Signal == os.Interrupt {
		return exitDenied
	}
	return s.code()
}

// untilSignal returns a context that ends when a signal asks golem to end. The signal is
// then its cause, and golem ends, reports and journals the call. A second signal ends
// golem at once. golem ignores signals that it was started to ignore.
func untilSignal(parent context.Context) (ctx context.Context, stop func()) {
	ctx, end := context.WithCancelCause(parent)
	caught, done := make(chan os.Signal, 1), make(chan struct{})
	if heard := slices.DeleteFunc(ends(), signal.Ignored); len(heard) > 0 { // Notify without signals would mean all signals
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
