package overlay

import (
	"bytes"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// A version is what the real folder had at a path when the session first changed
// it: the base of the change.
type version struct {
	Path  string `json:",omitempty"`
	Raw   []byte `json:",omitempty"` // the path, where it is no text
	Kind  Kind   `json:",omitempty"`
	Ino   uint64 `json:",omitempty"`
	Size  int64  `json:",omitempty"`
	Ctime int64  `json:",omitempty"`
	Mode  uint32 `json:",omitempty"`
	To    []byte `json:",omitempty"` // what a link said
	Text  int    `json:",omitempty"` // the number of the content that was kept, 0 for none

	// Unknown says that others have changed it while the session did.
	Unknown bool `json:",omitempty"`
	// Open says that both sides have a folder here, or had, and that what the session
	// has changed in it has versions of its own. What is in another one has the version
	// that follows: of a folder it is what has not changed since At, of nothing nothing.
	Open bool  `json:",omitempty"`
	At   int64 `json:",omitempty"`

	// Looked is the time of the file in the layer that was found to be a change.
	Looked int64 `json:",omitempty"`

	Gone bool `json:",omitempty"` // of a line: there is none any more

	// Of what was copied: how the copy was then; that it could not be copied; that
	// another folder stands there in the session.
	Own     own  `json:",omitzero"`
	Left    bool `json:",omitempty"`
	Covered bool `json:",omitempty"`

	met bool // there still is a change
}

// versionOf returns the version that is there. What has changed since a time is not
// known: it may be before or after what the session saw.
func versionOf(name string, st unix.Stat_t, at int64) *version {
	v := &version{Path: name, Kind: kindOf(st), Ino: st.Ino, Size: st.Size, Ctime: st.Ctim.Nano(), Mode: bits(st), Unknown: st.Ctim.Nano() >= at}
	if v.Kind == Dir {
		v.Ino, v.Size, v.Ctime, v.At = 0, 0, 0, at
	}
	return v
}

// is reports whether something still is this version; of a folder what is in it is
// not looked at.
func (v *version) is(st unix.Stat_t, kind Kind) bool {
	switch {
	case v.Unknown || v.Kind != kind:
		return false
	case kind == Nothing:
		return true
	case kind == Dir:
		return bits(st) == v.Mode
	}
	return st.Ino == v.Ino && st.Size == v.Size && st.Ctim.Nano() == v.Ctime
}

// equal reports whether two are the same, of a folder.
func (v *version) equal(w *version) bool {
	return v.Kind == w.Kind && v.Mode == w.Mode && v.Unknown == w.Unknown && v.Open == w.Open
}

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
	case v.Kind == Dir && v.At > 0:
		return source{from: theRealOne, at: v.At, hidden: true}
	case v.Kind != Dir && v.Unknown:
		return source{from: unknown}
	}
	return source{from: nothing}
}

// derive returns the version of something that is not noted.
func (k *keeper) derive(t thing, s source) *version {
	v := &version{Path: t.name}
	switch {
	case s.from == unknown:
		v.Unknown = true
	case s.from == nothing:
	case t.was == Nothing && (s.hidden || (t.kind == File || t.kind == Dir) && k.copied(t.name)):
		v.Unknown = k.mayHaveGone(t.name, s.at)
	case t.was == Nothing:
	case t.kind == Dir && t.was == Dir && !s.hidden && !k.hides(t.name):
		if t.low.Ctim.Nano() >= s.at && !k.copied(t.name) {
			break // both have made one
		}
		v = versionOf(t.name, t.low, s.at)
		v.Open, v.Unknown = true, v.Unknown && bits(t.st) != bits(t.low)
	default:
		v = versionOf(t.name, t.low, s.at)
		if v.Kind == Symlink {
			to, err := k.lower.link(t.name)
			v.To, v.Unknown = []byte(to), v.Unknown || err != nil
		}
	}
	return v
}

