//go:build unix

package state

import (
	"io"
	"os"
	"syscall"
)

// lock waits for the lock of a document and takes it, until it is closed.
func (f *Folder) lock(name string) (io.Closer, error) {
	file, err := f.root.OpenFile(name+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
		if err == nil {
			return file, nil
		}
		if err != syscall.EINTR {
			file.Close()
			return nil, err
		}
	}
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
