package jail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Session runs commands with one policy. It may be used by many goroutines:
// each command has a cell of its own while it runs.
type Session struct {
	policy Policy
	now    func() time.Time
	level  Level
	plan   plan
	holder *keeper
	groups *groups

	mu    sync.Mutex
	idle  []*wire         // cells that wait for a command
	cells map[*wire]bool  // all of them
	next  map[*wire]*work // where the next command of a cell keeps its changes
	works int             // so many were begun
	ended bool
}

// A keeper is the wire to a holder. Sessions may share one.
type keeper struct {
	*wire
	asking sync.Mutex
}

// startHolder starts a session that has a holder, and no cell yet.
func startHolder(p Policy, now func() time.Time) (*Session, error) {
	return startKeeper(holdingOf(p.Network), p, now)
}

// startKeeper is startHolder for one that is told what to be.
func startKeeper(h holding, p Policy, now func() time.Time) (*Session, error) {
	s, launcher, err := launched(h, p, now)
	if err != nil {
		return nil, err
	}
	err = heard(s.holder.wire)
	launcher.Wait()
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("jail: %w", err)
	}
	return s, nil
}

// launched starts the holder of a session with namespaces of its own. The launcher
// is done when the holder speaks.
func launched(h holding, p Policy, now func() time.Time) (*Session, *exec.Cmd, error) {
	near, far, err := newWires()
	if err != nil {
		return nil, nil, err
	}
	cmd, err := again(launchWord, far, &syscall.SysProcAttr{})
	far.Close()
	if err == nil {
		err = near.send(h)
	}
	if err != nil {
		near.Close()
		return nil, nil, fmt.Errorf("jail: %w", err)
	}
	return newSession(p, now, &keeper{wire: near}), cmd, nil
}

func newSession(p Policy, now func() time.Time, holder *keeper) *Session {
	return &Session{policy: p, now: now, level: Namespaces, plan: compile(p, os.Geteuid(), os.Getegid()), holder: holder,
		groups: findGroups(), next: make(map[*wire]*work), cells: make(map[*wire]bool)}
}

// startOn starts a session with a cell of a holder that there is.
func startOn(holder *keeper, p Policy, now func() time.Time) (*Session, error) {
	s := newSession(p, now, holder)
	c, err := s.cell()
	if err != nil {
		s.Close()
		return nil, err
	}
	s.put(c)
	return s, nil
}

// startNamespaces starts a session with a cell.
func startNamespaces(p Policy, now func() time.Time) (*Session, error) {
	if p.Kept != nil && p.Kept.holder != nil {
		return startOn(p.Kept.holder.holder, p, now)
	}
	s, cmd, err := launched(holdingOf(p.Network), p, now)
	if err != nil {
		return nil, err
	}
	c, err := s.newCell() // asked for before there is a holder to answer: it finds the question
	if err == nil {
		err = heard(s.holder.wire)
	}
	cmd.Wait()
	if err == nil {
		err = heard(c) // that namespaces can be made does not say that a tree can
	}
	if err != nil {
		s.drop(c)
		s.Close()
		return nil, fmt.Errorf("jail: %w", err)
	}
	s.put(c)
	return s, nil
}

// heard waits for the first words of a part.
func heard(w *wire) error {
	w.wait(patience)
	defer w.wait(0)
	var r report
	if _, err := w.receive(&r); err != nil {
		return err
	}
	if r.Error != "" {
		return errors.New(r.Error)
	}
	return nil
}

// Close ends the session with all that is in it.
func (s *Session) Close() error {
	s.mu.Lock()
	idle, cells, next := s.idle, s.cells, s.next
	s.ended, s.idle, s.next = true, nil, nil
	for c := range cells {
		if !slices.Contains(idle, c) {
			unix.Shutdown(c.fd, unix.SHUT_RDWR) // what runs there is not waited for
		}
	}
	s.mu.Unlock()
	for _, c := range idle {
		c.finish()
	}
	for _, w := range next {
		s.forget(w)
	}
	var err error
	if s.policy.Kept == nil { // it is not the session's own otherwise
		s.holder.asking.Lock()
		err = s.holder.finish()
		s.holder.asking.Unlock()
	}
	s.groups.drop(nil)
	return err
}

// waiting returns a cell that waits, nil for none.
func (s *Session) waiting() (*wire, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, errors.New("jail: the session has ended")
	}
	n := len(s.idle)
	if n == 0 {
		return nil, nil
	}
	c := s.idle[n-1]
	s.idle = s.idle[:n-1]
	return c, nil
}

