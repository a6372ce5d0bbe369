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
// It also keeps every markEvery-th directory above that one open, so that an access costs
// the same at any depth.
type tree struct {
	fd      int
	lastDir string
	lastFD  int    // of lastDir, or -1
	marks   []mark // directories above lastDir, from the top

	noMounts bool // refuse to open paths on other mounts
	isDenied bool // this process was not allowed to access a path
}

// markEvery is the number of parts of a path between two marks. A path of 4,096 bytes has
// at most 2,048 parts, so a tree has at most 32 marks.
const markEvery = 64

// A mark is a directory that a tree keeps open.
type mark struct {
	dir string
	fd  int
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

// closeLast closes the directory of the last access and those above it, because others
// may be at their paths now.
func (t *tree) closeLast() {
	if t.lastFD >= 0 {
		unix.Close(t.lastFD)
	}
	t.lastFD = -1
	t.dropMarks(0)
}

// dropMarks closes all marks but the first n.
func (t *tree) dropMarks(n int) {
	for _, m := range t.marks[n:] {
		unix.Close(m.fd)
	}
	t.marks = t.marks[:n]
}

// nearest returns the number of marks above a path, the last of them or the directory of
// the tree, and the rest of the path.
func (t *tree) nearest(name string) (n, fd int, rest string) {
	for n := len(t.marks); n > 0; n-- {
		if rest, ok := strings.CutPrefix(name, t.marks[n-1].dir+"/"); ok {
			return n, t.marks[n-1].fd, rest
		}
	}
	return 0, t.fd, name
}

// openMarked opens a directory, and marks directories above it.
func (t *tree) openMarked(name string) (int, error) {
	n, at, rest := t.nearest(name)
	t.dropMarks(n)
	for end := endOfParts(rest, markEvery); end < len(rest); end = endOfParts(rest, markEvery) {
		fd, err := t.openAt(at, rest[:end], unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return -1, err
		}
		at, rest = fd, rest[end+1:]
		t.marks = append(t.marks, mark{name[:len(name)-len(rest)-1], fd})
	}
	return t.openAt(at, rest, unix.O_PATH|unix.O_DIRECTORY)
}

// endOfParts returns the length of the first n parts of a path.
func endOfParts(name string, n int) int {
	for i := range len(name) {
		if name[i] != '/' {
			continue
		}
		if n--; n == 0 {
			return i
		}
	}
	return len(name)
}

// errNoOpenat2 is the error on a kernel, or in a container with an old system call
// filter, that has no openat2.
var errNoOpenat2 = errors.New("sessions need the system call openat2 (Linux 5.6), and this kernel or container does not have it; golem doctor lists what works")

// open opens a path below the directory. No path leads out of it.
func (t *tree) open(name string, flags int) (int, error) {
	_, at, rest := t.nearest(name)
	return t.openAt(at, rest, flags)
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
	if name == "" {
		name = "."
	}
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
		fd, err := t.openMarked(dir)
		if err != nil {
			return err
		}
		if t.lastFD >= 0 {
			unix.Close(t.lastFD)
		}
		t.lastDir, t.lastFD = dir, fd
	}
	return do(t.lastFD, base)
}

// hasOpen reports whether a directory is the one of the last access.
func (t *tree) hasOpen(dir string) bool {
	return t.lastFD >= 0 && dir != "." && t.lastDir == dir
}

// makeParents makes the missing directories above a path. It looks from the bottom up,
// because most paths lack at most one.
func (t *tree) makeParents(name string) error {
	dir := path.Dir(name)
	err := t.withParent(name, func(int, string) error { return nil })
	if dir == "." || !errors.Is(err, unix.ENOENT) {
		return err
	}
	if err := t.makeParents(dir); err != nil {
		return err
	}
	err = t.withParent(dir, func(fd int, base string) error { return unix.Mkdirat(fd, base, 0o700) })
	if err == unix.EEXIST {
		return nil
	}
	return err
}

// moveTo moves a file or directory to the same path of another tree, where nothing may be.
func (t *tree) moveTo(to *tree, name string) error {
	defer t.dropMarks(0)
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
