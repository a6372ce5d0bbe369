package overlay

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Restore gives a layer back what was picked from it, has landed, and was undone: it
// is where it landed from. Where the layer has something by now, that stays. Nobody
// may write to the layer meanwhile. It can be done again.
func (o Overlay) Restore(from Overlay, list []Change) error {
	if err := o.RecordBases(false); err != nil {
		return err
	}
	if err := o.MarkStart(); err != nil { // what it is based on is what is there now
		return err
	}
	k, err := openSession(o, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer k.base().close()
	upper, err := openTree(from.UpperDir())
	if err != nil {
		return err
	}
	defer upper.close()
	return k.restore(upper, list)
}

func (k *overlaySession) restore(from *tree, list []Change) error {
	for _, c := range list { // a folder comes before what is in it, and with it
		if c.Kind == Special {
			continue
		}
		if _, err := k.upper.stat(c.Path); !errors.Is(err, unix.ENOENT) {
			continue
		}
		if err := k.restoreChange(from, c); err != nil && !k.canIgnore(err) {
			return err
		}
	}
	return k.record()
}

// restoreChange brings one thing back, with the folders that it is in.
func (k *overlaySession) restoreChange(from *tree, c Change) error {
	for _, dir := range parents(c.Path) {
		if _, err := k.upper.stat(dir); !errors.Is(err, unix.ENOENT) {
			continue
		}
		if err := k.makeDirLike(dir); err != nil {
			return err
		}
	}
	switch {
	case c.Op == Delete:
		return k.makeWhiteout(c.Path)
	case c.Op == Mode && c.Kind == Dir:
		if err := k.makeDirLike(c.Path); err != nil {
			return err
		}
		return k.setMode(c.Path, c.Mode)
	case c.Op == Mode:
		return k.copyUp(c)
	}
	return from.withParent(c.Path, func(dir int, base string) error {
		return k.upper.withParent(c.Path, func(to int, _ string) error {
			return unix.Renameat2(dir, base, to, base, unix.RENAME_NOREPLACE)
		})
	})
}

// copyUp puts a file of the real folder into the layer, with other permission bits.
func (k *overlaySession) copyUp(c Change) error {
	in, err := k.lower.open(c.Path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	from := os.NewFile(uintptr(in), c.Path)
	defer from.Close()
	return k.upper.withParent(c.Path, func(dir int, base string) error {
		fd, err := unix.Openat(dir, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return err
		}
		to := os.NewFile(uintptr(fd), base)
		defer to.Close()
		if _, err := io.Copy(to, from); err != nil {
			return err
		}
		return unix.Fchmod(fd, c.Mode)
	})
}
