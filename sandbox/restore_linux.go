package sandbox

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// Symlink implements Restorer.
func (d *tree) Symlink(target, name string) error {
	dir, base, err := d.parent(name, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return unix.Symlinkat(target, dir, base)
}

// SetAttr implements Restorer.
func (d *tree) SetAttr(name string, was Attr) error {
	fd, err := d.openat2(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	now, err := fstat(fd)
	if err != nil {
		return err
	}
	if now.UID != was.UID || now.GID != was.GID {
		unix.Fchown(fd, int(was.UID), int(was.GID)) // only root can give a file away
	}
	bits := uint32(was.Mode.Perm())
	if was.Mode.IsDir() && was.Mode&fs.ModeSetgid != 0 { // new files in the directory get its group
		bits |= unix.S_ISGID
	}
	if was.Mode.IsDir() && was.Mode&fs.ModeSticky != 0 {
		bits |= unix.S_ISVTX
	}
	return unix.Fchmod(fd, bits)
}
