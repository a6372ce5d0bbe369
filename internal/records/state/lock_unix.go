//go:build unix

package state

import (
	"errors"
	"os"
	"syscall"
)

// nonblock lets open refuse a pipe without waiting for its other end.
const nonblock = syscall.O_NONBLOCK

// locks are the kernel's. It releases them when a process ends, in whatever way.
type locks struct{}

// take locks an open file and reports whether it could.
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

// free releases the lock of an open file.
func (*locks) free(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_UN)
}

// guard excludes other changes of the directory. name is the document of the caller, for
// errors. It locks the directory itself: a lock file could be deleted and replaced.
func (f *Dir) guard(name string) (free func() error, err error) {
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

// sync syncs the names in the directory.
func (f *Dir) sync() error {
	dir, err := f.root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// ownerOf returns the number of the user who owns a file.
func ownerOf(info os.FileInfo) (id int, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}
