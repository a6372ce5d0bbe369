package undo

import (
	"os"

	"golang.org/x/sys/unix"
)

// startSync makes the kernel write a file to the disk, and does not wait for it. Some file
// systems cannot do this, and then the sync that follows does all of it.
func startSync(f *os.File) { unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE) }

// syncData waits until the content of a file is on the disk, without its times.
func syncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return err
		}
	}
}
