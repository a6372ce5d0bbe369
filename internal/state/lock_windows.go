package state

import (
	"io"
	"os"

	"golang.org/x/sys/windows"
)

// lock waits for the lock of a document and takes it, until it is closed.
func (f *Folder) lock(name string) (io.Closer, error) {
	file, err := f.root.OpenFile(name+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = windows.LockFileEx(windows.Handle(file.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK, 0, 1, 0, new(windows.Overlapped))
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// sync does nothing: Windows keeps names by itself.
func (f *Folder) sync() error { return nil }

// ours is true: whose a folder is, Windows keeps in its access list.
func ours(os.FileInfo) bool { return true }
