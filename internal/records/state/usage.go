package state

import (
	"io/fs"
	"path/filepath"
)

// Usage returns the size of all files below a directory. It skips what it cannot read.
func Usage(dir string) (size int64) {
	filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil
		}
		if info, err := e.Info(); err == nil {
			size += info.Size()
		}
		return nil
	})
	return size
}
