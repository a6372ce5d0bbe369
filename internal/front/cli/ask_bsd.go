//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package cli

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const getTermios, setTermios = unix.TIOCGETA, unix.TIOCSETA

// countInput is FIONREAD, which is the same on all these systems.
const countInput = 0x4004667f

func flushInput(fd int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, unix.TCIFLUSH) }

// take does not lock the terminal against other processes. A process cannot reopen its
// terminal by file descriptor here.
func (k *keyboard) take(context.Context, time.Duration) (release func(), err error) {
	return func() {}, nil
}

// A guard does nothing here, because these systems have no locks on terminals.
type guard struct{}

func openGuard(*os.File) *guard { return nil }

func (*guard) share() (release func(), free bool) { return func() {}, true }
