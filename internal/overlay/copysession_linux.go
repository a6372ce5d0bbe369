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
func (r *copySession) changes() ([]Change, error) {
	r.copied = map[string][]string{}
	for _, name := range r.bases.sortPaths() {
		dir := path.Dir(name)
		if dir == "." {
			dir = ""
		}
		r.copied[dir] = append(r.copied[dir], path.Base(name))
	}
	if err := r.visitDir(""); err != nil {
		return nil, err
	}
	if len(r.badNames) > 0 {
		return r.list, &NameError{r.badNames[0]}
	}
	return r.list, nil
}

// listDir lists a directory of the copy. If a command made it unreadable, listDir makes
// it readable first.
func (r *copySession) listDir(name string) ([]string, error) {
	names, err := r.upper.list(name)
	if !errors.Is(err, unix.EACCES) {
		return names, err
	}
	fd, err := r.upper.open(name, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if err := unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), 0o700); err != nil {
		return nil, err
	}
	return r.upper.list(name)
}

// statCopy returns the state of a path in the copy.
func (r *copySession) statCopy(name string) (unix.Stat_t, Kind, error) {
	st, err := r.upper.stat(name)
	if r.canIgnore(err) {
		return st, Nothing, nil
	}
	if err != nil {
		return st, Nothing, err
	}
	return st, kindOf(st), nil
}

// statOriginal returns the state of a path in the real directory. A path that golem may
// not access was never copied, and counts as a special file.
func (r *copySession) statOriginal(name string) (unix.Stat_t, Kind, error) {
	st, was, err := r.statReal(name)
	if errors.Is(err, unix.EACCES) {
		return st, Special, nil
	}
	return st, was, err
}

// visitDir visits a directory that both the copy and the real directory have.
func (r *copySession) visitDir(name string) error {
	names, err := r.listDir(name)
	if err != nil {
		return err
	}
	for _, base := range slices.Compact(slices.Sorted(slices.Values(append(names, r.copied[name]...)))) {
		at := path.Join(name, base)
		from := len(r.list)
		if len(at) < maxPath {
			if err := r.visitEntry(at); err != nil && !r.canIgnore(err) {
				return err
			}
		}
		if len(r.list) == from && len(at) < maxPath {
			continue
		}
		if ok, _ := r.checkName(at, base); !ok {
			r.list = r.list[:from]
		}
	}
	return nil
}

// visitEntry visits one path.
func (r *copySession) visitEntry(name string) error {
	v := r.bases.all[name]
	st, kind, err := r.statCopy(name)
	if err != nil {
		return err
	}
	low, was, err := r.statOriginal(name)
	if err != nil {
		return err
	}
	if v == nil {
		v = &version{Path: name} // nothing was there
	}
	switch {
	case v.Covered, v.Skipped && kind == Nothing, r.isUntouched(v, st, kind):
		return nil
	case kind == Dir && v.Kind == Dir && !v.Skipped && was != Dir:
		return r.visitOrphanDir(v, st, was)
	case kind == Dir && was == Dir:
		if permissions(st) != permissions(low) && (v.Kind != Dir || permissions(st) != v.Mode) {
			r.list = append(r.list, Change{Path: name, Op: Mode, Kind: Dir, Mode: permissions(st), OldKind: was, OldMode: permissions(low), Conflict: v.Skipped || !v.matches(low, was)})
		}
		return r.visitDir(name)
	case kind == Nothing && was == Nothing:
		return nil
	case kind == Nothing:
		r.list = append(r.list, Change{Path: name, Op: Delete, OldKind: was, Conflict: !r.isCurrent(v, low, was)})
		return nil
	}
	from := len(r.list)
	c := Change{Path: name, Op: Create, Kind: kind, Mode: permissions(st), OldKind: was}
	if was != Nothing {
		c.Op = Modify
	}
	if err := r.addChange(c, st, low); err != nil {
		return err
	}
	conflict := len(r.list) > from && !r.isCurrent(v, low, was)
	for i := range r.list[from:] {
		r.list[from+i].Conflict = conflict
	}
	return nil
}

