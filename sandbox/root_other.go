//go:build !linux && !darwin

package sandbox

import (
	"os"
	"path"
)

const nonblock = 0

// lockDir does nothing, because directories have no locks here. Another process may write
// between the check of a version and the rename.
func lockDir(*os.Root) (unlock func(), err error) { return func() {}, nil }

// rename renames by path, because this system cannot rename between open directories. If
// somebody replaces one of them by a symlink at this moment, the file may get to another
// directory of the mount.
func (d *rootDir) rename(from string, _ *os.Root, _, to string, _ *os.Root, _ string) error {
	return d.top.Rename(path.Join(d.prefix, from), path.Join(d.prefix, to))
}

// keepOwner does nothing: a new file belongs to the current user.
func keepOwner(*os.File, os.FileInfo) {}
