package overlay

import (
	"errors"
	"io"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// Restore takes changes back into a session that were picked from it, applied, and
// undone. They are in the overlay that they were applied from. If the session has
// something at a path by now, that stays, as a change of the file that the undo restored.
// If somebody changed that file after the undo, it is a conflict. Changes that the undo left
// applied do not come back. Nobody may write to the overlay meanwhile. Calling it again does no harm.
func (o Overlay) Restore(from Overlay, list []PathChange) error {
	if err := o.RecordBases(false); err != nil {
		return err
	}
	if err := o.MarkStart(); err != nil { // their base is what the real directory has now
		return err
	}
	s, err := openSession(o, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer s.close()
	undone, err := readUndone(from)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(slices.Clone(list), func(c PathChange) bool { return undone.isLeft(c.Path) })
	isChanged := func(name string) bool { return undone.isChanged(s.lower, name) }
	if o.IsCopy {
		return s.restoreCopy(list, isChanged)
	}
	upper, err := openTree(from.UpperDir())
	if err != nil {
		return err
	}
	defer upper.close()
	return s.restore(upper, list, isChanged)
}

// restore takes changes back that were applied and undone. They are in from. isChanged reports
// whether somebody changed what the undo has restored at the path of one.
func (s *walk) restore(from *tree, list []PathChange, isChanged func(name string) bool) error {
	changed := make(map[string]bool)
	for _, c := range list {
		if changed[c.Path] = isChanged(c.Path); changed[c.Path] {
			s.bases.put(&version{Path: c.Path, Unknown: true})
		}
	}
	if err := s.bases.flush(); err != nil { // before the changes, whose base it would seem to be later
		return err
	}
	for _, c := range list { // a directory comes before its content, and with it
		if c.Kind == Special {
			continue
		}
		if _, err := s.upper.stat(c.Path); !errors.Is(err, unix.ENOENT) {
			if changed[c.Path] {
				continue
			}
			if err := s.restoreBase(from, c); err != nil && !s.canIgnore(err) {
				return err
			}
			continue
		}
		if err := s.restoreChange(from, c); err != nil && !s.canIgnore(err) {
			return err
		}
	}
	return s.record()
}

// restoreBase makes the restored real file the base of a change that stayed in the session,
// because only part of it was applied or the session changed the file later. It does so
// only if the applied file is the base now. A change that was applied over a conflict
// stays a conflict.
func (s *walk) restoreBase(from *tree, c PathChange) error {
	v := s.bases.all[c.Path]
	if v == nil || c.Forced {
		return nil
	}
	if c.Op == Create && c.Kind == Dir && v.Kind == Dir && v.Open {
		_, now, err := s.statReal(c.Path)
		if now == Nothing && err == nil { // as before the apply, which made it
			s.bases.put(&version{Path: c.Path})
		}
		return err
	}
	if v.Ino == 0 {
		return nil
	}
	applied, err := from.stat(c.Path)
	if err != nil || kindOf(applied) != v.Kind || applied.Ino != v.Ino || applied.Size != v.Size {
		return nil // the undo did not move it out, or the base is another file
	}
	src := baseSource{from: fromReal, since: s.since}
	t, err := s.lookUp(c.Path, src, false)
	if err != nil {
		return err
	}
	restored := s.deriveVersion(t, src)
	s.bases.keepContent(s.lower, restored)
	s.bases.put(restored)
	return nil
}

// restoreChange restores one change, with the directories above it.
func (s *walk) restoreChange(from *tree, c PathChange) error {
	if err := s.makeParentsLike(c.Path); err != nil {
		return err
	}
	switch {
	case c.Op == Delete:
		return s.upper.makeWhiteout(c.Path)
	case c.Op == Mode && c.Kind == Dir:
		if err := s.makeDirLike(c.Path); err != nil {
			return err
		}
		return s.upper.setMode(c.Path, c.Mode)
	case c.Op == Mode:
		return s.copyUp(c)
	}
	return from.moveTo(s.upper, c.Path)
}

// makeParentsLike makes the missing directories above a path in the upperdir.
func (s *walk) makeParentsLike(name string) error {
	dir := path.Dir(name)
	if dir == "." {
		return nil
	}
	if _, err := s.upper.stat(dir); !errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err := s.makeParentsLike(dir); err != nil {
		return err
	}
	return s.makeDirLike(dir)
}

// copyUp copies a real file to the upperdir, with other permission bits.
func (s *walk) copyUp(c PathChange) error {
	in, err := s.lower.open(c.Path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	from := os.NewFile(uintptr(in), c.Path)
	defer from.Close()
	return s.upper.withParent(c.Path, func(dir int, base string) error {
		fd, err := unix.Openat(dir, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return err
		}
		to := os.NewFile(uintptr(fd), base)
		defer to.Close()
		if _, err := io.Copy(to, from); err != nil {
			return err
		}
		return unix.Fchmod(fd, c.Mode)
	})
}
