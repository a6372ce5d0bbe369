package overlay

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/durable"
)

// If the store is on another mount than the real directory, golem cannot rename files
// between them. It then copies the new files to a staging directory inside the real one,
// and renames them from there. Afterwards it removes the staging directory with the old
// files, so that Undo is not possible.

const (
	stagingName = "staging" // holds the name of the staging directory
	finalName   = "final"   // marks that Undo is not possible
)

// IsFinal reports whether the changes cannot be undone.
func (o Overlay) IsFinal() bool { return exists(o.Store + "/" + finalName) }

// RemoveStaging removes the staging directory, if there is one, after all changes were
// applied. They cannot be undone then.
func (o Overlay) RemoveStaging() error {
	if stagingOf(o) == o {
		return nil
	}
	if err := durable.WriteAlone(o.Store+"/"+finalName, nil, 0o600); err != nil {
		return err
	}
	return removeStagingDir(o)
}

// removeStagingDir removes the staging directory, if there is one.
func removeStagingDir(o Overlay) error {
	if from := stagingOf(o); from != o {
		return remove(from.Store)
	}
	return nil
}

// CanUndo reports whether changes can be undone after golem has applied them: golem can rename
// files between the real directory and the store, and so keep the old ones.
func CanUndo(o Overlay) bool {
	var a, b unix.Statx_t
	for name, st := range map[string]*unix.Statx_t{o.Dir: &a, o.Store: &b} {
		if unix.Statx(unix.AT_FDCWD, name, 0, unix.STATX_MNT_ID, st) != nil {
			return false
		}
	}
	return a.Mnt_id == b.Mnt_id
}

// stagingOf returns the overlay that files are moved from and to: the one in the staging
// directory if there is one, otherwise o.
func stagingOf(o Overlay) Overlay {
	name, err := os.ReadFile(o.Store + "/" + stagingName)
	if err != nil || path.Base(string(name)) != string(name) {
		return o
	}
	return Overlay{Dir: o.Dir, Store: o.Dir + "/" + string(name), Device: o.Device, Inode: o.Inode}
}

// stage copies the new files to a staging directory.
func stage(o Overlay, changes []PathChange, skipped []string) error {
	name := ".golem-staging-" + rand.Text() // nobody can guess it
	if err := durable.WriteAlone(o.Store+"/"+stagingName, []byte(name), 0o600); err != nil {
		return err
	}
	to := stagingOf(o)
	if err := os.Mkdir(to.Store, 0o700); err != nil {
		return err
	}
	if err := to.Init(); err != nil {
		return err
	}
	from, err := openTree(o.UpperDir())
	if err != nil {
		return err
	}
	defer from.close()
	root, err := os.OpenRoot(to.UpperDir())
	if err != nil {
		return err
	}
	defer root.Close()
	out := pathSet(matchPaths(skipped))
	for _, c := range changes {
		if !c.hasNewFile() || out.skips(c) {
			continue
		}
		if dir := path.Dir(c.Path); dir != "." {
			if err := root.MkdirAll(dir, 0o700); err != nil {
				return err
			}
		}
		if err := copyChange(root, from, c); err != nil {
			return err
		}
	}
	return nil
}

// copyChange copies one file, directory or symlink.
func copyChange(root *os.Root, from *tree, c PathChange) error {
	switch c.Kind {
	case Dir:
		if err := root.Mkdir(c.Path, 0o700); !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	case Symlink:
		return root.Symlink(c.LinkTarget, c.Path)
	}
	fd, err := from.open(c.Path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	in := os.NewFile(uintptr(fd), c.Path)
	defer in.Close()
	out, err := root.OpenFile(c.Path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	info, err := in.Stat()
	if err != nil {
		return err
	}
	return errors.Join(out.Sync(), root.Chtimes(c.Path, time.Time{}, info.ModTime()))
}
