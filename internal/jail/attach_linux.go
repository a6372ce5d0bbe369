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

// A Terminal is the controlling terminal for one command. With namespaces it has no name
// on the host, and commands see it as /dev/pts/0.
type Terminal struct {
	Person *os.File // the side for the user

	jail    *Jail
	program *os.File
	cell    *wire // the cell that has the terminal; nil after use
}

// Terminal opens a terminal. The caller must close it.
func (s *Jail) Terminal() (t *Terminal, err error) {
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
	c, own, err := s.readyCell(p)
	files = append(files, own...)
	if err == nil && len(files) != 2 {
		err = errors.New("jail: the jail has no terminal")
		s.drop(c)
	}
	if err != nil {
		return nil, errors.Join(err, closeAll(files))
	}
	return &Terminal{Person: os.NewFile(uintptr(files[0]), "terminal"), jail: s, program: os.NewFile(uintptr(files[1]), "terminal"), cell: c}, nil
}

func closeAll(fds []int) (err error) {
	for _, fd := range fds {
		err = errors.Join(err, unix.Close(fd))
	}
	return err
}

// Close closes the terminal. Processes that use it get a hangup.
func (t *Terminal) Close() error {
	if t.cell != nil {
		t.jail.drop(t.cell)
		t.cell = nil
	}
	t.program.Close()
	return t.Person.Close()
}

// Attach runs a command with the streams of the caller. It returns when the command and
// all processes that it started have ended. It does not collect output. All limits of Run
// hold except output. Time is limited only if the command sets a limit, and processor
// time only if the policy does.
func (s *Jail) Attach(ctx context.Context, c Command, at Attached) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{Stopped: true, Level: s.level}, fmt.Errorf("jail: %w", err)
	}
	limits := s.policy.Limits.filled()
	limits.Time, limits.CPU, limits.Output = c.Time, s.policy.Limits.CPU, 0
	o := s.newOrder(c, limits)
	o.Attached = true
	streams, err := at.streams(&o)
	if err != nil {
		return Result{Level: s.level}, fmt.Errorf("jail: %w", err)
	}
	began := s.now()
	w, changes, err := s.orderAttached(o, at.Terminal, streams.fds)
	streams.closeOurs()
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
		return r, fmt.Errorf("jail: the process that holds the jail has ended: %w", err)
	}
	r.Hit = s.hit(w, v, r)
	if at.Terminal != nil {
		s.drop(w)
	} else {
		s.put(w)
	}
	r, err = s.complete(c, v, changes, r)
	return r, errors.Join(err, lost)
}

// orderAttached sends an order to the cell that has the terminal, or to any cell if there
// is no terminal.
func (s *Jail) orderAttached(o order, t *Terminal, streams []int) (*wire, Record, error) {
	if t == nil {
		return s.order(o, streams...)
	}
	if t.cell == nil || t.jail != s {
		return nil, nil, errors.New("jail: the terminal was used before, or belongs to another jail")
	}
	w := t.cell
	t.cell = nil
	changes, err := s.orderOf(w, o, streams...)
	t.program.Close() // so that a reader at the other side sees the end
	if err != nil {
		s.drop(w)
		return nil, nil, fmt.Errorf("jail: %w", err)
	}
	return w, changes, nil
}

// attend waits for the verdict of an order and passes signals on. If the context ends, it
// cancels the order. If the cell does not answer in time, it closes the connection.
func (w *wire) attend(ctx context.Context, at Attached) (v verdict, err error) {
	sent := make(chan struct{})
	var late *time.Timer
	stop := context.AfterFunc(ctx, func() {
		defer close(sent)
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
		<-sent
		late.Stop()
	}
	return v, err
}
