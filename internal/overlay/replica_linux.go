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

// An own is how a file of a copy was when it was made: while it is still so, nobody
// has changed it.
type own struct {
	Ino                uint64
	Size, Mtime, Ctime int64
}

func ownOf(st unix.Stat_t) own { return own{st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano()} }

// A replica goes through a copy.
type replica struct {
	store
	in map[string][]string // what was copied, by the folder that it was in
}

// standing lists the changes. Nothing is written.
func (r *replica) standing() ([]Change, error) {
	r.in = map[string][]string{}
	for _, name := range r.bases.paths() {
		dir := path.Dir(name)
		if dir == "." {
			dir = ""
		}
		r.in[dir] = append(r.in[dir], path.Base(name))
	}
	if err := r.folder(""); err != nil {
		return nil, err
	}
	if len(r.unfit) > 0 {
		return r.list, &NameError{r.unfit[0]}
	}
	return r.list, nil
}

// names lists a folder of the copy. A command may have made one that nobody can
// enter; its owner can change that.
func (r *replica) names(name string) ([]string, error) {
	names, err := r.upper.names(name)
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
	return r.upper.names(name)
}

// mine says what the copy has.
func (r *replica) mine(name string) (unix.Stat_t, Kind, error) {
	st, err := r.upper.stat(name)
	if r.away(err) {
		return st, Nothing, nil
	}
	if err != nil {
		return st, Nothing, err
	}
	return st, kindOf(st), nil
}

// theirs says what the real folder has. What may not be looked at is something that
// was never copied.
func (r *replica) theirs(name string) (unix.Stat_t, Kind, error) {
	st, was, err := r.real(name)
	if errors.Is(err, unix.EACCES) {
		return st, Special, nil
	}
	return st, was, err
}

// folder goes through a folder that the copy has, and the real folder too.
func (r *replica) folder(name string) error {
	names, err := r.names(name)
	if err != nil {
		return err
	}
	for _, base := range slices.Compact(slices.Sorted(slices.Values(append(names, r.in[name]...)))) {
		at := path.Join(name, base)
		from := len(r.list)
		if len(at) < maxPath {
			if err := r.entry(at); err != nil && !r.away(err) {
				return err
			}
		}
		if len(r.list) == from && len(at) < maxPath {
			continue
		}
		if ok, _ := r.fits(at, base); !ok {
			r.list = r.list[:from]
		}
	}
	return nil
}

// entry goes through one thing.
func (r *replica) entry(name string) error {
	v := r.bases.all[name]
	st, kind, err := r.mine(name)
	if err != nil {
		return err
	}
	low, was, err := r.theirs(name)
	if err != nil {
		return err
	}
	if v == nil {
		v = &version{Path: name} // nothing was there
	}
	switch {
	case v.Covered, v.Left && kind == Nothing, r.untouched(v, st, kind):
		return nil
	case kind == Dir && v.Kind == Dir && !v.Left && was != Dir:
		return r.orphan(v, st, was)
	case kind == Dir && was == Dir:
		if bits(st) != bits(low) && (v.Kind != Dir || bits(st) != v.Mode) {
			r.list = append(r.list, Change{Path: name, Op: Mode, Kind: Dir, Mode: bits(st), OldKind: was, OldMode: bits(low), Conflict: v.Left || !v.is(low, was)})
		}
		return r.folder(name)
	case kind == Nothing && was == Nothing:
		return nil
	case kind == Nothing:
		r.list = append(r.list, Change{Path: name, Op: Delete, OldKind: was, Conflict: !r.still(v, low, was)})
		return nil
	}
	from := len(r.list)
	c := Change{Path: name, Op: Create, Kind: kind, Mode: bits(st), OldKind: was}
	if was != Nothing {
		c.Op = Modify
	}
	if err := r.add(c, st, low); err != nil {
		return err
	}
	clash := len(r.list) > from && !r.still(v, low, was)
	for i := range r.list[from:] {
		r.list[from+i].Conflict = clash
	}
	return nil
}

