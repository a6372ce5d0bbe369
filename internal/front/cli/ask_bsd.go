//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package cli

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const getTermios, setTermios = unix.TIOCGETA, unix.TIOCSETA

// countInput is FIONREAD, which is the same on all of them.
const countInput = 0x4004667f

func flushInput(fd int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, unix.TCIFLUSH) }

// take does not keep other processes from the terminal: it cannot be opened anew
// by its descriptor here.
func (k *keyboard) take(context.Context, time.Duration) (release func(), err error) {
	return func() {}, nil
}

// A guard would share a terminal with a golem that asks at it; there are no locks on
// terminals here.
type guard struct{}

func openGuard(*os.File) *guard { return nil }

func (*guard) share() (release func(), free bool) { return func() {}, true }