// mayHaveGone reports whether something that the real folder does not have may have
// been there at a time: a folder above has changed since.
func (k *keeper) mayHaveGone(name string, at int64) bool {
	for {
		name = path.Dir(name)
		in, kind, err := k.real(name)
		if err != nil || kind == Dir {
			return err != nil || in.Ctim.Nano() >= at
		}
	}
}

// closed returns the version of something where both had a folder and where the
// session has deleted or replaced that now, whole. What was a clash in it stays one.
func (k *keeper) closed(t thing) *version {
	v := *t.version
	v.Open, v.At = false, k.since
	if t.was == Dir {
		v = *versionOf(t.name, t.low, k.since)
		v.Mode, v.Unknown = t.Mode, v.Unknown || t.Unknown || t.Kind != Dir
	}
	for _, in := range k.bases.below(t.name) {
		low, was, err := k.real(in.Path)
		switch {
		case err == nil && k.at(in, low, was), was == Nothing && t.kind != Dir:
			k.bases.drop(in.Path)
		case in.Open && was == Dir:
			k.bases.put(&version{Path: in.Path, Kind: Dir, Unknown: true, At: k.since})
		case in.Open:
			shut := *in
			shut.Open = false
			k.bases.put(&shut)
		}
	}
	return &v
}

// at reports whether the real folder still has a version. Of a folder that was
// deleted or replaced that is so where nothing in it has changed.
func (k *keeper) at(v *version, low unix.Stat_t, was Kind) bool {
	if !v.is(low, was) || was != Dir || v.Open {
		// Who has switched to another branch and back has written the same again.
		return v.is(low, was) || was == File && k.again(v, low)
	}
	for _, in := range k.bases.below(v.Path) {
		low, was, err := k.real(in.Path)
		if err != nil || was != Nothing && !k.at(in, low, was) {
			return false
		}
	}
	return (&opened{}).olderThan(k.lower, v.Path, v.At, ctimeOf)
}

// idle reports whether something of the layer is no change: it is as the real folder
// has it, or as it was. Of what has landed only the first counts.
func (k *keeper) idle(t thing) (bool, error) {
	known := !t.Unknown && !t.landed
	switch t.kind {
	case Nothing:
		return t.was == Nothing || known && t.Kind == Nothing, nil
	case Symlink:
		to, err := k.upper.link(t.name)
		if err != nil {
			return false, err
		}
		if known && t.Kind == Symlink && to == string(t.To) {
			return true, nil
		}
		real, err := k.lower.link(t.name)
		return err == nil && real == to, nil
	case File:
		is := t.is(t.low, t.was)
		if known && !is {
			if same, err := k.holds(k.upper, t.version, t.st); same || err != nil {
				return same, err
			}
		}
		looked := is && t.Looked == t.st.Ctim.Nano() && !t.landed
		if k.tell || looked || t.was != File || bits(t.st) != bits(t.low) {
			return false, nil // who tells will look
		}
		return k.same(t.name, t.st, t.low)
	}
	return false, nil
}

// again reports whether the real folder has a file as it was, written anew.
func (k *keeper) again(v *version, low unix.Stat_t) bool {
	same, err := k.holds(k.lower, v, low)
	return same && err == nil && !v.Unknown
}

// holds reports whether a file of one of the trees has the content that a version had, as
// far as that was kept.
func (k *keeper) holds(in *tree, v *version, st unix.Stat_t) (bool, error) {
	if v.Kind != File || v.Text == 0 || v.Size != st.Size || v.Mode != bits(st) {
		return false, nil
	}
	before, err := os.ReadFile(k.bases.text(v))
	if err != nil {
		return false, nil
	}
	fd, err := in.open(v.Path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return false, err
	}
	f := os.NewFile(uintptr(fd), v.Path)
	defer f.Close()
	now := make([]byte, len(before)+1)
	n, err := f.ReadAt(now, 0)
	return n == len(before) && err != nil && bytes.Equal(before, now[:n]), nil
}
