package overlay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

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
func (o Overlay) Changes() ([]Change, error) {
	upper, err := openTree(o.UpperDir())
	if err != nil {
		return nil, err
	}
	defer upper.close()
	lower, err := openDir(o)
	if err != nil {
		return nil, err
	}
	defer lower.close()
	since, err := readTime(o.Store + "/" + clockName)
	if err != nil {
		return nil, err
	}
	r := scanner{upper: upper, lower: lower, since: since}
	if err := r.scanDir("", false); err != nil {
		return nil, err
	}
	if len(r.conflicts) > 0 {
		return nil, &ConflictError{r.conflicts}
	}
	return r.list, nil
}

// reader makes the list.
type scanner struct {
	upper, lower *tree
	since        int64 // when the work began
	list         []Change
	conflicts    []string
	isLenient    bool     // what is unfit is left out, and what goes away meanwhile
	badNames     []string // what was
}

// checkName reports whether a name can be one. Where it cannot, that is an error, unless
// such are left out.
func (r *scanner) checkName(name, base string) (bool, error) {
	if utf8.ValidString(base) && len(base) <= maxName && len(name) < maxPath {
		return true, nil
	}
	if !r.isLenient {
		return false, &NameError{name}
	}
	r.badNames = append(r.badNames, name)
	return false, nil
}

// canIgnore reports whether something went away, or became something else, while it was
// looked at, and that is all right.
func (r *scanner) canIgnore(err error) bool {
	return r.isLenient && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ELOOP))
}

// scanDir reads a folder that both sides have. Where it is in one that hides what is
// below it, it does so as well.
func (r *scanner) scanDir(name string, hidden bool) error {
	hidden = hidden || r.isOpaque(name)
	names, err := r.upper.list(name)
	if err != nil {
		return err
	}
	for _, base := range names {
		if err := r.scanEntry(path.Join(name, base), base, hidden); err != nil {
			return err
		}
	}
	if !hidden {
		return nil
	}
	// All that was in it is gone, but for what is there again.
	if st, err := r.lower.stat(name); err != nil || st.Ctim.Nano() >= r.since {
		r.conflicts = append(r.conflicts, name)
		return err
	}
	below, err := r.lower.list(name)
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

// isOpaque reports whether a folder of the layer hides all that is below it.
func (r *scanner) isOpaque(name string) bool {
	fd, err := r.upper.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var value [4]byte
	n, err := unix.Fgetxattr(fd, "user.overlay.opaque", value[:])
	return err == nil && n == 1 && value[0] == 'y'
}

// scanEntry reads one thing of the layer.
func (r *scanner) scanEntry(name, base string, hidden bool) error {
	if ok, err := r.checkName(name, base); !ok {
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
	case was == Nothing && r.isBaseGone(name, kind):
		r.conflicts = append(r.conflicts, name)
		return nil
	case kind == Nothing:
		if was != Nothing {
			r.list = append(r.list, Change{Path: name, Op: Delete, OldKind: was})
		}
		return nil
	case kind == Dir && was == Dir && low.Ctim.Nano() >= r.since && !hidden && !r.isCopyUp(name) && !r.isOpaque(name):
		r.conflicts = append(r.conflicts, name) // both have made one
		return nil
	case kind == Dir && was == Dir:
		if permissions(st) != permissions(low) {
			r.list = append(r.list, Change{Path: name, Op: Mode, Kind: Dir, Mode: permissions(st), OldKind: was, OldMode: permissions(low)})
		}
		return r.scanDir(name, hidden)
	}
	c := Change{Path: name, Op: Create, Kind: kind, Mode: permissions(st), OldKind: was}
	if was != Nothing {
		c.Op = Modify
	}
	return r.addChange(c, st, low)
}

// isBaseGone reports whether something of the layer began as a copy of what is not there
// any more. A folder is copied only where it stands; a file may have been moved,
// so that it counts only where the folder that it is in has changed.
func (r *scanner) isBaseGone(name string, kind Kind) bool {
	if kind != File && kind != Dir || !r.isCopyUp(name) {
		return false
	}
	in, err := r.lower.stat(path.Dir(name))
	return kind == Dir || err != nil || in.Ctim.Nano() >= r.since
}

// isCopyUp reports whether a file or folder of the layer began as a copy.
func (r *scanner) isCopyUp(name string) bool {
	fd, err := r.upper.open(name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	_, err = unix.Fgetxattr(fd, "user.overlay.origin", nil)
	return err == nil
}

// addChange adds something that is new, or other than before.
func (r *scanner) addChange(c Change, st, low unix.Stat_t) (err error) {
	if c.OldKind != Nothing && c.OldKind != Symlink {
		c.OldMode = permissions(low)
	}
	switch c.Kind {
	case File:
		c.Size = st.Size
		if c.OldKind == File {
			same, err := r.hasSameContent(c.Path, st, low)
			if err != nil {
				return err
			}
			if same && permissions(st) == permissions(low) {
				return nil // it was copied, and is as it was
			}
			if same {
				c.Op = Mode
			}
		}
	case Symlink:
		if c.LinkTarget, err = r.upper.readLink(c.Path); err != nil {
			return err
		}
		if c.OldKind == Symlink {
			before, err := r.lower.readLink(c.Path)
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
		return r.scanNewDir(c.Path, c.Path)
	}
	return nil
}

// scanNewDir reads a folder that is new, and comes as a whole.
func (r *scanner) scanNewDir(name, top string) error {
	names, err := r.upper.list(name)
	if r.canIgnore(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, base := range names {
		at := path.Join(name, base)
		if ok, err := r.checkName(at, base); !ok {
			if err != nil {
				return err
			}
			continue
		}
		st, err := r.upper.stat(at)
		if r.canIgnore(err) {
			continue
		}
		if err != nil {
			return err
		}
		c := Change{Path: at, Op: Create, Kind: kindOf(st), Mode: permissions(st), NewDir: top}
		switch c.Kind {
		case Nothing:
			continue // a mark of something that was made and deleted
		case File:
			c.Size = st.Size
		case Symlink:
			if c.LinkTarget, err = r.upper.readLink(at); r.canIgnore(err) {
				continue
			} else if err != nil {
				return err
			}
		}
		r.list = append(r.list, c)
		if c.Kind == Dir {
			if err := r.scanNewDir(at, top); err != nil {
				return err
			}
		}
	}
	return nil
}

// permissions are the permission bits that can land: no file comes to run as who owns it.
func permissions(st unix.Stat_t) uint32 { return st.Mode & 0o777 }

// hasSameContent compares the content of a file with what it was.
func (r *scanner) hasSameContent(name string, st, low unix.Stat_t) (bool, error) {
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
