package state

import (
	"os"
	"syscall"
)

// syncData syncs the content of a file, without its times.
func syncData(file *os.File) error {
	for {
		if err := syscall.Fdatasync(int(file.Fd())); err != syscall.EINTR {
			return err
		}
	}
}
