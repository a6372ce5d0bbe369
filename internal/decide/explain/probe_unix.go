//go:build unix

package explain

import "golang.org/x/sys/unix"

// hostWritable returns an error if this process may not change a directory.
func hostWritable(folder string) error {
	return unix.Faccessat(unix.AT_FDCWD, folder, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
}
