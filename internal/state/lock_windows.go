package state

import (
	"os"

	"golang.org/x/sys/windows"
)

// nonblock is for systems whose folders hold pipes.
const nonblock = 0

// locks are the kernel's: a process that ends, in whatever way, holds none.
type locks struct{}

// spot is where the lock of a file is: nobody can read what is locked, so it
// is far behind what is in the file.
func spot() *windows.Overlapped { return &windows.Overlapped{OffsetHigh: 1 << 30} }

// take takes the lock of an open file. Without wait, it reports whether it could.
func (*locks) take(file *os.File, wait bool) (bool, error) {
	var how uint32 = windows.LOCKFILE_EXCLUSIVE_LOCK
	if !wait {
		how |= windows.LOCKFILE_FAIL_IMMEDIATELY
	}
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

// sync does nothing: Windows keeps names by itself.
func (f *Folder) sync() error { return nil }

// ours is true: whose a folder is, Windows keeps in its access list.
func ours(os.FileInfo) bool { return true }
