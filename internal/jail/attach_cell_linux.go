package jail

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/claim"
)

// How a command has a terminal. The cell leads a session and owns the terminal, as a
// shell does, and the command is a group in the foreground. Were the command to lead
// the session, no key could stop it: the kernel stops nobody whose parent would not
// notice. A cell does this for one command, and ends with it.

// lead makes this process the leader of a session, if it is none. It does not obey
// the keys of its terminal, and returns what they mean.
func lead() (<-chan os.Signal, error) {
	keys := make(chan os.Signal, 16)
	signal.Notify(keys, unix.SIGINT, unix.SIGQUIT, unix.SIGTSTP)
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP)
	if session, err := unix.Getsid(0); err == nil && session == os.Getpid() {
		return keys, nil
	}
	if _, err := unix.Setsid(); err != nil {
		return nil, fmt.Errorf("a session: %w", err)
	}
	return keys, nil
}

// follow passes keys on to the command: they were struck before it came to the
// foreground.
func (r *running) follow(keys <-chan os.Signal) {
	for s := range keys {
		if number, ok := s.(syscall.Signal); ok {
			r.pass(number)
		}
	}
}

// openTerminal opens a new terminal: the side of the person, and that of a program.
func openTerminal(maker, dir string) (person, program int, err error) {
	person, err = unix.Open(maker, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, -1, &os.PathError{Op: "open", Path: maker, Err: err}
	}
	number, err := unix.IoctlGetInt(person, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(person, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		name := filepath.Join(dir, strconv.Itoa(number))
		if program, err = unix.Open(name, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0); err != nil {
			err = &os.PathError{Op: "open", Path: name, Err: err}
		}
	}
	if err != nil {
		unix.Close(person)
		return -1, -1, err
	}
	return person, program, nil
}

// terminal returns the terminal that the command of an order belongs to, -1 for
// none.
func (o order) terminal() int {
	if o.Terminal <= 0 || o.Terminal > len(o.streams) {
		return -1
	}
	return o.streams[o.Terminal-1]
}

// own makes it that of this process. Nothing is shown on it yet: who sees a command
// strikes keys for it, and it is not in the foreground before it has begun.
func (o order) own() error {
	if o.Terminal == 0 {
		return nil
	}
	if err := unix.IoctlSetInt(o.terminal(), unix.TIOCSCTTY, 0); err != nil {
		return fmt.Errorf("the terminal: %w", err)
	}
	if err := unix.IoctlSetInt(o.terminal(), unix.TCXONC, unix.TCOOFF); err != nil {
		return fmt.Errorf("the terminal: %w", err)
	}
	return nil
}

// show puts a command that was just started in the foreground. Had it found itself in
// the background before this it was stopped: stopped continues it.
func (o order) show(pid int) {
	if o.Terminal == 0 {
		return
	}
	unix.IoctlSetPointerInt(o.terminal(), unix.TIOCSPGRP, pid)
	signal.Ignore(unix.SIGTTOU) // this process is in the background now; the command does not inherit it any more
	unix.IoctlSetInt(o.terminal(), unix.TCXONC, unix.TCOON)
}

// events are what the cell waits for, besides ends.
func (o order) events() int {
	if o.Attached {
		return unix.WUNTRACED
	}
	return 0
}

// running is the command that runs, for who signals it.
type running struct {
	do func(func() error) error // on a thread that reaches nobody else

	mu       sync.Mutex
	pid      int // of its first process and its group; 0 before it has begun
	over     bool
	terminal int              // -1 for none
	early    []syscall.Signal // for it, before it has begun
}

// expect says that a command will begin.
func (r *running) expect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pid, r.over = 0, false
}

// begin says that it has begun.
func (r *running) begin(pid, terminal int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pid, r.terminal = pid, terminal
	for _, s := range r.early {
		r.send(s)
	}
	r.early = nil
}

// end says that it has ended.
func (r *running) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
}

// pass passes a signal on to it.
func (r *running) pass(s syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	const most = 16
	switch {
	case r.over:
	case r.pid != 0:
		r.send(s)
	case len(r.early) < most:
		r.early = append(r.early, s)
	}
}

func (r *running) send(s syscall.Signal) {
	front := r.foreground()
	list := []int{front}
	switch s {
	case unix.SIGINT, unix.SIGQUIT, unix.SIGWINCH:
	case unix.SIGTSTP:
		if r.terminal < 0 {
			s = unix.SIGSTOP
		}
	default:
		if front != r.pid {
			list = append(list, r.pid)
		}
	}
	r.do(func() error {
		for _, group := range list {
			unix.Kill(-group, s)
		}
		return nil
	})
}

// foreground returns the group that has the terminal. Where that is none of the
// command's, or there is no terminal, it is the command's own.
func (r *running) foreground() int {
	if r.terminal < 0 {
		return r.pid
	}
	front, err := unix.IoctlGetInt(r.terminal, unix.TIOCGPGRP)
	if err != nil || front <= 1 || front == unix.Getpgrp() {
		return r.pid
	}
	return front
}

// stopped reports whether the command, of which the kernel has said that it was
// stopped, is so for somebody to know.
func (r *running) stopped(by syscall.Signal) bool {
	if f := claim.Stat(r.pid); len(f) == 0 || f[0] != "T" {
		return false // not any more
	}
	front, err := unix.IoctlGetInt(r.terminal, unix.TIOCGPGRP)
	if err == nil && front == r.pid && (by == unix.SIGTTIN || by == unix.SIGTTOU) {
		r.pass(unix.SIGCONT) // it came to the foreground after it was begun
		return false
	}
	return true
}
