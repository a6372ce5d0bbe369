package overlay

import (
	"errors"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// These functions change the upperdir. A mounted overlay sees their changes after the
// kernel has skipped its cache.

// setMode sets the permission bits of a directory of the upperdir.
func (k *overlaySession) setMode(name string, mode uint32) error {
	fd, err := k.upper.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || permissions(st) == mode {
		return err
	}
	return unix.Fchmod(fd, mode)
}

// opaqueAttribute marks a directory that hides the real one.
const opaqueAttribute = "user.overlay.opaque"

// clearOpaque makes a directory of the upperdir show the real one.
func (k *overlaySession) clearOpaque(name string) error {
	fd, err := k.upper.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Fremovexattr(fd, opaqueAttribute); err != unix.ENODATA && err != unix.EOPNOTSUPP {
		return err
	}
	return nil
}

// expandOpaque makes an opaque directory show the real one, and makes a whiteout for each
// real file that it hid. It writes the bases first, in case it is interrupted.
func (k *overlaySession) expandOpaque(name string) error {
	if err := k.bases.flush(); err != nil {
		return err
	}
	names, err := k.upper.list(name)
	if err != nil {
		return err
	}
	below, err := k.lower.list(name)
	if err != nil {
		return err
	}
	for _, base := range below {
		at := path.Join(name, base)
		_, was, err := k.statReal(at)
		if err != nil {
			return err
		}
		if _, found := slices.BinarySearch(names, base); !found && was != Nothing {
			err = k.makeWhiteout(at)
		} else if found && was == Dir {
			err = k.setOpaque(at)
		}
		if err != nil {
			return err
		}
	}
	return k.clearOpaque(name)
}

// makeWhiteout marks a file as deleted.
func (k *overlaySession) makeWhiteout(name string) error {
	err := k.upper.withParent(name, func(dir int, base string) error { return unix.Mknodat(dir, base, unix.S_IFCHR, 0) })
	if err == unix.EEXIST {
		return nil
	}
	return err
}

// setOpaque makes a directory of the upperdir hide the real one.
func (k *overlaySession) setOpaque(name string) error {
	fd, err := k.upper.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if k.canIgnore(err) {
		return nil // it is not a directory
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fsetxattr(fd, opaqueAttribute, []byte("y"), 0)
}

// removeFromUpper removes a file or an empty directory from the upperdir. A directory
// that is not empty stays.
func (k *overlaySession) removeFromUpper(name string) error {
	err := k.upper.withParent(name, func(dir int, base string) error {
		err := unix.Unlinkat(dir, base, 0)
		if err == unix.EISDIR {
			err = unix.Unlinkat(dir, base, unix.AT_REMOVEDIR)
		}
		return err
	})
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTEMPTY) {
		return nil
	}
	return err
}
