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

	"github.com/golem-forge/golem/internal/files/claim"
)

// How a command gets a terminal. The cell leads a session and owns the terminal, as a
// shell does, and the command is the process group in the foreground. If the command led
// the session, no key could stop it: the kernel stops a process only if its parent can
// notice. A cell does this for one command and ends with it.

// lead makes this process the leader of a session unless it is one. Keys of the terminal
// no longer stop or end this process. lead returns a channel with the signals that they
// send.
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

// follow passes signals of keys on to the command. They were pressed before the command
// came to the foreground.
func (r *running) follow(keys <-chan os.Signal) {
	for s := range keys {
		if number, ok := s.(syscall.Signal); ok {
			r.pass(number)
		}
	}
}

// openTerminal opens a new terminal and returns both sides, for the person and for the
// program.
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

// terminal returns the controlling terminal for the command of an order, or -1 if there
// is none.
func (o order) terminal() int {
	if o.Terminal <= 0 || o.Terminal > len(o.streams) {
		return -1
	}
	return o.streams[o.Terminal-1]
}

// own makes the terminal the controlling terminal of this process. It pauses output until
// show resumes it: a person who sees output presses keys for the command, and the command
// is not in the foreground yet.
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

// show puts a command that was just started in the foreground. If the command used the
// terminal before this, the kernel stopped it, and running.stopped continues it.
func (o order) show(pid int) {
	if o.Terminal == 0 {
		return
	}
	unix.IoctlSetPointerInt(o.terminal(), unix.TIOCSPGRP, pid)
	signal.Ignore(unix.SIGTTOU) // this process is in the background now; the command has started and does not inherit this
	unix.IoctlSetInt(o.terminal(), unix.TCXONC, unix.TCOON)
}

// events returns the wait(2) options for events other than the end of a process.
func (o order) events() int {
	if o.Attached {
		return unix.WUNTRACED
	}
	return 0
}

// running is the current command, for sending signals to it.
type running struct {
	do func(func() error) error // calls a function on a thread whose signals reach only the command
	in *container               // passes signals on at the level container, nil at other levels

	mu       sync.Mutex
	pid      int // process ID of the first process and of its group; 0 before the command starts
	over     bool
	terminal int              // -1 for none
	early    []syscall.Signal // signals that came before the command started
}

// expect resets r before a command starts.
func (r *running) expect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pid, r.over = 0, false
}

// begin records that the command has started, and sends the signals that came before.
func (r *running) begin(pid, terminal int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pid, r.terminal = pid, terminal
	for _, s := range r.early {
		r.send(s)
	}
	r.early = nil
}

// end records that the command has ended.
func (r *running) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
}

// pass sends a signal to the command. If the command has not started yet, begin sends it.
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
		if r.in != nil && r.in.pass(s, r.terminal >= 0) {
			return nil
		}
		for _, group := range list {
			unix.Kill(-group, s)
		}
		return nil
	})
}

// foreground returns the process group in the foreground of the terminal. If there is no
// terminal, or the group in front is not one of the command's, it returns the command's
// own group.
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

// stopped reports whether the command is stopped and the caller has to know. The kernel
// has reported that it was stopped.
func (r *running) stopped(by syscall.Signal) bool {
	if f := claim.Stat(r.pid); len(f) == 0 || f[0] != "T" {
		return false // it has continued
	}
	front, err := unix.IoctlGetInt(r.terminal, unix.TIOCGPGRP)
	if err == nil && front == r.pid && (by == unix.SIGTTIN || by == unix.SIGTTOU) {
		r.pass(unix.SIGCONT) // it came to the foreground only after it was stopped
		return false
	}
	return true
}
