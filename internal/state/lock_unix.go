//go:build unix

package state

import (
	"errors"
	"os"
	"syscall"
)

// nonblock lets a pipe be opened, and then refused, without waiting for its
// other end.
const nonblock = syscall.O_NONBLOCK

// locks are the kernel's: a process that ends, in whatever way, holds none.
type locks struct{}

// take takes the lock of an open file, and reports whether it could.
func (*locks) take(file *os.File) (bool, error) {
	for {
		switch err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err {
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

// guard keeps others from changing what is in the directory, of which name is what
// the caller is about. The lock is the directory's own: a file that only held a
// lock could be deleted, and another be locked in its place.
func (f *Folder) guard(name string) (free func() error, err error) {
	dir, err := f.root.Open(".")
	if err != nil {
		return nil, trouble(name, err)
	}
	if err := f.await(dir); err != nil {
		dir.Close()
		return nil, trouble(name, err)
	}
	return func() error { return errors.Join(f.locks.free(dir), dir.Close()) }, nil
}

// sync puts the names of the directory on the disk.
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
