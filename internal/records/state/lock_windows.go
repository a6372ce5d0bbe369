package state

import (
	"os"

	"golang.org/x/sys/windows"
)

// nonblock is only needed where a directory can hold pipes.
const nonblock = 0

// locks are the kernel's. It releases them when a process ends, in whatever way.
type locks struct{}

// spot is the locked byte. Nobody can read a locked byte, so it is far behind the
// content.
func spot() *windows.Overlapped { return &windows.Overlapped{OffsetHigh: 1 << 30} }

// take locks an open file and reports whether it could.
func (*locks) take(file *os.File) (bool, error) {
	const how = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(file.Fd()), how, 0, 1, 0, spot())
	if err == windows.ERROR_LOCK_VIOLATION {
		return false, nil
	}
	return err == nil, err
}

// free releases the lock of an open file.
func (*locks) free(file *os.File) error {
	return windows.UnlockFileEx(windows.Handle(file.Fd()), 0, 1, 0, spot())
}

// guard excludes other changes of the directory. Windows cannot lock directories, so it
// locks a file, which must not be deleted meanwhile.
func (f *Dir) guard(string) (free func() error, err error) {
	file, err := f.lock("folder.lock", nil, true)
	if err != nil {
		return nil, err
	}
	return func() error { return f.unlock(file) }, nil
}

// sync does nothing: Windows has no call for it.
func (f *Dir) sync() error { return nil }

// ownerOf returns false: golem does not ask this system for owners.
func ownerOf(os.FileInfo) (id int, ok bool) { return 0, false }
