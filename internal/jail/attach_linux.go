package jail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Terminal is for one command to belong to. Where there are namespaces no name on
// the host leads to it, and commands find it as /dev/pts/0.
type Terminal struct {
	Person *os.File // the side that somebody sits at

	session *Session
	program *os.File
	cell    *wire // has it, until it is used
}

// Terminal opens a terminal. It is closed after use.
func (s *Session) Terminal() (t *Terminal, err error) {
	p := s.plan.attached()
	var files []int
	if s.level == Landlock {
		person, program, err := openTerminal("/dev/ptmx", "/dev/pts")
		if err != nil {
			return nil, fmt.Errorf("jail: %w", err)
		}
		files = []int{person, program}
		name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", program))
		if err != nil {
			return nil, errors.Join(err, closeAll(files))
		}
		p.Steps = append(p.Steps, step{Do: device, Source: "/dev/tty"}, step{Do: device, Source: name})
	}
	c, err := s.newCell(p)
	var own []int
	if err == nil {
		own, err = given(c)
	}
	files = append(files, own...)
	if err == nil && len(files) != 2 {
		err = errors.New("the cell has no terminal")
	}
	if err != nil {
		s.drop(c)
		return nil, errors.Join(fmt.Errorf("jail: %w", err), closeAll(files))
	}
	return &Terminal{Person: os.NewFile(uintptr(files[0]), "terminal"), session: s, program: os.NewFile(uintptr(files[1]), "terminal"), cell: c}, nil
}

func closeAll(fds []int) (err error) {
	for _, fd := range fds {
		err = errors.Join(err, unix.Close(fd))
	}
	return err
}

// Close closes the terminal. What runs there is hung up on.
func (t *Terminal) Close() error {
	if t.cell != nil {
		t.session.drop(t.cell)
		t.cell = nil
	}
	t.program.Close()
	return t.Person.Close()
}

// Attach runs a command with streams of the caller's, and returns when it and all
// that it started are gone. Nothing is collected. It has all the limits that Run has
// but for output, for time where the command sets none, and for processor time where
// the policy sets none.
func (s *Session) Attach(ctx context.Context, c Command, at Attached) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{Stopped: true, Level: s.level}, fmt.Errorf("jail: %w", err)
	}
	limits := s.policy.Limits.filled()
	limits.Time, limits.CPU, limits.Output = c.Time, s.policy.Limits.CPU, 0
	o := s.commanded(c, limits)
	o.Attached = true
	streams, err := at.streams(&o)
	if err != nil {
		return Result{Level: s.level}, fmt.Errorf("jail: %w", err)
	}
	began := s.now()
	w, changes, err := s.orderAttached(o, at.Terminal, streams.fds)
	streams.handed()
	var v verdict
	if err == nil {
		v, err = w.attend(ctx, at)
	}
	r := s.result(ctx, v, began, limits)
	lost := streams.wait(err != nil)
	if err != nil {
		s.drop(w)
		if changes != nil {
			changes.Discard()
		}
		if w == nil {
			return r, err
		}
		return r, fmt.Errorf("jail: the cell has ended: %w", err)
	}
	r.Hit = s.hit(w, v, r)
	if at.Terminal != nil {
		s.drop(w)
	} else {
		s.put(w)
	}
	r, err = s.completed(c, v, changes, r)
	return r, errors.Join(err, lost)
}

// orderAttached tells the cell that has the terminal to run a command, and without
// one any cell.
func (s *Session) orderAttached(o order, t *Terminal, streams []int) (*wire, Record, error) {
	if t == nil {
		return s.order(o, streams...)
	}
	if t.cell == nil || t.session != s {
		return nil, nil, errors.New("jail: the terminal was used before, or is another session's")
	}
	w := t.cell
	t.cell = nil
	changes, err := s.orderOf(w, o, streams...)
	t.program.Close() // who reads at the other side is to see its end
	if err != nil {
		s.drop(w)
		return nil, nil, fmt.Errorf("jail: %w", err)
	}
	return w, changes, nil
}

// attend waits for what comes of an order, and passes signals on meanwhile. When the
// caller does not want it any more the cell is told; one that does not answer in time
// is given up.
func (w *wire) attend(ctx context.Context, at Attached) (v verdict, err error) {
	told := make(chan struct{})
	var late *time.Timer
	stop := context.AfterFunc(ctx, func() {
		defer close(told)
		w.send(order{})
		late = time.AfterFunc(patience, func() { unix.Shutdown(w.fd, unix.SHUT_RDWR) })
	})
	done := make(chan struct{})
	var passing sync.WaitGroup
	passing.Go(func() {
		for {
			select {
			case <-done:
				return
			case s, ok := <-at.Signals:
				if number, is := s.(syscall.Signal); ok && is {
					w.send(order{Signal: int(number)})
				} else if !ok {
					return
				}
			}
		}
	})
	for {
		v = verdict{}
		if _, err = w.receive(&v); err != nil || !v.Stopped {
			break
		}
		if at.Stopped != nil {
			at.Stopped()
			w.send(order{Signal: int(unix.SIGCONT)})
		}
	}
	close(done)
	passing.Wait()
	if !stop() {
		<-told
		late.Stop()
	}
	return v, err
}
