package layer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Remove removes a store, whatever is in it.
func (l Layer) Remove() error { return remove(l.Store) }

// remove removes a folder with all in it, however deep: a folder in it is first
// moved to its top.
func remove(name string) error {
	root, err := os.OpenRoot(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	next := 0
	for {
		entries, err := fs.ReadDir(root.FS(), ".")
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			return os.Remove(name)
		}
		for _, e := range entries {
			if err := flatten(root, e, &next); err != nil {
				return err
			}
		}
	}
}

// flatten removes an entry of a folder, or what is in it but for folders, which
// are moved up.
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
			*next++
			root.Chmod(at, 0o700) // who moves a folder must be able to write it
			err = root.Rename(at, fmt.Sprintf(".%d", *next))
		}
		if err != nil {
			return err
		}
	}
	return root.Remove(e.Name())
}
