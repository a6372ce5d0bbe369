package overlay

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// These functions change the upperdir. A mounted overlay sees their changes after the
// kernel has skipped its cache.

// setMode sets the permission bits of a directory of the upperdir.
func (t *tree) setMode(name string, mode uint32) error {
	fd, err := t.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
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
func (t *tree) clearOpaque(name string) error {
	fd, err := t.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
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
func (s *walk) expandOpaque(name string) error {
	if err := s.bases.flush(); err != nil {
		return err
	}
	names, err := s.upper.list(name)
	if err != nil {
		return err
	}
	below, err := s.lower.list(name)
	if err != nil {
		return err
	}
	for _, base := range below {
		at := joinName(name, base)
		_, was, err := s.statReal(at)
		if err != nil {
			return err
		}
		if _, found := slices.BinarySearch(names, base); !found && was != Nothing {
			err = s.upper.makeWhiteout(at)
		} else if found && was == Dir {
			err = s.upper.setOpaque(at)
		}
		if err != nil {
			return err
		}
	}
	return s.upper.clearOpaque(name)
}

// makeWhiteout marks a file as deleted.
func (t *tree) makeWhiteout(name string) error {
	err := t.withParent(name, func(dir int, base string) error { return unix.Mknodat(dir, base, unix.S_IFCHR, 0) })
	if err == unix.EEXIST {
		return nil
	}
	return err
}

// setOpaque makes a directory of the upperdir hide the real one.
func (t *tree) setOpaque(name string) error {
	fd, err := t.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) {
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
func (t *tree) removeFromUpper(name string) error {
	err := t.withParent(name, func(dir int, base string) error {
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
