package overlay

import (
	"errors"
	"maps"
	"slices"

	"golang.org/x/sys/unix"
)

// Rebase makes the store of a session fit a copy of its real directory, after both came
// from another machine. Inodes and times are new there, so golem would take every file for
// one that somebody changed. isSame reports whether a file of the directory has the content
// that it had on the other machine; nil means that all do. A base of any other file, or one
// that does not have the size, mode or kept content of the file, stays as it is, and its
// change is a conflict.
func Rebase(o Overlay, isSame func(name string) bool) error {
	if err := o.MarkStart(); err != nil {
		return err
	}
	s, err := openStore(o, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer s.close()
	for _, name := range slices.Sorted(maps.Keys(s.bases.all)) {
		v := *s.bases.all[name]
		if v.Unknown || v.Skipped || v.Covered || isSame != nil && !isSame(name) {
			continue
		}
		low, kind, err := s.statReal(name)
		if errors.Is(err, unix.EACCES) {
			continue // in a directory that is closed to golem
		}
		if err != nil {
			return err
		}
		if kind != v.Kind || permissions(low) != v.Mode && kind != Symlink {
			continue
		}
		switch kind {
		case Dir:
			if v.Since == 0 {
				continue
			}
			v.Since = s.since
		case File:
			if low.Size != v.Size {
				continue
			}
			if same, err := s.hasKeptContent(&v, low); err != nil || !same {
				continue
			}
			v.Ino, v.Ctime = low.Ino, low.Ctim.Nano()
			if o.IsCopy {
				if v.Copy, err = s.restamp(v, low); err != nil {
					return err
				}
			}
		case Symlink:
			if to, err := s.lower.readLink(name); err != nil || to != string(v.LinkTarget) {
				continue
			}
			v.Ino, v.Size, v.Ctime = low.Ino, low.Size, low.Ctim.Nano()
		default:
			continue
		}
		s.bases.put(&v)
	}
	return s.bases.save()
}

// RecordReceived records the bases of changes that came from another machine as whole files:
// what the real directory has now. The change of a file that isSame does not report to be as it
// was on the other machine is a conflict.
func RecordReceived(o Overlay, isSame func(name string) bool) error {
	s, err := openSession(o, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.record(); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(s.bases.all)) {
		if v := *s.bases.all[name]; v.Kind != Dir && !isSame(name) {
			v.Unknown = true
			s.bases.put(&v)
		}
	}
	return s.bases.save()
}

// hasKeptContent reports whether a real file has the kept content of a version. A version
// without one has any content.
func (s *openedStore) hasKeptContent(v *version, low unix.Stat_t) (bool, error) {
	if v.Content == 0 {
		return true, nil
	}
	return s.hasBaseContent(s.lower, v, low)
}

// restamp returns the stamp of the copied file if it is still as it was copied.
func (s *openedStore) restamp(v version, low unix.Stat_t) (copyStamp, error) {
	st, err := s.upper.stat(v.Path)
	if s.canIgnore(err) || errors.Is(err, unix.EACCES) || err == nil && (kindOf(st) != File || permissions(st) != v.Mode) {
		return v.Copy, nil
	}
	if err != nil {
		return v.Copy, err
	}
	if same, err := s.hasSameContent(v.Path, st, low); err != nil || !same {
		return v.Copy, err
	}
	return copyStampOf(st), nil
}