// isUntouched reports whether a file or symlink of the copy is as it was copied.
func (r *copySession) isUntouched(v *version, st unix.Stat_t, kind Kind) bool {
	if v.Kind != kind {
		return false
	}
	switch kind {
	case File:
		return v.Copy == copyStampOf(st)
	case Symlink:
		to, err := r.upper.readLink(v.Path)
		return err == nil && to == string(v.LinkTarget)
	}
	return false
}

// isCurrent reports whether the real directory still has a version. A directory must
// contain only files that were copied and have not changed.
func (r *copySession) isCurrent(v *version, low unix.Stat_t, was Kind) bool {
	if v.Skipped || v.Covered || !v.matches(low, was) || was != Dir {
		return !v.Skipped && !v.Covered && v.matches(low, was)
	}
	names, err := r.lower.list(v.Path)
	if err != nil {
		return false
	}
	for _, base := range names {
		name := path.Join(v.Path, base)
		low, was, err := r.statOriginal(name)
		in := r.bases.all[name]
		if err != nil || was != Nothing && (in == nil || !r.isCurrent(in, low, was)) {
			return false
		}
	}
	return true
}

// visitOrphanDir visits a directory of the copy that the real directory no longer has. If
// the session changed something in it, the directory and these files are changes.
func (r *copySession) visitOrphanDir(v *version, st unix.Stat_t, was Kind) error {
	from := len(r.list)
	c := Change{Path: v.Path, Op: Create, Kind: Dir, Mode: permissions(st), OldKind: was}
	if was != Nothing {
		c.Op = Modify
	}
	r.list = append(r.list, c)
	if err := r.addOrphanChanges(v.Path, v.Path); err != nil {
		return err
	}
	if len(r.list) == from+1 && permissions(st) == v.Mode {
		r.list = r.list[:from]
	}
	for i := range r.list[from:] {
		r.list[from+i].Conflict = true
	}
	return nil
}

// addOrphanChanges lists the changes of the session in an orphaned directory.
func (r *copySession) addOrphanChanges(name, top string) error {
	names, err := r.listDir(name)
	if err != nil {
		return err
	}
	for _, base := range names {
		at := path.Join(name, base)
		if ok, _ := r.checkName(at, base); !ok {
			continue
		}
		st, kind, err := r.statCopy(at)
		if err != nil {
			return err
		}
		v := r.bases.all[at]
		if v == nil {
			v = &version{Path: at}
		}
		if kind == Nothing || v.Covered || r.isUntouched(v, st, kind) {
			continue
		}
		from := len(r.list)
		c := Change{Path: at, Op: Create, Kind: kind, Mode: permissions(st), NewDir: top}
		if kind == Dir && v.Kind == Dir {
			r.list = append(r.list, c)
			err = r.addOrphanChanges(at, top)
			if len(r.list) == from+1 && permissions(st) == v.Mode {
				r.list = r.list[:from]
			}
		} else {
			err = r.addChange(c, st, unix.Stat_t{})
		}
		if err != nil && !r.canIgnore(err) {
			return err
		}
		for i := range r.list[from:] {
			r.list[from+i].NewDir = top
		}
	}
	return nil
}

// markApplied records that the real directory has the applied changes. A file that the
// session changed since, or of which only part was applied, is a change of that.
func (r *copySession) markApplied(paths, skipped []string) error {
	within, out := matchPaths(paths), matchPaths(skipped)
	applied := map[string]bool{}
	for name := range r.picks.all {
		applied[name] = within(name) && !out(name)
	}
	for _, name := range slices.Sorted(maps.Keys(applied)) {
		if !applied[name] {
			continue
		}
		p := r.picks.all[name]
		if err := r.setBase(name, pickInfo{p.At, p.Partial}); err != nil {
			return err
		}
	}
	if err := r.bases.save(); err != nil {
		return err
	}
	return r.picks.remove(func(name string) bool { return applied[name] })
}

