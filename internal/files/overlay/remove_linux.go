package overlay

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Remove removes the store with everything in it.
func (o Overlay) Remove() error { return remove(o.Store) }

// remove removes a directory with everything in it, however deep: it first moves inner
// directories to the top. A kernel that mounts an overlay at the same moment may add
// files. remove retries because of that, but not forever.
func remove(name string) error {
	root, err := os.OpenRoot(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	next, spare := 0, 100
	for {
		entries, err := fs.ReadDir(root.FS(), ".")
		if err == nil && len(entries) == 0 {
			err = os.Remove(name)
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				return nil
			}
		}
		for _, e := range entries {
			if err == nil {
				err = flatten(root, e, &next)
			}
		}
		if err == nil {
			continue
		}
		if spare--; spare == 0 || !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
}

// flatten removes an entry of a directory. If it is a directory, flatten removes its
// files and moves its directories up.
func flatten(root *os.Root, e fs.DirEntry, next *int) error {
	if !e.IsDir() {
		return root.Remove(e.Name())
	}
	if root.Remove(e.Name()) == nil {
		return nil // it was empty
	}
	root.Chmod(e.Name(), 0o700)
	inner, err := root.OpenRoot(e.Name())
	if err != nil {
		return err
	}
	defer inner.Close()
	below, err := fs.ReadDir(inner.FS(), ".")
	if err != nil {
		return err
	}
	for _, b := range below {
		at := e.Name() + "/" + b.Name()
		if !b.IsDir() {
			err = root.Remove(at)
		} else if root.Remove(at) != nil {
			root.Chmod(at, 0o700) // moving a directory requires write permission on it
			err = root.Rename(at, freeName(root, next))
		}
		if err != nil {
			return err
		}
	}
	return root.Remove(e.Name())
}

// freeName returns a name that nothing at the top has. A killed process may have left
// some of them.
func freeName(root *os.Root, next *int) string {
	for {
		*next++
		name := fmt.Sprintf(".%d", *next)
		if _, err := root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return name
		}
	}
}
