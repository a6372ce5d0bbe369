//go:build unix

package durable

import (
	"errors"
	"os"
	"syscall"
)

// syncFile syncs a file that is open for reading.
func syncFile(f *os.File) error { return f.Sync() }

// syncDir syncs a directory. It ignores the error of file systems that cannot do that.
func syncDir(f *os.File) error {
	err := f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		return nil
	}
	return err
}
