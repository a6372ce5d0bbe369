package overlay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// A tree is a folder that is read by names below it, without a link on the way. It
// keeps the folder open that it was asked about last: names come in order.
type tree struct {
	fd   int
	dir  string
	last int // the folder dir, or -1

	stays bool // what is mounted in it is not opened
}

func openTree(name string) (*tree, error) {
	fd, err := unix.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path.Base(name), err)
	}
	return &tree{fd: fd, last: -1}, nil
}

// ErrReplaced says that another folder has the name of the one that was worked on.
var ErrReplaced = errors.New("another directory took the place of the one that was worked on; its changes were not applied")

// openFolder opens the real folder.
func (l Overlay) openFolder() (*tree, error) {
	t, err := openTree(l.Dir)
	if err != nil || l.Inode == 0 {
		return t, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(t.fd, &st); err == nil && (uint64(st.Dev) != l.Device || st.Ino != l.Inode) {
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
	t.forget()
	unix.Close(t.fd)
}

// forget closes the folder that was asked about last: another may be at its name.
func (t *tree) forget() {
	if t.last >= 0 {
		unix.Close(t.last)
	}
	t.last = -1
}

// errNoOpenat2 is a kernel, or a filter of an old container runtime, without a call that
// sessions cannot do without.
var errNoOpenat2 = errors.New("sessions need the system call openat2 (Linux 5.6), and this kernel or container does not have it; golem doctor lists what works")

// open opens what is below the folder. No name leads out of it.
func (t *tree) open(name string, flags int) (int, error) {
	if name == "" {
		name = "."
	}
	how := unix.OpenHow{Flags: uint64(flags) | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	if t.stays {
		how.Resolve |= unix.RESOLVE_NO_XDEV
	}
	for {
		fd, err := unix.Openat2(t.fd, name, &how)
		switch err {
		case unix.EINTR, unix.EAGAIN:
			continue
		case unix.ENOSYS:
			err = errNoOpenat2
		}
		return fd, err
	}
}

// within runs something with the folder that a name is in, and its last part.
func (t *tree) within(name string, do func(dir int, base string) error) error {
	dir, base := path.Split(name)
	if dir = strings.TrimSuffix(dir, "/"); t.last < 0 || dir != t.dir {
		fd, err := t.open(dir, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		t.forget()
		t.dir, t.last = dir, fd
	}
	return do(t.last, base)
}

// stat says what is at a name.
func (t *tree) stat(name string) (st unix.Stat_t, err error) {
	if name == "" || name == "." {
		return st, unix.Fstat(t.fd, &st)
	}
	err = t.within(name, func(dir int, base string) error { return unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW) })
	return st, err
}

// names lists a folder.
func (t *tree) names(name string) ([]string, error) {
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

// link returns what a link says.
func (t *tree) link(name string) (to string, err error) {
	err = t.within(name, func(dir int, base string) error {
		buf := make([]byte, maxPath)
		n, err := unix.Readlinkat(dir, base, buf)
		if err == nil {
			to = string(buf[:n])
		}
		return err
	})
	return to, err
}

// kindOf returns what something is. A device numbered 0 is no device: overlayfs
// marks by it what was deleted.
func kindOf(st unix.Stat_t) Kind {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return File
	case unix.S_IFDIR:
		return Dir
	case unix.S_IFLNK:
		return Symlink
	case unix.S_IFCHR:
		if st.Rdev == 0 {
			return Nothing
		}
	}
	return Special
}

// Changes lists what was changed. Where the real folder has changed meanwhile, so
// that this cannot be told, it is a Conflict. It takes time by how much that is, whatever the
// size of the folder.
func (l Overlay) Changes() ([]Change, error) {
	upper, err := openTree(l.UpperDir())
	if err != nil {
		return nil, err
	}
	defer upper.close()
	lower, err := l.openFolder()
	if err != nil {
		return nil, err
	}
	defer lower.close()
	since, err := stampOf(l.Store + "/" + clockName)
	if err != nil {
		return nil, err
	}
	r := reader{upper: upper, lower: lower, since: since}
	if err := r.folder("", false); err != nil {
		return nil, err
	}
	if len(r.clash) > 0 {
		return nil, &ConflictError{r.clash}
	}
	return r.list, nil
}

// reader makes the list.
type reader struct {
	upper, lower *tree
	since        int64 // when the work began
	list         []Change
	clash        []string
	skips        bool     // what is unfit is left out, and what goes away meanwhile
	unfit        []string // what was
}

// fits reports whether a name can be one. Where it cannot, that is an error, unless
// such are left out.
func (r *reader) fits(name, base string) (bool, error) {
	if utf8.ValidString(base) && len(base) <= maxName && len(name) < maxPath {
		return true, nil
	}
	if !r.skips {
		return false, &NameError{name}
	}
	r.unfit = append(r.unfit, name)
	return false, nil
}

// away reports whether something went away, or became something else, while it was
// looked at, and that is all right.
func (r *reader) away(err error) bool {
	return r.skips && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ELOOP))
}

// folder reads a folder that both sides have. Where it is in one that hides what is
// below it, it does so as well.
func (r *reader) folder(name string, hidden bool) error {
	hidden = hidden || r.hides(name)
	names, err := r.upper.names(name)
	if err != nil {
		return err
	}
	for _, base := range names {
		if err := r.entry(path.Join(name, base), base, hidden); err != nil {
			return err
		}
	}
	if !hidden {
		return nil
	}
	// All that was in it is gone, but for what is there again.
	if st, err := r.lower.stat(name); err != nil || st.Ctim.Nano() >= r.since {
		r.clash = append(r.clash, name)
		return err
	}
	below, err := r.lower.names(name)
	if err != nil {
		return err
	}
	for _, base := range below {
		if _, found := slices.BinarySearch(names, base); found {
			continue
		}
		st, err := r.lower.stat(path.Join(name, base))
		if err != nil {
			return err
		}
		r.list = append(r.list, Change{Path: path.Join(name, base), Op: Delete, OldKind: kindOf(st)})
	}
	return nil
}

// hides reports whether a folder of the layer hides all that is below it.
func (r *reader) hides(name string) bool {
	fd, err := r.upper.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var value [4]byte
	n, err := unix.Fgetxattr(fd, "user.overlay.opaque", value[:])
	return err == nil && n == 1 && value[0] == 'y'
}

// entry reads one thing of the layer.
func (r *reader) entry(name, base string, hidden bool) error {
	if ok, err := r.fits(name, base); !ok {
		return err
	}
	st, err := r.upper.stat(name)
	if err != nil {
		return err
	}
	was := Nothing
	low, err := r.lower.stat(name)
	if err == nil {
		was = kindOf(low)
	} else if !errors.Is(err, unix.ENOENT) {
		return err
	}
	kind := kindOf(st)
	switch {
	case was == Nothing && r.lost(name, kind):
		r.clash = append(r.clash, name)
		return nil
	case kind == Nothing:
		if was != Nothing {
			r.list = append(r.list, Change{Path: name, Op: Delete, OldKind: was})
		}
		return nil
	case kind == Dir && was == Dir && low.Ctim.Nano() >= r.since && !hidden && !r.copied(name) && !r.hides(name):
		r.clash = append(r.clash, name) // both have made one
		return nil
	case kind == Dir && was == Dir:
		if bits(st) != bits(low) {
			r.list = append(r.list, Change{Path: name, Op: Mode, Kind: Dir, Mode: bits(st), OldKind: was, OldMode: bits(low)})
		}
		return r.folder(name, hidden)
	}
	c := Change{Path: name, Op: Create, Kind: kind, Mode: bits(st), OldKind: was}
	if was != Nothing {
		c.Op = Modify
	}
	return r.add(c, st, low)
}

// lost reports whether something of the layer began as a copy of what is not there
// any more. A folder is copied only where it stands; a file may have been moved,
// so that it counts only where the folder that it is in has changed.
func (r *reader) lost(name string, kind Kind) bool {
	if kind != File && kind != Dir || !r.copied(name) {
		return false
	}
	in, err := r.lower.stat(path.Dir(name))
	return kind == Dir || err != nil || in.Ctim.Nano() >= r.since
}

// copied reports whether a file or folder of the layer began as a copy.
func (r *reader) copied(name string) bool {
	fd, err := r.upper.open(name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	_, err = unix.Fgetxattr(fd, "user.overlay.origin", nil)
	return err == nil
}

// add adds something that is new, or other than before.
func (r *reader) add(c Change, st, low unix.Stat_t) (err error) {
	if c.OldKind != Nothing && c.OldKind != Symlink {
		c.OldMode = bits(low)
	}
	switch c.Kind {
	case File:
		c.Size = st.Size
		if c.OldKind == File {
			same, err := r.same(c.Path, st, low)
			if err != nil {
				return err
			}
			if same && bits(st) == bits(low) {
				return nil // it was copied, and is as it was
			}
			if same {
				c.Op = Mode
			}
		}
	case Symlink:
		if c.LinkTarget, err = r.upper.link(c.Path); err != nil {
			return err
		}
		if c.OldKind == Symlink {
			before, err := r.lower.link(c.Path)
			if err != nil {
				return err
			}
			if before == c.LinkTarget {
				return nil
			}
		}
	}
	r.list = append(r.list, c)
	if c.Kind == Dir {
		return r.fresh(c.Path, c.Path)
	}
	return nil
}

// fresh reads a folder that is new, and comes as a whole.
func (r *reader) fresh(name, top string) error {
	names, err := r.upper.names(name)
	if r.away(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, base := range names {
		at := path.Join(name, base)
		if ok, err := r.fits(at, base); !ok {
			if err != nil {
				return err
			}
			continue
		}
		st, err := r.upper.stat(at)
		if r.away(err) {
			continue
		}
		if err != nil {
			return err
		}
		c := Change{Path: at, Op: Create, Kind: kindOf(st), Mode: bits(st), NewDir: top}
		switch c.Kind {
		case Nothing:
			continue // a mark of something that was made and deleted
		case File:
			c.Size = st.Size
		case Symlink:
			if c.LinkTarget, err = r.upper.link(at); r.away(err) {
				continue
			} else if err != nil {
				return err
			}
		}
		r.list = append(r.list, c)
		if c.Kind == Dir {
			if err := r.fresh(at, top); err != nil {
				return err
			}
		}
	}
	return nil
}

// bits are the permission bits that can land: no file comes to run as who owns it.
func bits(st unix.Stat_t) uint32 { return st.Mode & 0o777 }

// same compares the content of a file with what it was.
func (r *reader) same(name string, st, low unix.Stat_t) (bool, error) {
	if st.Size != low.Size {
		return false, nil
	}
	var files [2]*os.File
	for i, t := range []*tree{r.upper, r.lower} {
		fd, err := t.open(name, unix.O_RDONLY|unix.O_NONBLOCK)
		if t == r.lower && errors.Is(err, unix.EACCES) {
			return false, nil // nobody can tell
		}
		if err != nil {
			return false, err
		}
		files[i] = os.NewFile(uintptr(fd), name)
		defer files[i].Close()
	}
	size := max(1, min(st.Size, 64<<10))
	a, b := make([]byte, size), make([]byte, size)
	for {
		n, err := io.ReadFull(files[0], a)
		m, errB := io.ReadFull(files[1], b)
		if !bytes.Equal(a[:n], b[:m]) {
			return false, nil
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return errB == err, nil
		}
		if err != nil || errB != nil {
			return false, errors.Join(err, errB)
		}
	}
}

// Unfit is the error of a name that no sandbox has: too long, too deep, or no text.
type NameError struct{ Path string }

// Error implements error.
func (u *NameError) Error() string { return fmt.Sprintf("%.200q cannot be a name here", u.Path) }
