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
	Path       string `json:",omitempty"`
	RawPath    []byte `json:"Raw,omitempty"` // the path, where it is no text
	Kind       Kind   `json:",omitempty"`
	Ino        uint64 `json:",omitempty"`
	Size       int64  `json:",omitempty"`
	Ctime      int64  `json:",omitempty"`
	Mode       uint32 `json:",omitempty"`
	LinkTarget []byte `json:"To,omitempty"`   // what a link said
	Content    int    `json:"Text,omitempty"` // the number of the content that was kept, 0 for none

	// Unknown says that others have changed it while the session did.
	Unknown bool `json:",omitempty"`
	// Open says that both sides have a folder here, or had, and that what the session
	// has changed in it has versions of its own. What is in another one has the version
	// that follows: of a folder it is what has not changed since At, of nothing nothing.
	Open  bool  `json:",omitempty"`
	Since int64 `json:"At,omitempty"`

	// Looked is the time of the file in the layer that was found to be a change.
	CheckedCtime int64 `json:"Looked,omitempty"`

	Forgotten bool `json:"Gone,omitempty"` // of a line: there is none any more

	// Of what was copied: how the copy was then; that it could not be copied; that
	// another folder stands there in the session.
	Copy    copyStamp `json:"Own,omitzero"`
	Skipped bool      `json:"Left,omitempty"`
	Covered bool      `json:",omitempty"`

	inUse bool // there still is a change
}

// versionOf returns the version that is there. What has changed since a time is not
// known: it may be before or after what the session saw.
func versionOf(name string, st unix.Stat_t, at int64) *version {
	v := &version{Path: name, Kind: kindOf(st), Ino: st.Ino, Size: st.Size, Ctime: st.Ctim.Nano(), Mode: permissions(st), Unknown: st.Ctim.Nano() >= at}
	if v.Kind == Dir {
		v.Ino, v.Size, v.Ctime, v.Since = 0, 0, 0, at
	}
	return v
}

// matches reports whether something still is this version; of a folder what is in it is
// not looked at.
func (v *version) matches(st unix.Stat_t, kind Kind) bool {
	switch {
	case v.Unknown || v.Kind != kind:
		return false
	case kind == Nothing:
		return true
	case kind == Dir:
		return permissions(st) == v.Mode
	}
	return st.Ino == v.Ino && st.Size == v.Size && st.Ctim.Nano() == v.Ctime
}

// equalDir reports whether two are the same, of a folder.
func (v *version) equalDir(w *version) bool {
	return v.Kind == w.Kind && v.Mode == w.Mode && v.Unknown == w.Unknown && v.Open == w.Open
}

// A source says what the versions are of things in a folder that are not noted.
type baseSource struct {
	from     origin
	since    int64 // not known is what has changed since
	isOpaque bool  // the folder has covered the real one, since the same time
}

type origin int

const (
	fromReal    origin = iota // what the real folder has
	fromNothing               // nothing was there
	fromUnknown
)

// childSource returns that of what is in a folder of a version.
func (v *version) childSource(since int64) baseSource {
	switch {
	case v.Open:
		return baseSource{from: fromReal, since: since}
	case v.Kind == Dir && v.Since > 0:
		return baseSource{from: fromReal, since: v.Since, isOpaque: true}
	case v.Kind != Dir && v.Unknown:
		return baseSource{from: fromUnknown}
	}
	return baseSource{from: fromNothing}
}

// deriveVersion returns the version of something that is not noted.
func (k *overlaySession) deriveVersion(t entry, s baseSource) *version {
	v := &version{Path: t.name}
	switch {
	case s.from == fromUnknown:
		v.Unknown = true
	case s.from == fromNothing:
	case t.realKind == Nothing && (s.isOpaque || (t.kind == File || t.kind == Dir) && k.isCopyUp(t.name)):
		v.Unknown = k.mayHaveExisted(t.name, s.since)
	case t.realKind == Nothing:
	case t.kind == Dir && t.realKind == Dir && !s.isOpaque && !k.isOpaque(t.name):
		if t.lower.Ctim.Nano() >= s.since && !k.isCopyUp(t.name) {
			break // both have made one
		}
		v = versionOf(t.name, t.lower, s.since)
		v.Open, v.Unknown = true, v.Unknown && permissions(t.upper) != permissions(t.lower)
	default:
		v = versionOf(t.name, t.lower, s.since)
		if v.Kind == Symlink {
			to, err := k.lower.readLink(t.name)
			v.LinkTarget, v.Unknown = []byte(to), v.Unknown || err != nil
		}
	}
	return v
}

