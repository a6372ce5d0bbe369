//go:build linux || darwin

package sandboxtest

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// plantSpecial makes a pipe, a socket without a listener, or a device that returns zeros
// forever.
func plantSpecial(at string, mode fs.FileMode) error {
	switch mode.Type() {
	case fs.ModeNamedPipe:
		return unix.Mkfifo(at, 0o644)
	case fs.ModeSocket:
		return unix.Mknod(at, unix.S_IFSOCK|0o644, 0)
	case fs.ModeDevice | fs.ModeCharDevice:
		return unix.Mknod(at, unix.S_IFCHR|0o644, int(unix.Mkdev(1, 5)))
	}
	return errors.ErrUnsupported
}
