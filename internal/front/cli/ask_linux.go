package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const getTermios, setTermios, countInput = unix.TCGETS, unix.TCSETS, unix.TIOCINQ

func flushInput(fd int) error { return unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) }

// take waits until no other process asks at this terminal, and locks it until release is
// called. The lock is on the terminal itself. take opens the terminal again, because an
// inherited descriptor would share the lock.
func (k *keyboard) take(ctx context.Context, wait time.Duration) (release func(), err error) {
	own, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", k.file.Fd()), os.O_RDWR|unix.O_NOCTTY, 0)
	if errors.Is(err, fs.ErrPermission) {
		return nil, errForeign
	} else if err != nil {
		return nil, errNobody
	}
	for deadline := time.Now().Add(wait); ; time.Sleep(20 * time.Millisecond) {
		err := unix.Flock(int(own.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() { own.Close() }, nil
		case err == unix.EINTR || err == unix.EWOULDBLOCK && ctx.Err() == nil && time.Now().Before(deadline):
			continue
		}
		own.Close()
		return nil, errNobody
	}
}

// A guard lets golem print to a terminal only while no question is open there. A question
// takes an exclusive lock on the terminal. A printing process takes a shared lock.
type guard struct{ file *os.File }

// openGuard opens a terminal again. It returns nil if that fails.
func openGuard(f *os.File) *guard {
	own, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	return &guard{own}
}

// share reports whether no question is open at the terminal. If so, no question can open
// until release is called.
func (g *guard) share() (release func(), free bool) {
	if g == nil {
		return func() {}, true
	}
	for {
		switch err := unix.Flock(int(g.file.Fd()), unix.LOCK_SH|unix.LOCK_NB); err {
		case unix.EINTR:
		case unix.EWOULDBLOCK:
			return nil, false
		default: // no other error means that a question is open
			return func() { unix.Flock(int(g.file.Fd()), unix.LOCK_UN) }, true
		}
	}
}