// mayHaveExisted reports whether something that the real folder does not have may have
// been there at a time: a folder above has changed since.
func (k *overlaySession) mayHaveExisted(name string, at int64) bool {
	for {
		name = path.Dir(name)
		in, kind, err := k.statReal(name)
		if err != nil || kind == Dir {
			return err != nil || in.Ctim.Nano() >= at
		}
	}
}

// closeVersion returns the version of something where both had a folder and where the
// session has deleted or replaced that now, whole. What was a clash in it stays one.
func (k *overlaySession) closeVersion(t entry) *version {
	v := *t.version
	v.Open, v.Since = false, k.since
	if t.realKind == Dir {
		v = *versionOf(t.name, t.lower, k.since)
		v.Mode, v.Unknown = t.Mode, v.Unknown || t.Unknown || t.Kind != Dir
	}
	for _, in := range k.bases.below(t.name) {
		low, was, err := k.statReal(in.Path)
		switch {
		case err == nil && k.isCurrent(in, low, was), was == Nothing && t.kind != Dir:
			k.bases.forget(in.Path)
		case in.Open && was == Dir:
			k.bases.put(&version{Path: in.Path, Kind: Dir, Unknown: true, Since: k.since})
		case in.Open:
			shut := *in
			shut.Open = false
			k.bases.put(&shut)
		}
	}
	return &v
}

// isCurrent reports whether the real folder still has a version. Of a folder that was
// deleted or replaced that is so where nothing in it has changed.
func (k *overlaySession) isCurrent(v *version, low unix.Stat_t, was Kind) bool {
	if !v.matches(low, was) || was != Dir || v.Open {
		// Who has switched to another branch and back has written the same again.
		return v.matches(low, was) || was == File && k.isRewritten(v, low)
	}
	for _, in := range k.bases.below(v.Path) {
		low, was, err := k.statReal(in.Path)
		if err != nil || was != Nothing && !k.isCurrent(in, low, was) {
			return false
		}
	}
	return (&applier{}).isOlder(k.lower, v.Path, v.Since, ctimeOf)
}

// isUnchanged reports whether something of the layer is no change: it is as the real folder
// has it, or as it was. Of what has landed only the first counts.
func (k *overlaySession) isUnchanged(t entry) (bool, error) {
	known := !t.Unknown && !t.isApplied
	switch t.kind {
	case Nothing:
		return t.realKind == Nothing || known && t.Kind == Nothing, nil
	case Symlink:
		to, err := k.upper.readLink(t.name)
		if err != nil {
			return false, err
		}
		if known && t.Kind == Symlink && to == string(t.LinkTarget) {
			return true, nil
		}
		real, err := k.lower.readLink(t.name)
		return err == nil && real == to, nil
	case File:
		is := t.matches(t.lower, t.realKind)
		if known && !is {
			if same, err := k.hasBaseContent(k.upper, t.version, t.upper); same || err != nil {
				return same, err
			}
		}
		looked := is && t.CheckedCtime == t.upper.Ctim.Nano() && !t.isApplied
		if k.isListing || looked || t.realKind != File || permissions(t.upper) != permissions(t.lower) {
			return false, nil // who tells will look
		}
		return k.hasSameContent(t.name, t.upper, t.lower)
	}
	return false, nil
}

// isRewritten reports whether the real folder has a file as it was, written anew.
func (k *overlaySession) isRewritten(v *version, low unix.Stat_t) bool {
	same, err := k.hasBaseContent(k.lower, v, low)
	return same && err == nil && !v.Unknown
}

// hasBaseContent reports whether a file of one of the trees has the content that a version had, as
// far as that was kept.
func (k *overlaySession) hasBaseContent(in *tree, v *version, st unix.Stat_t) (bool, error) {
	if v.Kind != File || v.Content == 0 || v.Size != st.Size || v.Mode != permissions(st) {
		return false, nil
	}
	before, err := os.ReadFile(k.bases.contentPath(v))
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
