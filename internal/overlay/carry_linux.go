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

	"github.com/golem-forge/golem/internal/durable"
)

// Where the store is on another file system than the folder nothing can be moved
// between them. What lands is copied first to a place in the folder itself, from
// where it is moved like anything else, and which is removed then: what was there
// before goes with it, and cannot be brought back.

const (
	carriedName = "carried" // says where that place is
	finalName   = "final"   // says that nothing can be brought back
)

// IsFinal reports whether nothing can be brought back.
func (l Overlay) IsFinal() bool { return there(l.Store + "/" + finalName) }

// RemoveStaging removes the place in the folder that things were moved from, when all has
// landed: what was there before cannot be brought back then.
func (l Overlay) RemoveStaging() error {
	if l.carried() == l {
		return nil
	}
	if err := durable.WriteAlone(l.Store+"/"+finalName, nil, 0o600); err != nil {
		return err
	}
	return l.clearCarried()
}

// clearCarried removes the place, if there is one.
func (l Overlay) clearCarried() error {
	if from := l.carried(); from != l {
		return remove(from.Store)
	}
	return nil
}

// near reports whether things can be moved between the folder and the store.
func (l Overlay) near() bool {
	var a, b unix.Statx_t
	for name, st := range map[string]*unix.Statx_t{l.Dir: &a, l.Store: &b} {
		if unix.Statx(unix.AT_FDCWD, name, 0, unix.STATX_MNT_ID, st) != nil {
			return false
		}
	}
	return a.Mnt_id == b.Mnt_id
}

// carried returns the layer that things are moved from and to: this one, or that in
// the folder.
func (l Overlay) carried() Overlay {
	name, err := os.ReadFile(l.Store + "/" + carriedName)
	if err != nil || path.Base(string(name)) != string(name) {
		return l
	}
	return Overlay{Dir: l.Dir, Store: l.Dir + "/" + string(name), Device: l.Device, Inode: l.Inode}
}

// carry copies what lands into the folder.
func (l Overlay) carry(changes []Change, dropped []string) error {
	name := ".golem-landing-" + rand.Text() // nobody can have put something there
	if err := durable.WriteAlone(l.Store+"/"+carriedName, []byte(name), 0o600); err != nil {
		return err
	}
	to := l.carried()
	if err := os.Mkdir(to.Store, 0o700); err != nil {
		return err
	}
	if err := to.Init(); err != nil {
		return err
	}
	from, err := openTree(l.UpperDir())
	if err != nil {
		return err
	}
	defer from.close()
	root, err := os.OpenRoot(to.UpperDir())
	if err != nil {
		return err
	}
	defer root.Close()
	out := namesOf(dropped)
	for _, c := range changes {
		if !c.brings() || out.drop(c) {
			continue
		}
		if dir := path.Dir(c.Path); dir != "." {
			if err := root.MkdirAll(dir, 0o700); err != nil {
				return err
			}
		}
		if err := copyTo(root, from, c); err != nil {
			return err
		}
	}
	return nil
}

// copyTo copies one thing.
func copyTo(root *os.Root, from *tree, c Change) error {
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
