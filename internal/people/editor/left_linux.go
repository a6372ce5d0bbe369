package editor

import (
	"os"
	"path/filepath"

	"github.com/golem-forge/golem/internal/files/claim"
)

// makeClaimed makes a directory that RemoveLeft keeps until free is called or this process ends.
func makeClaimed(in string) (dir string, free func(), err error) {
	for i := 0; ; i++ {
		dir = filepath.Join(in, claim.Name(i))
		if err = os.Mkdir(dir, 0o700); !os.IsExist(err) {
			break
		}
	}
	if err != nil {
		return "", nil, err
	}
	held, err := claim.Hold(dir)
	if err != nil {
		return "", nil, err
	}
	return dir, func() { held.Close() }, nil
}

// RemoveLeft removes the copies that killed golems left in a directory.
func RemoveLeft(in string) {
	claim.Sweep(in, func(dir string) error {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() {
			return err
		}
		held, ok := claim.Seize(dir)
		if !ok {
			return nil
		}
		defer held.Close()
		return removeTree(dir)
	})
}
