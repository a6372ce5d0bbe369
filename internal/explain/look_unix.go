//go:build unix

package explain

import "golang.org/x/sys/unix"

// hostWritable asks the host whether this process may change a folder.
func hostWritable(folder string) error {
	return unix.Faccessat(unix.AT_FDCWD, folder, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
}
