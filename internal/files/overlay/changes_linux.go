package overlay

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"slices"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// kindOf returns the kind of a file. A character device with number 0 is a whiteout:
// overlayfs marks a deleted file by it.
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

// Changes lists the changes of one command, which began at MarkStart. If the real directory
// changed meanwhile where the command changed it, Changes returns a ConflictError. The time
// it takes grows with the number of changes, not with the size of the directory.
func (o Overlay) Changes() ([]PathChange, error) {
	s, err := openSession(o, unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	defer s.close()
	list, err := s.changes()
	if err != nil {
		return nil, err
	}
	conflict := ConflictError{s.madeByBoth}
	for _, c := range list {
		if c.Conflict && c.NewDir == "" {
			conflict.Paths = append(conflict.Paths, c.Path)
		}
	}
	slices.Sort(conflict.Paths)
	return list, conflict.orNil()
}

// A scanner collects the list of changes. It skips bad names, and files that vanish during
// the scan.
type scanner struct {
	upper, lower *tree
	since        int64 // the start of the work
	list         []PathChange
	hasStamps    bool
	badNames     []string // those that were skipped
}

// checkName reports whether golem can apply a file of this name. If not, it notes the name.
// It skips unfinished copies.
func (s *scanner) checkName(name, base string) bool {
	if IsUnfinished(base) {
		return false
	}
	if utf8.ValidString(base) && len(base) <= maxName && len(name) < maxPath {
		return true
	}
	s.badNames = append(s.badNames, name)
	return false
}

// canIgnore reports whether an error means that a file vanished or was replaced during the
// scan.
func (s *scanner) canIgnore(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ELOOP)
}

// isOpaque reports whether a directory of the upperdir hides all files of the real one.
func (s *scanner) isOpaque(name string) bool {
	fd, err := s.upper.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var value [4]byte
	n, err := unix.Fgetxattr(fd, "user.overlay.opaque", value[:])
	return err == nil && n == 1 && value[0] == 'y'
}

// isCopyUp reports whether the kernel made a file or directory of the upperdir as a copy
// of a real one.
func (s *scanner) isCopyUp(name string) bool {
	fd, err := s.upper.open(name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	_, err = unix.Fgetxattr(fd, "user.overlay.origin", nil)
	return err == nil
}

// addChange adds an entry that is new or differs from the real one.
func (s *scanner) addChange(c PathChange, st, low unix.Stat_t) (err error) {
	if c.OldKind != Nothing && c.OldKind != Symlink {
		c.OldMode = permissions(low)
	}
	switch c.Kind {
	case File:
		c.Size = st.Size
		if c.OldKind == File {
			same, err := s.hasSameContent(c.Path, st, low)
			if err != nil {
				return err
			}
			if same && permissions(st) == permissions(low) {
				return nil // an unchanged copy
			}
			if same {
				c.Op = Mode
			}
		}
	case Symlink:
		if c.LinkTarget, err = s.upper.readLink(c.Path); err != nil {
			return err
		}
		if c.OldKind == Symlink {
			before, err := s.lower.readLink(c.Path)
			if err != nil {
				return err
			}
			if before == c.LinkTarget {
				return nil
			}
		}
	}
	s.addStamp(&c, st, low)
	c.Ctime = st.Ctim.Nano()
	s.list = append(s.list, c)
	if c.Kind == Dir {
		return s.scanNewDir(c.Path, c.Path)
	}
	return nil
}

// stamps is the seed of stamps, which are for this process only.
var stamps = maphash.MakeSeed()

// addStamp gives the change of a file with these states its stamp.
func (s *scanner) addStamp(c *PathChange, st, low unix.Stat_t) {
	if !s.hasStamps || c.Kind != File && c.OldKind != File {
		return
	}
	type state struct {
		path          string
		op            Op
		kind, oldKind Kind
		mode, oldMode uint32
		own, real     copyStamp
	}
	c.Stamp = maphash.Comparable(stamps, state{c.Path, c.Op, c.Kind, c.OldKind, c.Mode, c.OldMode, copyStampOf(st), copyStampOf(low)})
	c.Changed = max(st.Ctim.Nano(), low.Ctim.Nano())
}

// scanNewDir scans a new directory, which is applied as a whole.
func (s *scanner) scanNewDir(name, top string) error {
	names, err := s.upper.list(name)
	if s.canIgnore(err) {
		return nil
	}
	if err != nil {
		return err
	}
	s.list = slices.Grow(s.list, len(names))
	for _, base := range names {
		at := joinName(name, base)
		if !s.checkName(at, base) {
			continue
		}
		st, err := s.upper.stat(at)
		if s.canIgnore(err) {
			continue
		}
		if err != nil {
			return err
		}
		c := PathChange{Path: at, Op: Create, Kind: kindOf(st), Mode: permissions(st), NewDir: top, Ctime: st.Ctim.Nano()}
		switch c.Kind {
		case Nothing:
			continue // a whiteout of a file that was created and deleted
		case File:
			c.Size = st.Size
		case Symlink:
			if c.LinkTarget, err = s.upper.readLink(at); s.canIgnore(err) {
				continue
			} else if err != nil {
				return err
			}
		}
		s.addStamp(&c, st, unix.Stat_t{})
		s.list = append(s.list, c)
		if c.Kind == Dir {
			if err := s.scanNewDir(at, top); err != nil {
				return err
			}
		}
	}
	return nil
}

// permissions returns the permission bits that golem applies. The set-ID bits are not
// among them, so that no applied file runs as its owner.
func permissions(st unix.Stat_t) uint32 { return st.Mode & 0o777 }

// hasSameContent compares the content of a file with that of the real one.
func (s *scanner) hasSameContent(name string, st, low unix.Stat_t) (bool, error) {
	if st.Size != low.Size {
		return false, nil
	}
	var files [2]*os.File
	for i, t := range []*tree{s.upper, s.lower} {
		fd, err := t.open(name, unix.O_RDONLY|unix.O_NONBLOCK)
		if t == s.lower && errors.Is(err, unix.EACCES) {
			return false, nil // golem cannot read the real file
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

// A NameError is the error of a path that no sandbox can have: too long, or not UTF-8.
type NameError struct{ Path string }

// Error implements error.
func (u *NameError) Error() string {
	return fmt.Sprintf("%.200q cannot be a name here: names are UTF-8 text, with at most 255 bytes a part and 4,096 in all", u.Path)
}
