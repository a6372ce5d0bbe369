package overlay

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// RemoveUnfinished removes the unfinished copies that a killed jail left in the upperdir.
// The overlay is not mounted.
func RemoveUnfinished(o Overlay) error {
	return filepath.WalkDir(o.UpperDir(), func(name string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) {
			return nil // a directory that the user cannot read
		}
		if err != nil || !e.IsDir() || !IsUnfinished(e.Name()) {
			return err
		}
		if err := remove(name); err != nil && !errors.Is(err, os.ErrPermission) {
			return err
		}
		return fs.SkipDir
	})
}
