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

// ours reports whether a file belongs to the user.
func ours(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
