//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package cli

import (
	"golang.org/x/sys/unix"
)

const getTermios, setTermios = unix.TIOCGETA, unix.TIOCSETA

// countInput is FIONREAD, which is the same on all these systems.
const countInput = 0x4004667f

func flushInput(fd int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, unix.TCIFLUSH) }
