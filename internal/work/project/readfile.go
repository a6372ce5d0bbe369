package project

import (
	"errors"
	"io"
	"os"
)

// ReadFile reads a regular file in a directory that a stranger may have written. It
// refuses symlinks, whose target may be unprotected, and named pipes, which may never
// end. It returns at most limit+1 bytes.
func ReadFile(dir, name string, limit int64) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return ReadFileIn(root, name, limit)
}

// ReadFileIn is like ReadFile, for a directory that is open.
func ReadFileIn(root *os.Root, name string, limit int64) ([]byte, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit+1))
}
