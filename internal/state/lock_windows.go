package state

import (
	"os"

	"golang.org/x/sys/windows"
)

// nonblock is for systems whose directories hold pipes.
const nonblock = 0

// locks are the kernel's: a process that ends, in whatever way, holds none.
type locks struct{}

// spot is where the lock of a file is: nobody can read what is locked, so it
// is far behind what is in the file.
func spot() *windows.Overlapped { return &windows.Overlapped{OffsetHigh: 1 << 30} }

// take takes the lock of an open file, and reports whether it could.
func (*locks) take(file *os.File) (bool, error) {
	const how = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(file.Fd()), how, 0, 1, 0, spot())
	if err == windows.ERROR_LOCK_VIOLATION {
		return false, nil
	}
	return err == nil, err
}

// free gives the lock of an open file back.
func (*locks) free(file *os.File) error {
	return windows.UnlockFileEx(windows.Handle(file.Fd()), 0, 1, 0, spot())
}

// guard keeps others from changing what is in the directory. Windows locks no
// directories, so it is by a file, which must not be deleted meanwhile.
func (f *Folder) guard(string) (free func() error, err error) {
	file, err := f.lock("folder.lock", nil, true)
	if err != nil {
		return nil, err
	}
	return func() error { return f.unlock(file) }, nil
}

// sync does nothing: Windows keeps names by itself.
func (f *Folder) sync() error { return nil }

// ours is true: whose a directory is, Windows keeps in its access list.
func ours(os.FileInfo) bool { return true }
