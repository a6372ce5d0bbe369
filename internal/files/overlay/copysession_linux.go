package overlay

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// A copyStamp is the state of a copied file when the copy was made. If the file still has
// it, nobody has changed the file.
type copyStamp struct {
	Ino                uint64
	Size, Mtime, Ctime int64
}

func copyStampOf(st unix.Stat_t) copyStamp {
	return copyStamp{st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano()}
}

// listClosed lists a directory of the copy that a command made unreadable. It makes the
// directory readable first.
func (s *walk) listClosed(name string) ([]string, error) {
	fd, err := s.upper.open(name, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if err := unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), 0o700); err != nil {
		return nil, err
	}
	return s.upper.list(name)
}

// isCopyCurrent is isCurrent for a copy. A directory must contain only files that were copied
// and have not changed.
func (s *walk) isCopyCurrent(v *version, low unix.Stat_t, was Kind) bool {
	if v.Skipped || v.Covered || !v.matches(low, was) || was != Dir {
		return !v.Skipped && !v.Covered && (v.matches(low, was) || s.isSameLink(v, was))
	}
	names, err := s.lower.list(v.Path)
	if err != nil {
		return false
	}
	for _, base := range names {
		name := joinName(v.Path, base)
		low, was, err := s.statReal(name)
		in := s.bases.all[name]
		if err != nil || was != Nothing && (in == nil || !s.isCopyCurrent(in, low, was)) {
			return false
		}
	}
	return true
}

// markCopyApplied records that the real directory has the applied changes. A file that the
// session changed since, or of which only part was applied, is a change of that.
func (s *walk) markCopyApplied(paths, skipped []string) error {
	within, out := matchPaths(paths), matchPaths(skipped)
	applied := map[string]bool{}
	for name := range s.picks.all {
		applied[name] = within(name) && !out(name)
	}
	for _, name := range slices.Sorted(maps.Keys(applied)) {
		if !applied[name] {
			continue
		}
		p := s.picks.all[name]
		if err := s.setBase(name, pickInfo{p.At, p.Partial}); err != nil {
			return err
		}
	}
	if err := s.bases.save(); err != nil {
		return err
	}
	return s.picks.remove(func(name string) bool { return applied[name] })
}

// setBase records what the real directory has at a path as the base of the copy's file. A
// file that is as it was applied is not a change.
func (s *walk) setBase(name string, l pickInfo) error {
	low, was, err := s.statReal(name)
	if err != nil {
		return err
	}
	st, err := s.upper.stat(name)
	if err != nil && !s.canIgnore(err) {
		return err
	}
	isThere := err == nil
	if was != Dir {
		s.bases.forgetBelow(name)
	}
	if was == Nothing {
		s.bases.forget(name)
		return nil
	}
	v := copyVersion(name, low)
	from, as := s.lower, isThere && l.At > 0 && l.matches(st) && kindOf(st) == was
	if as {
		from = s.upper
	}
	switch {
	case was == File && as:
		v.Copy = copyStampOf(st)
	case was == Symlink:
		to, err := from.readLink(name)
		if err != nil {
			return err
		}
		v.LinkTarget = []byte(to)
	}
	s.bases.put(v)
	return nil
}

// restoreCopy records that the real directory has its old files again. The copy still has the
// files of the session.
func (s *walk) restoreCopy(list []PathChange, isChanged func(name string) bool) error {
	for _, c := range list {
		if c.Kind == Special {
			continue
		}
		if isChanged(c.Path) {
			s.bases.put(&version{Path: c.Path, Unknown: true})
			continue
		}
		if err := s.setBase(c.Path, pickInfo{}); err != nil {
			return err
		}
		if c.Op == Delete || c.OldKind == Dir && c.Kind != Dir {
			if err := s.setBasesBelow(c.Path); err != nil {
				return err
			}
		}
	}
	return s.bases.save()
}

