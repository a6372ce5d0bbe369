package overlay

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A tree is a directory whose files are accessed by paths below it, without following
// symlinks. It keeps the directory of the last access open, because paths come in order.
type tree struct {
	fd      int
	lastDir string
	lastFD  int // of lastDir, or -1

	noMounts bool // refuse to open paths on other mounts
	isDenied bool // this process was not allowed to access a path
}

func openTree(name string) (*tree, error) {
	fd, err := unix.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path.Base(name), err)
	}
	return &tree{fd: fd, lastFD: -1}, nil
}

// ErrReplaced is the error if another directory has the path of the real one.
var ErrReplaced = errors.New("the directory was replaced by another one meanwhile; the changes were not applied")

// openDir opens the real directory.
func openDir(o Overlay) (*tree, error) {
	t, err := openTree(o.Dir)
	if err != nil || o.Inode == 0 {
		return t, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(t.fd, &st); err == nil && (uint64(st.Dev) != o.Device || st.Ino != o.Inode) {
		err = ErrReplaced
	}
	if err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *tree) close() {
	if t == nil {
		return
	}
	t.closeLast()
	unix.Close(t.fd)
}

// closeLast closes the directory of the last access, because another one may be at its
// path now.
func (t *tree) closeLast() {
	if t.lastFD >= 0 {
		unix.Close(t.lastFD)
	}
	t.lastFD = -1
}

// errNoOpenat2 is the error on a kernel, or in a container with an old system call
// filter, that has no openat2.
var errNoOpenat2 = errors.New("sessions need the system call openat2 (Linux 5.6), and this kernel or container does not have it; golem doctor lists what works")

// open opens a path below the directory. No path leads out of it.
func (t *tree) open(name string, flags int) (int, error) {
	if name == "" {
		name = "."
	}
	return t.openAt(t.fd, name, flags)
}

// openNear is open for a path whose directory is often that of the last access.
func (t *tree) openNear(name string, flags int) (fd int, err error) {
	err = t.withParent(name, func(dir int, base string) error {
		fd, err = t.openAt(dir, base, flags)
		return err
	})
	if err != nil {
		return -1, err
	}
	return fd, nil
}

func (t *tree) openAt(dir int, name string, flags int) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags) | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	if t.noMounts {
		how.Resolve |= unix.RESOLVE_NO_XDEV
	}
	for {
		fd, err := unix.Openat2(dir, name, &how)
		switch err {
		case unix.EINTR, unix.EAGAIN:
			continue
		case unix.ENOSYS:
			err = errNoOpenat2
		case unix.EXDEV:
			// A directory of the path moved out of the tree meanwhile: an overlay moves a
			// deleted directory into its workdir.
			if !t.noMounts {
				err = unix.ENOENT
			}
		}
		return fd, t.note(err)
	}
}

// note records whether an error is one of permissions.
func (t *tree) note(err error) error {
	t.isDenied = t.isDenied || err == unix.EACCES || err == unix.EPERM
	return err
}

// withParent calls do with the open parent directory of a path and the last part of the
// path.
func (t *tree) withParent(name string, do func(dir int, base string) error) error {
	dir, base := path.Split(name)
	if dir = strings.TrimSuffix(dir, "/"); t.lastFD < 0 || dir != t.lastDir {
		fd, err := t.open(dir, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		t.closeLast()
		t.lastDir, t.lastFD = dir, fd
	}
	return do(t.lastFD, base)
}

// hasOpen reports whether a directory is the one of the last access.
func (t *tree) hasOpen(dir string) bool {
	return t.lastFD >= 0 && dir != "." && t.lastDir == dir
}

// makeParents makes the missing directories above a path.
func (t *tree) makeParents(name string) error {
	for _, dir := range parents(name) {
		err := t.withParent(dir, func(fd int, base string) error { return unix.Mkdirat(fd, base, 0o700) })
		if err != nil && err != unix.EEXIST {
			return err
		}
	}
	return nil
}

// moveTo moves a file or directory to the same path of another tree, where nothing may be.
func (t *tree) moveTo(to *tree, name string) error {
	return t.withParent(name, func(dir int, base string) error {
		return to.withParent(name, func(at int, _ string) error {
			return unix.Renameat2(dir, base, at, base, unix.RENAME_NOREPLACE)
		})
	})
}

// stat returns the state of a path, without following symlinks.
func (t *tree) stat(name string) (st unix.Stat_t, err error) {
	if name == "" || name == "." {
		return st, unix.Fstat(t.fd, &st)
	}
	err = t.withParent(name, func(dir int, base string) error { return unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW) })
	return st, t.note(err)
}

// list returns the names in a directory, sorted.
func (t *tree) list(name string) ([]string, error) {
	fd, err := t.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	list, err := f.Readdirnames(-1)
	slices.Sort(list)
	return list, err
}

// readLink returns the target of a symlink.
func (t *tree) readLink(name string) (to string, err error) {
	err = t.withParent(name, func(dir int, base string) error {
		buf := make([]byte, maxPath)
		n, err := unix.Readlinkat(dir, base, buf)
		if err == nil {
			to = string(buf[:n])
		}
		return err
	})
	return to, t.note(err)
}
