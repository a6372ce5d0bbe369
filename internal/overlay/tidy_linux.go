package overlay

import (
	"errors"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// What is done in a layer to put it in order. An overlay that is mounted sees it when
// it has forgotten what it knows.

// setMode gives a folder of the layer permission bits.
func (k *keeper) setMode(name string, mode uint32) error {
	fd, err := k.upper.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || bits(st) == mode {
		return err
	}
	return unix.Fchmod(fd, mode)
}

// opaque is the attribute of a folder that covers the real one.
const opaque = "user.overlay.opaque"

// uncover lets what is below a folder of the layer be seen.
func (k *keeper) uncover(name string) error {
	fd, err := k.upper.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Fremovexattr(fd, opaque); err != unix.ENODATA && err != unix.EOPNOTSUPP {
		return err
	}
	return nil
}

// unfold makes of a folder that covers the real one one that does not: what it has
// covered is deleted one by one. The versions must be found if that is interrupted.
func (k *keeper) unfold(name string) error {
	if err := k.bases.flush(); err != nil {
		return err
	}
	names, err := k.upper.names(name)
	if err != nil {
		return err
	}
	below, err := k.lower.names(name)
	if err != nil {
		return err
	}
	for _, base := range below {
		at := path.Join(name, base)
		_, was, err := k.real(at)
		if err != nil {
			return err
		}
		if _, found := slices.BinarySearch(names, base); !found && was != Nothing {
			err = k.bury(at)
		} else if found && was == Dir {
			err = k.cover(at)
		}
		if err != nil {
			return err
		}
	}
	return k.uncover(name)
}

// bury puts the mark of something deleted.
func (k *keeper) bury(name string) error {
	err := k.upper.within(name, func(dir int, base string) error { return unix.Mknodat(dir, base, unix.S_IFCHR, 0) })
	if err == unix.EEXIST {
		return nil
	}
	return err
}

// cover lets a folder of the layer hide what is below it.
func (k *keeper) cover(name string) error {
	fd, err := k.upper.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if k.away(err) {
		return nil // it is none
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fsetxattr(fd, opaque, []byte("y"), 0)
}

// takeOut takes something out of the layer. A folder that is not empty stays.
func (k *keeper) takeOut(name string) error {
	err := k.upper.within(name, func(dir int, base string) error {
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