// copyOfName is a file in the store of an overlay. It names the store of the session that works
// on a copy, if the changes come from such a session.
const copyOfName = "copy-of"

// renewCopyBases records the new times of real files that moves replaced and that are back in
// their places. Otherwise they would seem to be changed since the copy was made: it has no other
// way to tell. A file that was changed before is a conflict as before. If this fails, files that
// nobody changed are conflicts.
func (a *applier) renewCopyBases(moves []move) error {
	store, err := os.ReadFile(a.Store + "/" + copyOfName)
	if err != nil || !exists(string(store)) {
		return nil
	}
	of := a.Overlay
	of.Store, of.IsCopy = string(store), true
	s, err := openSession(of, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer s.close()
	for _, m := range moves {
		v := s.bases.all[m.Path]
		if v == nil || m.OldInode == 0 || v.Ino != m.OldInode || v.Ctime != m.OldTime {
			continue
		}
		if st, err := a.dir.stat(m.Path); err == nil && m.matchesOld(st) && permissions(st) == m.OldMode&0o777 {
			renewed := *v
			renewed.Ctime = st.Ctim.Nano()
			s.bases.put(&renewed)
		}
	}
	return s.bases.save()
}

// setBasesBelow records the files of a real directory, if there is one.
func (s *walk) setBasesBelow(name string) error {
	names, err := s.lower.list(name)
	if s.canIgnore(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, base := range names {
		at := joinName(name, base)
		if err := s.setBase(at, pickInfo{}); err != nil {
			return err
		}
		if err := s.setBasesBelow(at); err != nil {
			return err
		}
	}
	return nil
}

// discardFromCopy replaces the changes of the session by what the real directory has now.
func (s *walk) discardFromCopy(paths []string) error {
	list, err := s.changes()
	var nameErr *NameError
	if err != nil && !errors.As(err, &nameErr) {
		return err
	}
	within := matchPaths(paths)
	list = slices.DeleteFunc(list, func(c PathChange) bool { return !within(c.Path) })
	for _, name := range s.badNames {
		if within(name) {
			list = append(list, PathChange{Path: name})
		}
	}
	for _, p := range paths {
		one := matchPaths([]string{p})
		if path.Clean(p) != "." && !slices.ContainsFunc(list, func(c PathChange) bool { return one(c.Path) }) {
			return fmt.Errorf("%q is not a change: %w", path.Clean(p), fs.ErrNotExist)
		}
	}
	if err := s.picks.remove(within); err != nil {
		return err
	}
	return s.resetPaths(list)
}

// resetPaths copies what the real directory has at the paths of the changes.
func (s *walk) resetPaths(list []PathChange) error {
	c := &copier{to: s.upper, bases: s.bases, covered: map[string]bool{}, store: s.Store}
	for name, v := range s.bases.all {
		c.covered[name] = v.Covered
	}
	var err error
	if c.from, err = openDir(s.Overlay); err != nil {
		return err
	}
	defer c.from.close()
	c.from.noMounts = true
	var out []string
	for _, change := range list {
		if change.Op != Mode {
			out = append(out, change.Path)
		}
	}
	if err := s.removePaths(out); err != nil {
		return err
	}
	for _, change := range list {
		s.upper.closeLast()
		if change.Op == Mode && change.Kind == Dir {
			err = s.resetMode(c, change.Path)
		} else {
			s.bases.forgetBelow(change.Path)
			s.bases.forget(change.Path)
			err = c.copyEntry(change.Path)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", change.Path, c.spaceError(err)), s.bases.save())
		}
	}
	return s.bases.save()
}

// resetMode gives a directory of the copy the permission bits of the real one.
func (s *walk) resetMode(c *copier, name string) error {
	st, err := c.from.stat(name)
	if err != nil {
		return err
	}
	if v := s.bases.all[name]; v != nil {
		now := *v
		now.Mode = permissions(st)
		s.bases.put(&now)
	}
	return c.setOwnerAndMode(name, st)
}
