//go:build !linux && !darwin

package sandbox

import (
	"os"
	"path"
)

const nonblock = 0

// lockFolder does nothing where directories have no locks: between the check of a
// version and the rename another process may write.
func lockDir(*os.Root) (unlock func(), err error) { return func() {}, nil }

// rename moves by names: nothing here moves between open directories. Whoever swaps
// one of them for a link at this moment leads the move astray in the mount.
func (d *rootDir) rename(from string, _ *os.Root, _, to string, _ *os.Root, _ string) error {
	return d.top.Rename(path.Join(d.prefix, from), path.Join(d.prefix, to))
}

// keepOwner does nothing: a file belongs to whoever made it.
func keepOwner(*os.File, os.FileInfo) {}
