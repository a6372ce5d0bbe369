package state

import (
	"os"
	"syscall"
)

// syncData puts the content of a file on the disk, without its times.
func syncData(file *os.File) error {
	for {
		if err := syscall.Fdatasync(int(file.Fd())); err != syscall.EINTR {
			return err
		}
	}
}
