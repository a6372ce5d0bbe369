package layer

import (
	"bytes"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// A source says what the versions are of things in a folder that are not noted.
type source struct {
	from   origin
	at     int64 // not known is what has changed since
	hidden bool  // the folder has covered the real one, since the same time
}

type origin int

const (
	theRealOne origin = iota // what the real folder has
	nothing                  // nothing was there
	unknown
)

// source returns that of what is in a folder of a version.
func (v *version) source(since int64) source {
	switch {
	case v.Open:
		return source{from: theRealOne, at: since}
	case v.Kind == Folder && v.At > 0:
		return source{from: theRealOne, at: v.At, hidden: true}
	case v.Kind != Folder && v.Unknown:
		return source{from: unknown}
	}
	return source{from: nothing}
}

// A thing is what is at a path, in the layer and in the real folder.
type thing struct {
	name     string
	st, low  unix.Stat_t
	kind     Kind // in the layer: Nothing is the mark of what was deleted
	was      Kind // in the real folder
	noted    bool // the version was known before
	covering bool // a folder above covers the real one
	landed   bool
	landing  landing // where it was picked
	pending  bool    // it was picked, has not landed yet, and is other than what will
	*version
}

// look returns what is at a path.
func (k *keeper) look(name string, s source, covering bool) (t thing, err error) {
	t = thing{name: name, covering: covering, version: k.bases.all[name]}
	if t.st, err = k.upper.stat(name); err != nil {
		return t, err
	}
	if t.low, t.was, err = k.real(name); err != nil {
		return t, err
	}
	t.kind = kindOf(t.st)
	if p, picked := k.picks.all[name]; picked && t.kind != Special {
		t.landing = landing{p.At, p.Given}
		t.landed = k.landed[name]
		t.pending = !t.landed && !t.landing.whole(t.st)
	}
	if t.noted = t.version != nil; !t.noted {
		t.version = k.derive(t, s)
	}
	return t, nil
}

// real says what the real folder has.
func (k *store) real(name string) (unix.Stat_t, Kind, error) {
	st, err := k.lower.stat(name)
	if k.away(err) {
		return st, Nothing, nil
	}
	if err != nil {
		return st, Nothing, err
	}
	return st, kindOf(st), nil
}

// derive returns the version of something that is not noted.
func (k *keeper) derive(t thing, s source) *version {
	v := &version{Path: t.name}
	switch {
	case s.from == unknown:
		v.Unknown = true
	case s.from == nothing:
	case t.was == Nothing && (s.hidden || (t.kind == File || t.kind == Folder) && k.copied(t.name)):
		// It may have been there, and gone since.
		in, err := k.lower.stat(path.Dir(t.name))
		v.Unknown = err != nil || in.Ctim.Nano() >= s.at
	case t.was == Nothing:
	case t.kind == Folder && t.was == Folder && !s.hidden && !k.hides(t.name):
		if t.low.Ctim.Nano() >= s.at && !k.copied(t.name) {
			break // both have made one
		}
		v = versionOf(t.name, t.low, s.at)
		v.Open, v.Unknown = true, v.Unknown && bits(t.st) != bits(t.low)
	default:
		v = versionOf(t.name, t.low, s.at)
		if v.Kind == Link {
			to, err := k.lower.link(t.name)
			v.To, v.Unknown = []byte(to), v.Unknown || err != nil
		}
	}
	return v
}

// note notes the version of something that stays.
func (k *keeper) note(t thing) {
	t.met = true
	if t.Kind == Folder && !t.Open {
		for _, in := range k.bases.below(t.name) {
			in.met = true // a clash in what was deleted
		}
	}
	if !t.noted && !k.tell {
		k.bases.keepText(k.lower, t.version)
	}
	if k.bases.all[t.name] != t.version {
		k.bases.put(t.version)
	}
}

// at reports whether the real folder still has a version. Of a folder that was
// deleted or replaced that is so where nothing in it has changed.
func (k *keeper) at(v *version, low unix.Stat_t, was Kind) bool {
	if !v.is(low, was) || was != Folder || v.Open {
		return v.is(low, was)
	}
	for _, in := range k.bases.below(v.Path) {
		low, was, err := k.real(in.Path)
		if err != nil || was != Nothing && !k.at(in, low, was) {
			return false
		}
	}
	return (&opened{}).olderThan(k.lower, v.Path, v.At, ctimeOf)
}

// inside goes through a folder of the layer. It reports whether something stays in
// it. A folder that covers the real one has deleted all that it does not have.
func (k *keeper) inside(name string, s source, covering bool) (stays bool, err error) {
	names, err := k.upper.names(name)
	if k.away(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	all := names
	if covering {
		below, err := k.lower.names(name)
		if err != nil && !k.away(err) {
			return false, err
		}
		all = slices.Compact(slices.Sorted(slices.Values(append(below, names...))))
	}
	for _, base := range all {
		at := path.Join(name, base)
		if len(at) >= maxPath || k.tell {
			if ok, _ := k.fits(at, base); !ok {
				stays = true
				continue
			}
		}
		if _, found := slices.BinarySearch(names, base); !found {
			if err := k.covered(at, s); err != nil {
				return false, err
			}
			continue
		}
		one, err := k.entry(at, s, covering)
		if err != nil && !k.away(err) {
			return false, err
		}
		stays = stays || one
	}
	return stays, nil
}

// covered lists something that was deleted with the folder that it was in.
func (k *keeper) covered(name string, s source) error {
	low, was, err := k.real(name)
	if err != nil || was == Nothing || !k.tell {
		return err
	}
	v := k.bases.all[name]
	if v == nil {
		v = k.derive(thing{name: name, low: low, was: was}, s)
	}
	k.list = append(k.list, Change{Path: name, Op: Delete, Was: was, Clash: !k.at(v, low, was)})
	return nil
}

// entry goes through one thing of the layer. It reports whether that stays.
func (k *keeper) entry(name string, s source, covering bool) (bool, error) {
	t, err := k.look(name, s, covering)
	switch {
	case err != nil:
		return false, err
	case t.kind == Folder && t.was == Folder:
		return k.both(t)
	case t.kind == Folder:
		return k.alone(t)
	}
	return k.single(t)
}

// single goes through a file, a link, or the mark of something that was deleted.
func (k *keeper) single(t thing) (stays bool, err error) {
	if t.Open {
		t.version, t.noted = k.closed(t), false
	}
	if k.judge {
		idle, err := k.idle(t)
		if err != nil {
			return false, err
		}
		if idle || t.landed && t.landing.whole(t.st) {
			return k.leaves(t), nil
		}
	}
	if t.landed {
		t.version, t.noted = k.derive(t, source{from: theRealOne, at: k.now}), false
	}
	k.note(t)
	if !k.tell {
		return true, nil
	}
	if t.kind == Nothing {
		k.list = append(k.list, Change{Path: t.name, Op: Delete, Was: t.was, Clash: !k.at(t.version, t.low, t.was)})
		return true, nil
	}
	return true, k.changed(t)
}

// changed lists something that is new, or other than what the real folder has, with
// all that is in it.
func (k *keeper) changed(t thing) error {
	from := len(k.list)
	c := Change{Path: t.name, Op: Create, Kind: t.kind, Mode: bits(t.st), Was: t.was}
	if t.was != Nothing {
		c.Op = Modify
	}
	if err := k.add(c, t.st, t.low); err != nil {
		return err
	}
	clash := len(k.list) > from && !k.at(t.version, t.low, t.was)
	for i := range k.list[from:] {
		k.list[from+i].Clash = clash
	}
	return nil
}

// idle reports whether something of the layer is no change: it is as the real folder
// has it, or as it was. Of what has landed only the first counts.
func (k *keeper) idle(t thing) (bool, error) {
	known := !t.Unknown && !t.landed
	switch t.kind {
	case Nothing:
		return t.was == Nothing || known && t.Kind == Nothing, nil
	case Link:
		to, err := k.upper.link(t.name)
		if err != nil {
			return false, err
		}
		if known && t.Kind == Link && to == string(t.To) {
			return true, nil
		}
		real, err := k.lower.link(t.name)
		return err == nil && real == to, nil
	case File:
		is := t.is(t.low, t.was)
		if known && !is {
			if same, err := k.asBefore(t); same || err != nil {
				return same, err
			}
		}
		looked := is && t.noted && t.st.Ctim.Nano() < k.since && !t.landed
		if k.tell || looked || t.was != File || bits(t.st) != bits(t.low) {
			return false, nil // who tells will look
		}
		return k.same(t.name, t.st, t.low)
	}
	return false, nil
}

// asBefore reports whether a file of the layer is what it was changed from.
func (k *keeper) asBefore(t thing) (bool, error) {
	if t.Kind != File || t.Text == 0 || t.Size != t.st.Size || t.Mode != bits(t.st) {
		return false, nil
	}
	before, err := os.ReadFile(k.bases.text(t.version))
	if err != nil {
		return false, nil
	}
	fd, err := k.upper.open(t.name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return false, err
	}
	f := os.NewFile(uintptr(fd), t.name)
	defer f.Close()
	now := make([]byte, len(before)+1)
	n, err := f.ReadAt(now, 0)
	return n == len(before) && err != nil && bytes.Equal(before, now[:n]), nil
}

// leaves says of something that it is no change: its version is forgotten, and it is
// taken out. Where something else will land it stays, and hides that then.
func (k *keeper) leaves(t thing) (stays bool) {
	if t.pending {
		k.note(t)
		return true
	}
	if k.out = append(k.out, t.name); k.tidy {
		k.bases.drop(t.name)
	}
	return false
}

// closed returns the version of something where both had a folder and where the
// session has deleted or replaced that now, whole. What was a clash in it stays one.
func (k *keeper) closed(t thing) *version {
	v := *t.version
	v.Open, v.At = false, k.since
	if t.was == Folder {
		v = *versionOf(t.name, t.low, k.since)
		v.Mode, v.Unknown = t.Mode, v.Unknown || t.Unknown || t.Kind != Folder
	}
	for _, in := range k.bases.below(t.name) {
		low, was, err := k.real(in.Path)
		switch {
		case err == nil && k.at(in, low, was), was == Nothing && t.kind != Folder:
			k.bases.drop(in.Path)
		case in.Open:
			k.bases.put(&version{Path: in.Path, Kind: Folder, Unknown: true, At: k.since})
		}
	}
	return &v
}

// alone goes through a folder that the real folder does not have.
func (k *keeper) alone(t thing) (stays bool, err error) {
	if t.Open || t.landed {
		// It was in both. What is left of it, where there is nothing of the session's own
		// in it, goes as the real one has gone.
		quiet := *k
		quiet.tell = false
		stays, err := quiet.inside(t.name, t.source(k.since), false)
		k.out = quiet.out
		if err != nil {
			return false, err
		}
		same := t.Kind == Folder && !t.Unknown && bits(t.st) == t.Mode
		if !stays && k.judge && (same || t.landed && t.landing.At > 0) {
			return k.leaves(t), nil
		}
	}
	if k.tidy {
		if err := k.uncover(t.name); err != nil {
			return false, err
		}
	}
	if t.landed {
		t.version, t.noted = k.derive(t, source{from: theRealOne, at: k.now}), false
	}
	if t.Kind == Folder && t.At > 0 && !t.Open {
		// All that it has covered is gone.
		gone := *t.version
		gone.At = 0
		t.version = &gone
	}
	k.note(t)
	if !k.tell {
		return true, nil
	}
	err = k.changed(t)
	k.list = slices.DeleteFunc(k.list, func(c Change) bool { return c.In == t.name && slices.Contains(k.out, c.Path) })
	return true, err
}

// both goes through a folder that the real folder has too.
func (k *keeper) both(t thing) (stays bool, err error) {
	covering := t.covering || k.hides(t.name)
	if covering && t.Open {
		t.version, t.noted = k.closed(t), false
	}
	k.note(t)
	s := t.source(k.since)
	switch {
	case s.from == nothing:
		// The session has made it where nothing was: it has deleted nothing in it.
		if covering = false; k.tidy {
			err = k.uncover(t.name)
		}
	case covering && k.tidy:
		covering, err = false, k.unfold(t.name)
	}
	if err != nil {
		return false, err
	}
	if err := k.mode(&t); err != nil {
		return false, err
	}
	if covering && !k.tell {
		return true, nil
	}
	stays, err = k.inside(t.name, s, covering)
	if err != nil || covering {
		return true, err
	}
	same := bits(t.st) == bits(t.low)
	if same && !stays && k.judge {
		return k.leaves(t), nil
	}
	now := *t.version
	if same || t.landed {
		now = version{Path: t.name, Kind: Folder, Mode: bits(t.low)}
	}
	if now.Open = true; !now.equal(t.version) {
		k.bases.put(&now)
	}
	return true, nil
}

// mode looks at the permission bits of a folder that both have. Where the session has
// not changed them they are the real folder's.
func (k *keeper) mode(t *thing) error {
	known := t.Kind == Folder && !t.Unknown
	follows := known && bits(t.st) == t.Mode
	if t.landed {
		follows = t.landing.whole(t.st)
	}
	switch {
	case bits(t.st) == bits(t.low):
	case follows && k.tidy:
		t.st.Mode = t.low.Mode
		return k.setMode(t.name, bits(t.low))
	case !follows && k.tell:
		k.list = append(k.list, Change{Path: t.name, Op: Mode, Kind: Folder, Mode: bits(t.st), Was: Folder, Clash: !t.is(t.low, t.was)})
	}
	return nil
}