// cell returns one that waits, or a new one.
func (s *Session) cell() (*wire, error) {
	if c, err := s.waiting(); c != nil || err != nil {
		return c, err
	}
	c, err := s.newCell()
	if err == nil {
		err = heard(c)
	}
	if err != nil {
		s.drop(c)
		return nil, fmt.Errorf("jail: %w", err)
	}
	return c, nil
}

// newCell asks the holder for a cell, which says when it is ready.
func (s *Session) newCell() (*wire, error) {
	near, far, err := newWires()
	if err != nil {
		return nil, err
	}
	defer far.Close()
	p := s.plan
	if err := s.plans(near, &p); err != nil {
		return near, err
	}
	s.mu.Lock()
	s.cells[near] = true
	s.mu.Unlock()
	s.holder.asking.Lock()
	err = s.holder.send(ask{}, far.fd)
	s.holder.asking.Unlock()
	if err == nil {
		err = near.send(p, s.groups.make(near, s.policy.Limits.filled())...)
	}
	return near, err
}

// put takes back a cell that has run a command.
func (s *Session) put(c *wire) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		c.Close()
		return
	}
	s.idle = append(s.idle, c)
}

// drop gives up a cell.
func (s *Session) drop(w *wire) {
	if w == nil {
		return
	}
	w.Close()
	s.groups.drop(w)
	s.mu.Lock()
	next := s.next[w]
	delete(s.next, w)
	delete(s.cells, w)
	s.mu.Unlock()
	if next != nil {
		s.forget(next)
	}
}

// order tells a cell to run a command, and returns the cell. One that has ended
// while it waited is given up for another.
func (s *Session) order(o order, streams ...int) (*wire, *work, error) {
	for {
		w, err := s.cell()
		if err != nil {
			return nil, nil, err
		}
		s.limit(&o, w)
		changes, err := s.turn(w, &o)
		if err == nil {
			err = w.send(o, streams...)
		}
		if err == nil {
			return w, changes, nil
		}
		if changes != nil {
			s.forget(changes)
		}
		s.drop(w)
		if !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET) {
			return nil, nil, err
		}
	}
}

// await waits for what comes of an order. When the caller does not want it any
// more the cell is told; one that does not answer in time is given up.
func (w *wire) await(ctx context.Context, most time.Duration) (v verdict, err error) {
	told := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(told)
		w.send(order{})
	})
	w.wait(most)
	_, err = w.receive(&v)
	w.wait(0)
	if !stop() {
		<-told // it would be taken for the next order's
	}
	return v, err
}

// Run runs a command and returns when it and all that it started are gone.
func (s *Session) Run(ctx context.Context, c Command) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{Stopped: true, Level: s.level}, fmt.Errorf("jail: %w", err)
	}
	limits := s.policy.Limits.filled()
	out, err := collect(limits.Output)
	if err != nil {
		return Result{}, err
	}
	errs, err := collect(limits.Output)
	if err != nil {
		out.close()
		return Result{}, err
	}
	o := order{Path: c.Path, Args: c.Args, Env: append(environment(s.policy), c.Env...), Dir: c.Dir, Time: limits.Time, CPU: limits.CPU,
		Memory: limits.Memory, Processes: limits.Processes, Files: limits.Files, FileSize: limits.FileSize}
	if c.Time > 0 && c.Time < o.Time {
		o.Time = c.Time
	}
	began := s.now()
	w, changes, err := s.order(o, out.end, errs.end)
	out.handed()
	errs.handed()
	var v verdict
	if err == nil {
		v, err = w.await(ctx, o.Time+patience)
	}
	r := Result{Level: s.level, Took: s.now().Sub(began), CPU: v.CPU, Peak: v.Peak, Late: v.Late, Stopped: ctx.Err() != nil, Loose: s.loose(), Limits: limits}
	if err != nil {
		s.drop(w)
		out.close()
		errs.close()
		if changes != nil {
			s.forget(changes)
		}
		if w == nil {
			return r, err
		}
		return r, fmt.Errorf("jail: the cell has ended: %w", err)
	}
	r.Stdout, r.Stderr = out.wait(), errs.wait()
	r.Hit = s.hit(w, v, r)
	s.put(w)
	r.Direct = changes == nil
	if changes != nil {
		if r.Changed, err = s.changed(changes); err != nil {
			return r, err
		}
	}
	if v.Error != "" {
		return r, fmt.Errorf("jail: %s: %s", c.Path, v.Error)
	}
	status := unix.WaitStatus(v.Status)
	r.Code = status.ExitStatus()
	if status.Signaled() {
		r.Code, r.Signal = 128+int(status.Signal()), unix.SignalName(status.Signal())
	}
	return r, nil
}
