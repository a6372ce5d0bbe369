//go:build linux || darwin

package sandbox

import (
	"os"
	"syscall"
	"time"
)

// nonblock makes the open of a pipe return at once.
const nonblock = syscall.O_NONBLOCK

// lockDir locks a directory in the same way as tree, so that processes with either
// backend exclude each other.
func lockDir(dir *os.Root) (unlock func(), err error) {
	f, err := dir.Open(".")
	if err != nil {
		return func() {}, nil // the directory cannot be read: continue without a lock, as tree does
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

// rename renames between two open directories, so that nobody can replace them by
// symlinks. os.Root has no such method.
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

// keepOwner gives a new file the owner of the file it replaces, if the process may do
// that.
func keepOwner(f *os.File, old os.FileInfo) {
	if st, ok := old.Sys().(*syscall.Stat_t); ok {
		f.Chown(int(st.Uid), int(st.Gid))
	}
}
