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

// take waits until no other process asks at this terminal, and keeps others from
// it until it is released. The lock is on the terminal itself, opened anew:
// what was inherited would share it.
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

// A guard shares a terminal with a golem that may ask at it: a question locks the terminal
// for itself, and who prints only looks whether one is open.
type guard struct{ file *os.File }

// openGuard opens a terminal anew; nil where that cannot be done.
func openGuard(f *os.File) *guard {
	own, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	return &guard{own}
}

// share reports whether no question is open at the terminal, and keeps one from being
// opened until it is released.
func (g *guard) share() (release func(), free bool) {
	if g == nil {
		return func() {}, true
	}
	for {
		switch err := unix.Flock(int(g.file.Fd()), unix.LOCK_SH|unix.LOCK_NB); err {
		case unix.EINTR:
		case unix.EWOULDBLOCK:
			return nil, false
		default: // another error is no question
			return func() { unix.Flock(int(g.file.Fd()), unix.LOCK_UN) }, true
		}
	}
}
