package overlay

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
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

// A copySession compares a copy with the real directory.
type copySession struct {
	sessionStore
	copied map[string][]string // names of copied files by directory
}

// changes lists the changes. It writes nothing.
func (s *copySession) changes() ([]PathChange, error) {
	s.copied = map[string][]string{}
	for _, name := range s.bases.sortPaths() {
		dir := path.Dir(name)
		if dir == "." {
			dir = ""
		}
		s.copied[dir] = append(s.copied[dir], path.Base(name))
	}
	if err := s.visitDir(""); err != nil {
		return nil, err
	}
	if len(s.badNames) > 0 {
		return s.list, &NameError{s.badNames[0]}
	}
	return s.list, nil
}

// listDir lists a directory of the copy. If a command made it unreadable, listDir makes
// it readable first.
func (s *copySession) listDir(name string) ([]string, error) {
	names, err := s.upper.list(name)
	if !errors.Is(err, unix.EACCES) {
		return names, err
	}
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

// statCopy returns the state of a path in the copy.
func (s *copySession) statCopy(name string) (unix.Stat_t, Kind, error) {
	st, err := s.upper.stat(name)
	if s.canIgnore(err) {
		return st, Nothing, nil
	}
	if err != nil {
		return st, Nothing, err
	}
	return st, kindOf(st), nil
}

// statOriginal returns the state of a path in the real directory. A path that golem may
// not access was never copied, and counts as a special file.
func (s *copySession) statOriginal(name string) (unix.Stat_t, Kind, error) {
	st, was, err := s.statReal(name)
	if errors.Is(err, unix.EACCES) {
		return st, Special, nil
	}
	return st, was, err
}

// visitDir visits a directory that both the copy and the real directory have.
func (s *copySession) visitDir(name string) error {
	names, err := s.listDir(name)
	if err != nil {
		return err
	}
	for _, base := range slices.Compact(slices.Sorted(slices.Values(append(names, s.copied[name]...)))) {
		at := path.Join(name, base)
		from := len(s.list)
		if len(at) < maxPath {
			if err := s.visitEntry(at); err != nil && !s.canIgnore(err) {
				return err
			}
		}
		if len(s.list) == from && len(at) < maxPath {
			continue
		}
		if !s.checkName(at, base) {
			s.list = s.list[:from]
		}
	}
	return nil
}

// visitEntry visits one path.
func (s *copySession) visitEntry(name string) error {
	v := s.bases.all[name]
	st, kind, err := s.statCopy(name)
	if err != nil {
		return err
	}
	low, was, err := s.statOriginal(name)
	if err != nil {
		return err
	}
	if v == nil {
		v = &version{Path: name} // nothing was there
	}
	switch {
	case v.Covered, v.Skipped && kind == Nothing, s.isUntouched(v, st, kind):
		return nil
	case kind == Dir && v.Kind == Dir && !v.Skipped && was != Dir:
		return s.visitOrphanDir(v, st, was)
	case kind == Dir && was == Dir:
		if permissions(st) != permissions(low) && (v.Kind != Dir || permissions(st) != v.Mode) {
			s.list = append(s.list, PathChange{Path: name, Op: Mode, Kind: Dir, Mode: permissions(st), OldKind: was, OldMode: permissions(low), Conflict: v.Skipped || !v.matches(low, was)})
		}
		return s.visitDir(name)
	case kind == Nothing && was == Nothing:
		return nil
	case kind == Nothing:
		s.list = append(s.list, PathChange{Path: name, Op: Delete, OldKind: was, Conflict: !s.isCurrent(v, low, was)})
		return nil
	}
	from := len(s.list)
	c := PathChange{Path: name, Op: Create, Kind: kind, Mode: permissions(st), OldKind: was}
	if was != Nothing {
		c.Op = Modify
	}
	if err := s.addChange(c, st, low); err != nil {
		return err
	}
	conflict := len(s.list) > from && !s.isCurrent(v, low, was)
	for i := range s.list[from:] {
		s.list[from+i].Conflict = conflict
	}
	return nil
}

// isUntouched reports whether a file or symlink of the copy is as it was copied.
func (s *copySession) isUntouched(v *version, st unix.Stat_t, kind Kind) bool {
	if v.Kind != kind {
		return false
	}
	switch kind {
	case File:
		return v.Copy == copyStampOf(st)
	case Symlink:
		to, err := s.upper.readLink(v.Path)
		return err == nil && to == string(v.LinkTarget)
	}
	return false
}

// isCurrent reports whether the real directory still has a version. A directory must
// contain only files that were copied and have not changed.
func (s *copySession) isCurrent(v *version, low unix.Stat_t, was Kind) bool {
	if v.Skipped || v.Covered || !v.matches(low, was) || was != Dir {
		return !v.Skipped && !v.Covered && (v.matches(low, was) || s.isSameLink(v, was))
	}
	names, err := s.lower.list(v.Path)
	if err != nil {
		return false
	}
	for _, base := range names {
		name := path.Join(v.Path, base)
		low, was, err := s.statOriginal(name)
		in := s.bases.all[name]
		if err != nil || was != Nothing && (in == nil || !s.isCurrent(in, low, was)) {
			return false
		}
	}
	return true
}

// visitOrphanDir visits a directory of the copy that the real directory no longer has. If
// the session changed something in it, the directory and these files are changes.
func (s *copySession) visitOrphanDir(v *version, st unix.Stat_t, was Kind) error {
	from := len(s.list)
	c := PathChange{Path: v.Path, Op: Create, Kind: Dir, Mode: permissions(st), OldKind: was}
	if was != Nothing {
		c.Op = Modify
	}
	s.list = append(s.list, c)
	if err := s.addOrphanChanges(v.Path, v.Path); err != nil {
		return err
	}
	if len(s.list) == from+1 && permissions(st) == v.Mode {
		s.list = s.list[:from]
	}
	for i := range s.list[from:] {
		s.list[from+i].Conflict = true
	}
	return nil
}

// addOrphanChanges lists the changes of the session in an orphaned directory.
func (s *copySession) addOrphanChanges(name, top string) error {
	names, err := s.listDir(name)
	if err != nil {
		return err
	}
	for _, base := range names {
		at := path.Join(name, base)
		if !s.checkName(at, base) {
			continue
		}
		st, kind, err := s.statCopy(at)
		if err != nil {
			return err
		}
		v := s.bases.all[at]
		if v == nil {
			v = &version{Path: at}
		}
		if kind == Nothing || v.Covered || s.isUntouched(v, st, kind) {
			continue
		}
		from := len(s.list)
		c := PathChange{Path: at, Op: Create, Kind: kind, Mode: permissions(st), NewDir: top}
		if kind == Dir && v.Kind == Dir {
			s.list = append(s.list, c)
			err = s.addOrphanChanges(at, top)
			if len(s.list) == from+1 && permissions(st) == v.Mode {
				s.list = s.list[:from]
			}
		} else {
			err = s.addChange(c, st, unix.Stat_t{})
		}
		if err != nil && !s.canIgnore(err) {
			return err
		}
		for i := range s.list[from:] {
			s.list[from+i].NewDir = top
		}
	}
	return nil
}

// markApplied records that the real directory has the applied changes. A file that the
// session changed since, or of which only part was applied, is a change of that.
func (s *copySession) markApplied(paths, skipped []string) error {
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
func (s *copySession) setBase(name string, l pickInfo) error {
	low, was, err := s.statOriginal(name)
	if err != nil {
		return err
	}
	st, kind, err := s.statCopy(name)
	if err != nil {
		return err
	}
	if was != Dir {
		s.forgetBelow(name)
	}
	if was == Nothing {
		s.bases.forget(name)
		return nil
	}
	v := copyVersion(name, low)
	from, as := s.lower, l.At > 0 && l.matches(st) && kind == was
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

// forgetBelow forgets the versions of the files in a directory.
func (s *copySession) forgetBelow(name string) {
	if v := s.bases.all[name]; v == nil || v.Kind != Dir {
		return
	}
	for _, v := range s.bases.below(name) {
		s.bases.forget(v.Path)
	}
}

// restore records that the real directory has its old files again. The copy still has the
// files of the session.
func (s *copySession) restore(_ *tree, list []PathChange, isChanged func(name string) bool) error {
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

// setBasesBelow records the files of a real directory, if there is one.
func (s *copySession) setBasesBelow(name string) error {
	names, err := s.lower.list(name)
	if s.canIgnore(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, base := range names {
		at := path.Join(name, base)
		if err := s.setBase(at, pickInfo{}); err != nil {
			return err
		}
		if err := s.setBasesBelow(at); err != nil {
			return err
		}
	}
	return nil
}

// discard replaces the changes of the session by what the real directory has now.
func (s *copySession) discard(paths []string) error {
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
func (s *copySession) resetPaths(list []PathChange) error {
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
			s.forgetBelow(change.Path)
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
func (s *copySession) resetMode(c *copier, name string) error {
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
