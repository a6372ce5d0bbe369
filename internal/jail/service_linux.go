package jail

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// A Service is a command that runs beside others until it ends or is stopped. It has a
// cell of its own, and the network that the others have.
type Service struct {
	out     *collector
	signals chan os.Signal
	cancel  context.CancelFunc
	done    chan struct{}
	result  Result // when it is done
	err     error
}

// Serve starts a command that goes on. It has all the limits that Run has but for time,
// and for processor time where the policy sets none. Of folders it writes those that a
// session keeps, and nothing else: a change that is not known before its end could not
// be decided about.
func (s *Session) Serve(c Command) (*Service, error) {
	limits := s.policy.Limits.filled()
	limits.Time, limits.CPU = 0, s.policy.Limits.CPU
	p, err := s.serving()
	if err != nil {
		return nil, err
	}
	w, err := s.newCell(p)
	if err == nil {
		err = heard(w)
	}
	if err != nil {
		s.drop(w)
		return nil, fmt.Errorf("jail: %w", err)
	}
	out, err := collect(limits.Output)
	if err != nil {
		s.drop(w)
		return nil, err
	}
	o := s.commanded(c, limits)
	o.Streams, o.Looks = [3]int{0, 1, 1}, true
	s.limit(&o, w)
	err = w.send(o, out.end)
	out.handed()
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

// serve waits for the end of a service.
func (s *Session) serve(ctx context.Context, w *wire, c Command, v *Service, began time.Time, l Limits) (Result, error) {
	defer s.drop(w)
	got, err := w.attend(ctx, Attached{Signals: v.signals})
	r := s.result(ctx, got, began, l)
	if err != nil {
		v.out.close()
		return r, fmt.Errorf("jail: the cell has ended: %w", err)
	}
	r.Stdout = v.out.wait()
	r.Hit = s.hit(w, got, r)
	return s.completed(c, got, nil, r)
}

// serving returns the plan of a cell for a service.
func (s *Session) serving() (plan, error) {
	p := s.policy
	p.Mounts = slices.Clone(p.Mounts)
	for i, m := range p.Mounts {
		p.Mounts[i].Write = m.Write && m.Kept
	}
	made := compile(p, os.Geteuid(), os.Getegid())
	made.Direct, made.Apart, made.Shared, made.NoSockets = true, s.plan.Apart, s.plan.Shared, s.plan.NoSockets
	if s.level == Landlock {
		if p.Network {
			made.Steps = append(made.Steps, step{Do: online})
		}
		return made, inside(p.Mounts)
	}
	return made, nil
}

// Output returns what it has printed from an offset on, at most so many bytes. A
// negative offset is one from the end.
func (v *Service) Output(offset, most int64) Piece {
	v.out.mu.Lock()
	defer v.out.mu.Unlock()
	if offset < 0 {
		offset += v.out.out.piece(0, 0).Total
	}
	return v.out.out.piece(offset, most)
}

// Done is closed when it has ended, with all that it had started.
func (v *Service) Done() <-chan struct{} { return v.done }

// Result returns what came of it, once it is done.
func (v *Service) Result() (Result, error) { return v.result, v.err }

// stopping is how long a service has to end by itself.
const stopping = 3 * time.Second

// Stop asks it to end, ends it with all that it has started where it does not, and
// returns when it is gone.
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

// Kill ends it at once.
func (v *Service) Kill() {
	v.cancel()
	<-v.done
}
