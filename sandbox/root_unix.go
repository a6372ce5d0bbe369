//go:build linux || darwin

package sandbox

import (
	"os"
	"syscall"
	"time"
)

// nonblock makes the open of a pipe come back at once.
const nonblock = syscall.O_NONBLOCK

// lockFolder takes the lock of a directory, as tree does, so that processes on
// both ways exclude each other.
func lockDir(dir *os.Root) (unlock func(), err error) {
	f, err := dir.Open(".")
	if err != nil {
		return func() {}, nil // it may not be read: do without, as tree does
	}
	for wait := 20 * time.Microsecond; wait < time.Second/2; wait += wait / 8 {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != syscall.EWOULDBLOCK && err != syscall.EINTR {
			return func() { f.Close() }, nil
		}
		time.Sleep(wait)
	}
	f.Close()
	return nil, errLocked
}

// rename moves between two directories that are open already, so that nobody can
// swap them for links. os.Root has no such call.
func (d *rootDir) rename(_ string, fromDir *os.Root, fromBase, _ string, toDir *os.Root, toBase string) error {
	from, err := fromDir.Open(".")
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := toDir.Open(".")
	if err != nil {
		return err
	}
	defer to.Close()
	return renameNew(int(from.Fd()), fromBase, int(to.Fd()), toBase)
}

// keepOwner gives a new file the owner of the one it replaces, where it can.
func keepOwner(f *os.File, old os.FileInfo) {
	if st, ok := old.Sys().(*syscall.Stat_t); ok {
		f.Chown(int(st.Uid), int(st.Gid))
	}
}