// setBase records what the real directory has at a path as the base of the copy's file. A
// file that is as it was applied is not a change.
func (r *copySession) setBase(name string, l pickInfo) error {
	low, was, err := r.statOriginal(name)
	if err != nil {
		return err
	}
	st, kind, err := r.statCopy(name)
	if err != nil {
		return err
	}
	if was != Dir {
		r.forgetBelow(name)
	}
	if was == Nothing {
		r.bases.forget(name)
		return nil
	}
	v := copyVersion(name, low)
	from, as := r.lower, l.At > 0 && l.matches(st) && kind == was
	if as {
		from = r.upper
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
	r.bases.put(v)
	return nil
}

// forgetBelow forgets the versions of the files in a directory.
func (r *copySession) forgetBelow(name string) {
	if v := r.bases.all[name]; v == nil || v.Kind != Dir {
		return
	}
	for _, v := range r.bases.below(name) {
		r.bases.forget(v.Path)
	}
}

// restore records that the real directory has its old files again. The copy still has the
// files of the session.
func (r *copySession) restore(_ *tree, list []Change) error {
	for _, c := range list {
		if c.Kind == Special {
			continue
		}
		if err := r.setBase(c.Path, pickInfo{}); err != nil {
			return err
		}
		if c.Op == Delete || c.OldKind == Dir && c.Kind != Dir {
			if err := r.setBasesBelow(c.Path); err != nil {
				return err
			}
		}
	}
	return r.bases.save()
}

// setBasesBelow records the files of a real directory, if there is one.
func (r *copySession) setBasesBelow(name string) error {
	names, err := r.lower.list(name)
	if r.canIgnore(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, base := range names {
		at := path.Join(name, base)
		if err := r.setBase(at, pickInfo{}); err != nil {
			return err
		}
		if err := r.setBasesBelow(at); err != nil {
			return err
		}
	}
	return nil
}

// discard replaces the changes of the session by what the real directory has now.
func (r *copySession) discard(paths []string) error {
	list, err := r.changes()
	var nameErr *NameError
	if err != nil && !errors.As(err, &nameErr) {
		return err
	}
	within := matchPaths(paths)
	list = slices.DeleteFunc(list, func(c Change) bool { return !within(c.Path) })
	for _, name := range r.badNames {
		if within(name) {
			list = append(list, Change{Path: name})
		}
	}
	for _, p := range paths {
		one := matchPaths([]string{p})
		if path.Clean(p) != "." && !slices.ContainsFunc(list, func(c Change) bool { return one(c.Path) }) {
			return fmt.Errorf("%q is not a change: %w", path.Clean(p), fs.ErrNotExist)
		}
	}
	if err := r.picks.remove(within); err != nil {
		return err
	}
	return r.resetPaths(list)
}

// resetPaths copies what the real directory has at the paths of the changes.
func (r *copySession) resetPaths(list []Change) error {
	c := &copier{to: r.upper, bases: r.bases, covered: map[string]bool{}, store: r.Store}
	for name, v := range r.bases.all {
		c.covered[name] = v.Covered
	}
	var err error
	if c.from, err = openDir(r.Overlay); err != nil {
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
	if err := r.removePaths(out); err != nil {
		return err
	}
	for _, change := range list {
		r.upper.closeLast()
		if change.Op == Mode && change.Kind == Dir {
			err = r.resetMode(c, change.Path)
		} else {
			r.forgetBelow(change.Path)
			r.bases.forget(change.Path)
			err = c.copyEntry(change.Path)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", change.Path, c.spaceError(err)), r.bases.save())
		}
	}
	return r.bases.save()
}

// resetMode gives a directory of the copy the permission bits of the real one.
func (r *copySession) resetMode(c *copier, name string) error {
	st, err := c.from.stat(name)
	if err != nil {
		return err
	}
	if v := r.bases.all[name]; v != nil {
		now := *v
		now.Mode = permissions(st)
		r.bases.put(&now)
	}
	return c.setOwnerAndMode(name, st)
}