// untouched reports whether a file or link of the copy is as it was made.
func (r *replica) untouched(v *version, st unix.Stat_t, kind Kind) bool {
	if v.Kind != kind {
		return false
	}
	switch kind {
	case File:
		return v.Own == ownOf(st)
	case Symlink:
		to, err := r.upper.link(v.Path)
		return err == nil && to == string(v.To)
	}
	return false
}

// still reports whether the real folder has a version; of a folder, with nothing in it
// that was not copied, or has changed.
func (r *replica) still(v *version, low unix.Stat_t, was Kind) bool {
	if v.Left || v.Covered || !v.is(low, was) || was != Dir {
		return !v.Left && !v.Covered && v.is(low, was)
	}
	names, err := r.lower.names(v.Path)
	if err != nil {
		return false
	}
	for _, base := range names {
		name := path.Join(v.Path, base)
		low, was, err := r.theirs(name)
		in := r.bases.all[name]
		if err != nil || was != Nothing && (in == nil || !r.still(in, low, was)) {
			return false
		}
	}
	return true
}

// orphan goes through a folder of the copy that the real folder does not have any
// more. What the session has changed in it is a change, with the folder.
func (r *replica) orphan(v *version, st unix.Stat_t, was Kind) error {
	from := len(r.list)
	c := Change{Path: v.Path, Op: Create, Kind: Dir, Mode: bits(st), OldKind: was}
	if was != Nothing {
		c.Op = Modify
	}
	r.list = append(r.list, c)
	if err := r.stray(v.Path, v.Path); err != nil {
		return err
	}
	if len(r.list) == from+1 && bits(st) == v.Mode {
		r.list = r.list[:from]
	}
	for i := range r.list[from:] {
		r.list[from+i].Conflict = true
	}
	return nil
}

// stray lists what the session has changed in such a folder.
func (r *replica) stray(name, top string) error {
	names, err := r.names(name)
	if err != nil {
		return err
	}
	for _, base := range names {
		at := path.Join(name, base)
		if ok, _ := r.fits(at, base); !ok {
			continue
		}
		st, kind, err := r.mine(at)
		if err != nil {
			return err
		}
		v := r.bases.all[at]
		if v == nil {
			v = &version{Path: at}
		}
		if kind == Nothing || v.Covered || r.untouched(v, st, kind) {
			continue
		}
		from := len(r.list)
		c := Change{Path: at, Op: Create, Kind: kind, Mode: bits(st), NewDir: top}
		if kind == Dir && v.Kind == Dir {
			r.list = append(r.list, c)
			err = r.stray(at, top)
			if len(r.list) == from+1 && bits(st) == v.Mode {
				r.list = r.list[:from]
			}
		} else {
			err = r.add(c, st, unix.Stat_t{})
		}
		if err != nil && !r.away(err) {
			return err
		}
		for i := range r.list[from:] {
			r.list[from+i].NewDir = top
		}
	}
	return nil
}

// settle notes that the real folder has what has landed. What the session has changed
// since, or what has landed only in part, is a change of that.
func (r *replica) settle(paths, left []string) error {
	within, out := among(paths), among(left)
	landed := map[string]bool{}
	for name := range r.picks.all {
		landed[name] = within(name) && !out(name)
	}
	for _, name := range slices.Sorted(maps.Keys(landed)) {
		if !landed[name] {
			continue
		}
		p := r.picks.all[name]
		if err := r.rebase(name, landing{p.At, p.Given}); err != nil {
			return err
		}
	}
	if err := r.bases.save(); err != nil {
		return err
	}
	return r.picks.drop(func(name string) bool { return landed[name] })
}

