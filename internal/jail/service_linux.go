package jail

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// A Service is a command that runs at the same time as others, until it ends or is
// stopped. It has its own cell, and the same network as the others.
type Service struct {
	out     *collector
	signals chan os.Signal
	cancel  context.CancelFunc
	done    chan struct{}
	result  Result // valid when done is closed
	err     error
}

// Serve starts a service. All limits of Run hold except time. Processor time is limited
// only if the policy sets a limit. A service may write only mounts with Kept set: golem
// could not ask for approval of changes that are not known before the service ends.
func (s *Jail) Serve(c Command) (*Service, error) {
	limits := s.policy.Limits.filled()
	limits.Time, limits.CPU = 0, s.policy.Limits.CPU
	p, err := s.servicePlan()
	if err != nil {
		return nil, err
	}
	w, _, err := s.readyCell(p)
	if err != nil {
		return nil, err
	}
	out, err := collect(limits.Output, nil)
	if err != nil {
		s.drop(w)
		return nil, err
	}
	o := s.newOrder(c, limits)
	o.Streams, o.Looks = [3]int{0, 1, 1}, true
	s.limit(&o, w)
	err = w.send(o, out.end)
	out.closeOurs()
	if err != nil {
		s.drop(w)
		out.close()
		return nil, fmt.Errorf("jail: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	v := &Service{out: out, signals: make(chan os.Signal, 1), cancel: cancel, done: make(chan struct{})}
	ended := func() {}
	if s.policy.Overlays != nil {
		ended = s.policy.Overlays.Serve()
	}
	began := s.now()
	go func() {
		defer close(v.done)
		defer ended()
		v.result, v.err = s.serve(ctx, w, c, v, began, limits)
	}()
	return v, nil
}

// serve waits until a service has ended.
func (s *Jail) serve(ctx context.Context, w *wire, c Command, v *Service, began time.Time, l Limits) (Result, error) {
	defer s.drop(w)
	got, err := w.attend(ctx, Attached{Signals: v.signals})
	r := s.result(ctx, got, began, l)
	if err != nil {
		v.out.close()
		return r, fmt.Errorf("jail: the process that holds the jail has ended: %w", err)
	}
	r.Stdout = v.out.wait()
	r.Hit = s.hit(w, got, r)
	return s.complete(c, got, nil, r)
}

// servicePlan returns the plan of the cell for a service.
func (s *Jail) servicePlan() (plan, error) {
	p := s.policy
	p.Mounts = slices.Clone(p.Mounts)
	for i, m := range p.Mounts {
		p.Mounts[i].Write = m.Write && m.Kept
	}
	made := compile(p, os.Geteuid(), os.Getegid())
	made.Direct, made.Apart, made.Shared, made.Supervised, made.NoSockets = true, s.plan.Apart, s.plan.Shared, s.plan.Supervised, s.plan.NoSockets
	made.Layered, made.Runsc, made.Networked = s.plan.Layered, s.plan.Runsc, s.plan.Networked
	if s.level == Landlock {
		if p.Network {
			made.Steps = append(made.Steps, step{Do: online})
		}
		return made, inside(p.Mounts)
	}
	return made, nil
}

// Output returns at most most bytes of output from an offset on. A negative offset counts
// from the end.
func (v *Service) Output(offset, most int64) Piece {
	v.out.mu.Lock()
	defer v.out.mu.Unlock()
	if offset < 0 {
		offset += v.out.out.piece(0, 0).Total
	}
	return v.out.out.piece(offset, most)
}

// Done returns a channel that is closed when the service and all processes that it
// started have ended.
func (v *Service) Done() <-chan struct{} { return v.done }

// Result returns the result of the service. Call it after Done is closed.
func (v *Service) Result() (Result, error) { return v.result, v.err }

// stopping is how long a service has to end by itself after SIGTERM.
const stopping = 3 * time.Second

// Stop sends SIGTERM to the service. If it does not end in time, Stop kills it with all
// processes that it started. Stop returns when the service has ended.
func (v *Service) Stop() {
	select {
	case v.signals <- unix.SIGTERM:
	default:
	}
	late := time.NewTimer(stopping)
	defer late.Stop()
	select {
	case <-v.done:
	case <-late.C:
		v.cancel()
	}
	<-v.done
	v.cancel()
}

// Kill ends the service at once.
func (v *Service) Kill() {
	v.cancel()
	<-v.done
}
