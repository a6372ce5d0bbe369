//go:build unix

package state

import (
	"os"
	"syscall"
)

// nonblock lets a pipe be opened, and then refused, without waiting for its
// other end.
const nonblock = syscall.O_NONBLOCK

// locks are the kernel's: a process that ends, in whatever way, holds none.
type locks struct{}

// take takes the lock of an open file. Without wait, it reports whether it could.
func (*locks) take(file *os.File, wait bool) (bool, error) {
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	for {
		switch err := syscall.Flock(int(file.Fd()), how); err {
		case nil:
			return true, nil
		case syscall.EINTR:
		case syscall.EWOULDBLOCK:
			return false, nil
		default:
			return false, err
		}
	}
}

// free gives the lock of an open file back.
func (*locks) free(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_UN)
}

// sync puts the names of the folder on the disk.
func (f *Folder) sync() error {
	dir, err := f.root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// ours reports whether a file belongs to the user.
func ours(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
