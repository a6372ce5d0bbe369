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

const getTermios, setTermios = unix.TCGETS, unix.TCSETS

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
