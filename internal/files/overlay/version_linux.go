package overlay

import (
	"bytes"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// A version is what the real directory had at a path when the session first changed it.
// It is the base of the change.
type version struct {
	Path       string `json:",omitempty"`
	RawPath    []byte `json:",omitempty"` // the path, if it is not UTF-8
	Kind       Kind   `json:",omitempty"`
	Ino        uint64 `json:",omitempty"`
	Size       int64  `json:",omitempty"`
	Ctime      int64  `json:",omitempty"`
	Mode       uint32 `json:",omitempty"`
	LinkTarget []byte `json:",omitempty"` // of a symlink
	Content    int    `json:",omitempty"` // the number of the kept content, 0 for none

	// Unknown is true if others changed the path while the session did.
	Unknown bool `json:",omitempty"`
	// Open is true for a directory that both sides have or had, in which each change of
	// the session has its own version. In other directories a file without a version has
	// the version that childSource derives: the real one if it is unchanged since Since,
	// or nothing if Since is 0.
	Open  bool  `json:",omitempty"`
	Since int64 `json:",omitempty"`
	// DirIno is the inode of a directory. A directory that somebody moved to the path has
	// another one, and the files in it may be older than Since.
	DirIno uint64 `json:",omitempty"`

	// Names is a digest of the names in a directory that was deleted or replaced, as namesBelow
	// returns it, "" if it is not known.
	Names string `json:",omitempty"`

	// CheckedCtime is the ctime of the session's file when it was last found to be a
	// change.
	CheckedCtime int64 `json:",omitempty"`

	Forgotten bool `json:",omitempty"` // in the file of bases: forget the version of this path

	// These are for copies: the state of the copied file after the copy; whether it was
	// skipped; whether another directory is mounted at the path in the session.
	Copy    copyStamp `json:",omitzero"`
	Skipped bool      `json:",omitempty"`
	Covered bool      `json:",omitempty"`

	inUse bool // the walk found the change
}

// versionOf returns the version of a real file. If the file changed since a time, its
// version is unknown: the session may have seen it before or after the change.
func versionOf(name string, st unix.Stat_t, at int64) *version {
	v := &version{Path: name, Kind: kindOf(st), Ino: st.Ino, Size: st.Size, Ctime: st.Ctim.Nano(), Mode: permissions(st), Unknown: st.Ctim.Nano() >= at}
	if v.Kind == Dir {
		v.Ino, v.Size, v.Ctime, v.Since, v.DirIno = 0, 0, 0, at, st.Ino
	}
	return v
}

// matches reports whether a file still has this version. For a directory it does not
// check the content.
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

// equalDir reports whether two versions of a directory are the same.
func (v *version) equalDir(w *version) bool {
	return v.Kind == w.Kind && v.Mode == w.Mode && v.Unknown == w.Unknown && v.Open == w.Open
}

// A baseSource says how to derive the versions of files in a directory that have no
// recorded version.
type baseSource struct {
	from     origin
	since    int64 // a file that changed since then has an unknown version
	isOpaque bool  // the directory hid the real one since then
}

type origin int

const (
	fromReal    origin = iota // the real directory has it
	fromNothing               // nothing was there
	fromUnknown
)

// childSource returns the source for files in a directory of this version. now is the inode
// of the real directory, 0 if there is none.
func (v *version) childSource(since int64, now uint64) baseSource {
	switch {
	case v.Open:
		return baseSource{from: fromReal, since: since}
	case v.Kind == Dir && v.Since > 0 && v.DirIno != 0 && now != 0 && now != v.DirIno:
		return baseSource{from: fromUnknown}
	case v.Kind == Dir && v.Since > 0:
		return baseSource{from: fromReal, since: v.Since, isOpaque: true}
	case v.Kind != Dir && v.Unknown:
		return baseSource{from: fromUnknown}
	}
	return baseSource{from: fromNothing}
}

// deriveVersion returns the version of an entry that has no recorded one.
func (s *walk) deriveVersion(t entry, src baseSource) *version {
	v := &version{Path: t.name}
	switch {
	case src.from == fromUnknown:
		v.Unknown = true
	case src.from == fromNothing:
	case t.realKind == Nothing && (src.isOpaque || (t.kind == File || t.kind == Dir) && s.isCopyUp(t.name)):
		v.Unknown = s.mayHaveExisted(t.name, src.since)
	case t.realKind == Nothing:
	case t.kind == Dir && t.realKind == Dir && !src.isOpaque && !s.isOpaque(t.name):
		if t.lower.Ctim.Nano() >= src.since && !s.isCopyUp(t.name) {
			break // both made a directory
		}
		v = versionOf(t.name, t.lower, src.since)
		v.Open, v.Unknown = true, v.Unknown && permissions(t.upper) != permissions(t.lower)
	default:
		v = versionOf(t.name, t.lower, src.since)
		if v.Kind == Symlink {
			to, err := s.lower.readLink(t.name)
			v.LinkTarget, v.Unknown = []byte(to), v.Unknown || err != nil
		}
	}
	return v
}

// mayHaveExisted reports whether a path that the real directory does not have may have
// existed at a time: the nearest real directory above it changed since.
func (s *walk) mayHaveExisted(name string, at int64) bool {
	for {
		name = path.Dir(name)
		in, kind, err := s.statReal(name)
		if err != nil || kind == Dir {
			return err != nil || in.Ctim.Nano() >= at
		}
	}
}

// closeVersion returns the version of a directory that both had, and that the session now
// deleted or replaced as a whole. Conflicts in it stay conflicts.
func (s *walk) closeVersion(t entry) *version {
	v := *t.version
	v.Open, v.Since = false, s.since
	if t.realKind == Dir {
		v = *versionOf(t.name, t.lower, s.since)
		v.Mode, v.Unknown = t.Mode, v.Unknown || t.Unknown || t.Kind != Dir
	}
	for _, in := range s.bases.below(t.name) {
		low, was, err := s.statReal(in.Path)
		switch {
		case err == nil && s.isCurrent(in, low, was), was == Nothing && t.kind != Dir:
			s.bases.forget(in.Path)
		case in.Open && was == Dir:
			s.bases.put(&version{Path: in.Path, Kind: Dir, Unknown: true, Since: s.since})
		case in.Open:
			shut := *in
			shut.Open = false
			s.bases.put(&shut)
		}
	}
	return &v
}

// isCurrent reports whether the real directory still has a version. A directory that was
// deleted or replaced must have no changes in it.
func (s *walk) isCurrent(v *version, low unix.Stat_t, was Kind) bool {
	if s.IsCopy {
		return s.isCopyCurrent(v, low, was)
	}
	if !v.matches(low, was) || was != Dir || v.Open {
		// A switch to another branch and back writes the same content again.
		return v.matches(low, was) || was == File && s.isRewritten(v, low) || s.isSameLink(v, was)
	}
	for _, in := range s.bases.below(v.Path) {
		low, was, err := s.statReal(in.Path)
		if err != nil || was != Nothing && !s.isCurrent(in, low, was) {
			return false
		}
	}
	if (&applier{}).isOlder(s.lower, v.Path, v.Since, ctimeOf) {
		return true
	}
	// A file that came and went, or an apply that was reverted, leaves only a new time.
	names, _ := s.lower.namesBelow(v.Path, v.Since)
	return names != "" && names == v.Names
}

// setConflict sets whether a change conflicts with the real directory, which has low at its
// path, and since when it may.
func (s *walk) setConflict(c *PathChange, v *version, low unix.Stat_t) {
	if c.Conflict = !s.isCurrent(v, low, c.OldKind); c.Conflict && c.OldKind == Dir && !v.Open {
		c.Since = v.Since
	}
}

// isUnchanged reports whether an entry is not a change: it equals the real file or its
// base. For an applied entry only the real file counts.
func (s *walk) isUnchanged(t entry) (bool, error) {
	known := !t.Unknown && !t.isApplied
	switch t.kind {
	case Nothing:
		return t.realKind == Nothing || known && t.Kind == Nothing, nil
	case Symlink:
		to, err := s.upper.readLink(t.name)
		if err != nil {
			return false, err
		}
		if known && t.Kind == Symlink && to == string(t.LinkTarget) {
			return true, nil
		}
		real, err := s.lower.readLink(t.name)
		return err == nil && real == to, nil
	case File:
		if s.IsCopy {
			return t.Kind == File && t.Copy == copyStampOf(t.upper), nil // addChange compares the content
		}
		is := t.matches(t.lower, t.realKind)
		if known && !is {
			if same, err := s.hasBaseContent(s.upper, t.version, t.upper); same || err != nil {
				return same, err
			}
		}
		looked := is && t.CheckedCtime == t.upper.Ctim.Nano() && !t.isApplied
		if s.isListing || looked || t.realKind != File || permissions(t.upper) != permissions(t.lower) {
			return false, nil // addChange compares the content
		}
		return s.hasSameContent(t.name, t.upper, t.lower)
	}
	return false, nil
}

// isSameLink reports whether a symlink of the real directory has the target of a version.
func (s *openedStore) isSameLink(v *version, was Kind) bool {
	if was != Symlink || v.Kind != Symlink || v.Unknown {
		return false
	}
	to, err := s.lower.readLink(v.Path)
	return err == nil && to == string(v.LinkTarget)
}

// isRewritten reports whether somebody wrote the base content to the real file again.
func (s *openedStore) isRewritten(v *version, low unix.Stat_t) bool {
	same, err := s.hasBaseContent(s.lower, v, low)
	return same && err == nil && !v.Unknown
}

// hasBaseContent reports whether a file has the kept content of a version.
func (s *openedStore) hasBaseContent(in *tree, v *version, st unix.Stat_t) (bool, error) {
	if v.Kind != File || v.Content == 0 || v.Size != st.Size || v.Mode != permissions(st) {
		return false, nil
	}
	before, err := os.ReadFile(s.bases.contentPath(v))
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