// rebase notes what the real folder has at a path as the version that the copy is
// changed from. What is as it landed is no change.
func (r *replica) rebase(name string, l landing) error {
	low, was, err := r.theirs(name)
	if err != nil {
		return err
	}
	st, kind, err := r.mine(name)
	if err != nil {
		return err
	}
	if was != Dir {
		r.forgetIn(name)
	}
	if was == Nothing {
		r.bases.drop(name)
		return nil
	}
	v := noted(name, low)
	from, as := r.lower, l.At > 0 && l.whole(st) && kind == was
	if as {
		from = r.upper
	}
	switch {
	case was == File && as:
		v.Own = ownOf(st)
	case was == Symlink:
		to, err := from.link(name)
		if err != nil {
			return err
		}
		v.To = []byte(to)
	}
	r.bases.put(v)
	return nil
}

// forgetIn forgets the versions of what is in a folder, if there is one.
func (r *replica) forgetIn(name string) {
	if v := r.bases.all[name]; v == nil || v.Kind != Dir {
		return
	}
	for _, v := range r.bases.below(name) {
		r.bases.drop(v.Path)
	}
}

// restore notes that the real folder has again what it had before something landed.
// The copy has its own all the time.
func (r *replica) restore(_ *tree, list []Change) error {
	for _, c := range list {
		if c.Kind == Special {
			continue
		}
		if err := r.rebase(c.Path, landing{}); err != nil {
			return err
		}
		if c.Op == Delete || c.OldKind == Dir && c.Kind != Dir {
			if err := r.below(c.Path); err != nil {
				return err
			}
		}
	}
	return r.bases.save()
}

// below notes what is in a folder of the real one, if there is one.
func (r *replica) below(name string) error {
	names, err := r.lower.names(name)
	if r.away(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, base := range names {
		at := path.Join(name, base)
		if err := r.rebase(at, landing{}); err != nil {
			return err
		}
		if err := r.below(at); err != nil {
			return err
		}
	}
	return nil
}

// discard copies what the real folder has now in place of what the session has made.
func (r *replica) discard(paths []string) error {
	list, err := r.standing()
	var unfit *NameError
	if err != nil && !errors.As(err, &unfit) {
		return err
	}
	within := among(paths)
	list = slices.DeleteFunc(list, func(c Change) bool { return !within(c.Path) })
	for _, name := range r.unfit {
		if within(name) {
			list = append(list, Change{Path: name})
		}
	}
	for _, p := range paths {
		one := among([]string{p})
		if path.Clean(p) != "." && !slices.ContainsFunc(list, func(c Change) bool { return one(c.Path) }) {
			return fmt.Errorf("%q is no change: %w", path.Clean(p), fs.ErrNotExist)
		}
	}
	if err := r.picks.drop(within); err != nil {
		return err
	}
	return r.replace(list)
}

// replace makes of changed things what the real folder has.
func (r *replica) replace(list []Change) error {
	c := &copier{to: r.upper, bases: r.bases, without: map[string]bool{}, store: r.Store}
	for name, v := range r.bases.all {
		c.without[name] = v.Covered
	}
	var err error
	if c.from, err = r.openFolder(); err != nil {
		return err
	}
	defer c.from.close()
	c.from.stays = true
	var out []string
	for _, change := range list {
		if change.Op != Mode {
			out = append(out, change.Path)
		}
	}
	if err := r.throw(out); err != nil {
		return err
	}
	for _, change := range list {
		r.upper.forget()
		if change.Op == Mode && change.Kind == Dir {
			err = r.sameMode(c, change.Path)
		} else {
			r.forgetIn(change.Path)
			r.bases.drop(change.Path)
			err = c.thing(change.Path)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", change.Path, c.full(err)), r.bases.save())
		}
	}
	return r.bases.save()
}

// sameMode gives a folder of the copy the permission bits that the real one has.
func (r *replica) sameMode(c *copier, name string) error {
	st, err := c.from.stat(name)
	if err != nil {
		return err
	}
	if v := r.bases.all[name]; v != nil {
		now := *v
		now.Mode = bits(st)
		r.bases.put(&now)
	}
	return c.owned(name, st)
}
