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

// The overlay of a session lives through many commands, while the user works in the real
// directory. A file that the session has not changed is as the real directory has it now.
// For a file that it has changed, the store records the base: the version of the real
// file when a command first changed it. golem finds conflicts by comparing the base with
// the real file. A file that equals its base or the real file again is not a change.

// openSession opens the store of a session and locks it. how is the operation of flock.
func openSession(o Overlay, how int) (*walk, error) {
	s, err := openStore(o, how)
	if err != nil {
		return nil, err
	}
	return &walk{openedStore: *s}, nil
}

// An openedStore is the open store of a session.
type openedStore struct {
	Overlay
	scanner
	lock  *os.File
	bases *baseSet
	picks *pickList
}

func openStore(o Overlay, how int) (s *openedStore, err error) {
	s = &openedStore{Overlay: o}
	begun := s
	defer func() {
		if err != nil {
			begun.close()
		}
	}()
	s.lock, err = os.OpenFile(o.Store+"/"+lockName, os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, unix.EROFS) && how == unix.LOCK_SH {
		s.lock, err = os.Open(o.Store + "/" + lockName)
	}
	if err != nil {
		return nil, err
	}
	if err = Lock(s.lock, how, lockWait); err != nil {
		return nil, err
	}
	if s.upper, err = openTree(o.UpperOrCopy()); err != nil {
		return nil, err
	}
	if s.lower, err = openDir(o); err != nil {
		return nil, err
	}
	if s.since, err = readTime(o.Store + "/" + clockName); err != nil {
		return nil, err
	}
	if s.picks, err = readPicks(o.Store); err != nil {
		return nil, err
	}
	s.bases, err = readBases(o.Store)
	return s, err
}

func (s *openedStore) close() {
	s.upper.close()
	s.lower.close()
	s.lock.Close()
}

// InitSession makes the store of a session, if it is missing.
func (o Overlay) InitSession() error {
	if !exists(o.Store + "/" + clockName) {
		if err := o.Init(); err != nil {
			return err
		}
	}
	for _, name := range []string{o.SessionDir(), o.Store + "/" + contentsName} {
		if err := os.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// RecordBases records the base of each changed path that has none yet. Callers call it
// after each command, which began at MarkStart, and before each MarkStart, for a command
// that was killed or still runs. If a real file changed since MarkStart, its base is
// unknown and the change is a conflict.
//
// If tidy is true, nobody may write to the overlay. RecordBases then removes files that
// are not changes from it, so that later edits of the user show through.
//
// For a copy it does nothing: InitCopy recorded all bases.
func (o Overlay) RecordBases(tidy bool) error {
	if o.IsCopy {
		return nil
	}
	s, err := openSession(o, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer s.close()
	s.tidy = tidy
	return s.record()
}

// SessionChanges lists the differences of the session from the real directory as it is
// now. It skips bad names. For the first of them it returns a NameError together with the
// list.
func (o Overlay) SessionChanges() ([]PathChange, error) {
	s, err := openSession(o, unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	defer s.close()
	return s.changes()
}

// ErrDenied is the error of a process that may not access everything it needs. A helper of
// the user may.
var ErrDenied = errors.New("a directory or file is not accessible")

// SessionChangesHere is SessionChanges for a process without the permissions of a helper. If
// it was not allowed to access a path, the error is ErrDenied. The changes have stamps.
func SessionChangesHere(o Overlay) ([]PathChange, error) {
	if o.IsCopy { // it makes directories accessible by changing their mode
		return nil, ErrDenied
	}
	s, err := openSession(o, unix.LOCK_SH)
	if errors.Is(err, fs.ErrPermission) {
		return nil, ErrDenied
	}
	if err != nil {
		return nil, err
	}
	defer s.close()
	s.hasStamps = true
	list, err := s.changes()
	if s.upper.isDenied || s.lower.isDenied {
		return nil, ErrDenied
	}
	return list, err
}

// BaseContent returns the content of the real file when the session first changed it, if
// it was kept. For a copy no contents are kept.
func (o Overlay) BaseContent(name string) ([]byte, error) {
	if o.IsCopy {
		return nil, fmt.Errorf("%q: %w", name, fs.ErrNotExist)
	}
	s, err := openStore(o, unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if v := s.bases.all[path.Clean(name)]; v != nil && v.Content > 0 {
		return os.ReadFile(s.bases.contentPath(v))
	}
	return nil, fmt.Errorf("%q: %w", name, fs.ErrNotExist)
}

// A walk goes through the upperdir of a session, or its copy. It takes a copy for an upperdir
// that hides all of the real directory. The bases say what was copied.
type walk struct {
	openedStore
	tidy        bool // remove files that are not changes
	isListing   bool // collect the list of changes
	isComparing bool // find out which files are not changes: set with tidy or isListing
	isReadOnly  bool // write nothing

	applied  map[string]bool // the paths that markApplied was called for
	now      int64           // when markApplied began
	removals []string        // paths to remove from the upperdir, files before their directories

	madeByBoth []string // directories that the session and somebody else made
}

// record walks the upperdir and writes new bases.
func (s *walk) record() error {
	s.isComparing, s.removals = s.tidy, nil
	s.upper.closeLast()
	if err := s.visitAll(); err != nil {
		return err
	}
	for name, v := range s.bases.all {
		if !v.inUse {
			s.bases.forget(name) // it is no longer a change
		}
	}
	if err := s.bases.flush(); err != nil {
		return err
	}
	// A later markApplied must not take files for deleted that are removed now.
	settled := map[string]bool{}
	maps.Copy(settled, s.applied)
	for _, name := range s.removals {
		settled[name] = true
	}
	if err := s.picks.remove(func(name string) bool { return settled[name] }); err != nil {
		return err
	}
	for _, name := range s.removals {
		if err := s.upper.removeFromUpper(name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return s.bases.save()
}

// changes lists the changes. It writes nothing.
func (s *walk) changes() ([]PathChange, error) {
	s.isListing, s.isComparing, s.isReadOnly = true, true, true
	if err := s.visitAll(); err != nil {
		return nil, err
	}
	if len(s.badNames) > 0 {
		return s.list, &NameError{s.badNames[0]}
	}
	return s.list, nil
}

// visitAll walks the whole upperdir.
func (s *walk) visitAll() error {
	s.bases.startScan()
	if s.tidy {
		st, err := s.lower.stat("")
		if err != nil {
			return err
		}
		if err := s.upper.setMode("", permissions(st)); err != nil {
			return err
		}
	}
	src := baseSource{from: fromReal, since: s.since}
	if s.IsCopy {
		src = baseSource{from: fromNothing}
	}
	_, err := s.visitDir("", src, s.IsCopy)
	return err
}

// An entry is a path of the upperdir, with what the real directory has there.
type entry struct {
	name          string
	upper, lower  unix.Stat_t
	kind          Kind // in the upperdir, Nothing for a whiteout
	realKind      Kind // in the real directory
	isKnown       bool // its version was recorded before
	isBelowOpaque bool // a directory above it is opaque
	isApplied     bool
	pick          pickInfo // if it was picked
	isPending     bool     // it was picked, is not applied yet, and differs from what will be applied
	*version
}

// lookUp returns the entry of a path.
func (s *walk) lookUp(name string, src baseSource, opaque bool) (t entry, err error) {
	t = entry{name: name, isBelowOpaque: opaque, version: s.bases.all[name]}
	if t.upper, err = s.upper.stat(name); err != nil {
		return t, err
	}
	if t.lower, t.realKind, err = s.statReal(name); err != nil {
		return t, err
	}
	t.kind = kindOf(t.upper)
	if p, picked := s.picks.all[name]; picked && t.kind != Special {
		t.pick = pickInfo{p.At, p.Partial}
		t.isApplied = s.applied[name]
		t.isPending = !t.isApplied && !t.pick.matches(t.upper)
	}
	if t.isKnown = t.version != nil; !t.isKnown {
		t.version = s.deriveVersion(t, src)
	}
	return t, nil
}

// statReal returns the state of a path in the real directory.
func (s *openedStore) statReal(name string) (unix.Stat_t, Kind, error) {
	st, err := s.lower.stat(name)
	switch {
	case s.canIgnore(err):
		return st, Nothing, nil
	case s.IsCopy && errors.Is(err, unix.EACCES):
		return st, Special, nil // it was not copied
	case err != nil:
		return st, Nothing, err
	}
	return st, kindOf(st), nil
}

// keepVersion records the version of an entry that stays in the upperdir.
func (s *walk) keepVersion(t entry) {
	if s.IsCopy {
		return // InitCopy recorded it
	}
	t.inUse = true
	if t.Kind == Dir && !t.Open {
		for _, in := range s.bases.below(t.name) { // conflicts in a deleted directory
			_, was, err := s.statReal(in.Path)
			in.inUse = err != nil || was != Nothing || t.kind == Dir
		}
	}
	if !t.isKnown && !s.isReadOnly {
		s.bases.keepContent(s.lower, t.version)
		if v := t.version; v.Kind == Dir && !v.Open && v.Since > 0 && !v.Unknown {
			if names, isOlder := s.lower.namesBelow(t.name, v.Since); isOlder {
				v.Names = names
			}
		}
	}
	if s.bases.all[t.name] != t.version {
		s.bases.put(t.version)
	}
}

// visitDir walks a directory of the upperdir and reports whether an entry stays in it. An
// opaque directory has deleted every real file that it does not have.
func (s *walk) visitDir(name string, src baseSource, opaque bool) (stays bool, err error) {
	names, err := s.upper.list(name)
	if s.IsCopy && errors.Is(err, unix.EACCES) {
		names, err = s.listClosed(name)
	}
	if s.canIgnore(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	all := names
	if opaque {
		below, err := s.lower.list(name)
		if err != nil && !s.canIgnore(err) && !(s.IsCopy && errors.Is(err, unix.EACCES)) {
			return false, err
		}
		all = slices.Compact(slices.Sorted(slices.Values(append(below, names...))))
	}
	for _, base := range all {
		at := joinName(name, base)
		if len(at) >= maxPath || s.isListing && !s.IsCopy || IsUnfinished(base) {
			if !s.checkName(at, base) {
				stays = true
				continue
			}
		}
		from, one := len(s.list), false
		if _, found := slices.BinarySearch(names, base); found {
			one, err = s.visitEntry(at, src, opaque)
		} else {
			err = s.addCovered(at, src)
		}
		if err != nil && !s.canIgnore(err) {
			return false, err
		}
		if stays = stays || one; s.IsCopy && len(s.list) > from && !s.checkName(at, base) {
			s.list = s.list[:from] // only changes need a good name
		}
	}
	return stays, nil
}

// addCovered lists a file that was deleted with its directory.
func (s *walk) addCovered(name string, src baseSource) error {
	low, was, err := s.statReal(name)
	if err != nil || was == Nothing || !s.isListing {
		return err
	}
	v := s.bases.all[name]
	if v == nil {
		v = s.deriveVersion(entry{name: name, lower: low, realKind: was}, src)
	}
	if v.Kind == Nothing && !v.Unknown || v.Covered || v.Skipped {
		return nil // it did not exist before either, or is not in the copy
	}
	c := PathChange{Path: name, Op: Delete, OldKind: was}
	s.setConflict(&c, v, low)
	s.list = append(s.list, c)
	return nil
}

// visitEntry visits one entry of the upperdir and reports whether it stays.
func (s *walk) visitEntry(name string, src baseSource, opaque bool) (bool, error) {
	t, err := s.lookUp(name, src, opaque)
	switch {
	case err != nil || t.Covered:
		return false, err
	case t.kind == Dir && t.realKind == Dir:
		return s.visitSharedDir(t)
	case t.kind == Dir:
		return s.visitUpperDir(t)
	}
	return s.visitLeaf(t)
}

// visitLeaf visits a file, a symlink or a whiteout.
func (s *walk) visitLeaf(t entry) (stays bool, err error) {
	if t.Open {
		t.version, t.isKnown = s.closeVersion(t), false
	}
	if s.isComparing {
		idle := t.isApplied && t.pick.matches(t.upper)
		if !idle {
			idle, err = s.isUnchanged(t)
		}
		if err != nil {
			return false, err
		}
		if idle {
			return s.dropUnchanged(t), nil
		}
	}
	if t.isApplied {
		t.version, t.isKnown = s.deriveVersion(t, baseSource{from: fromReal, since: s.now}), false
	}
	if now := t.upper.Ctim.Nano(); s.tidy && t.kind == File && t.CheckedCtime != now {
		v := *t.version
		v.CheckedCtime, t.version = now, &v
	}
	s.keepVersion(t)
	if !s.isListing {
		return true, nil
	}
	if t.kind == Nothing {
		c := PathChange{Path: t.name, Op: Delete, OldKind: t.realKind}
		s.setConflict(&c, t.version, t.lower)
		s.addStamp(&c, t.upper, t.lower)
		s.list = append(s.list, c)
		return true, nil
	}
	return true, s.addChanged(t)
}

// addChanged lists an entry that is new or differs from the real directory, with
// everything in it.
func (s *walk) addChanged(t entry) error {
	from := len(s.list)
	c := PathChange{Path: t.name, Op: Create, Kind: t.kind, Mode: permissions(t.upper), OldKind: t.realKind}
	if t.realKind != Nothing {
		c.Op = Modify
	}
	if err := s.addChange(c, t.upper, t.lower); err != nil {
		return err
	}
	if len(s.list) > from {
		s.setConflict(&s.list[from], t.version, t.lower)
	}
	for i := range s.list[from:] {
		s.list[from+i].Conflict = s.list[from].Conflict
	}
	return nil
}

// dropUnchanged forgets the version of an entry that is not a change, and removes the
// entry. If something else will be applied at its path, the entry stays, and hides that
// from the session.
func (s *walk) dropUnchanged(t entry) (stays bool) {
	if t.isPending {
		s.keepVersion(t)
		return true
	}
	if s.removals = append(s.removals, t.name); s.tidy {
		s.bases.forget(t.name)
	}
	return false
}

// visitUpperDir visits a directory that the real directory does not have.
func (s *walk) visitUpperDir(t entry) (stays bool, err error) {
	var removed []string
	if t.Open || t.isApplied || s.IsCopy && t.Kind == Dir && !t.Skipped {
		// Both had it. If nothing in it is the session's own, it goes, as the real one
		// did.
		quiet := *s
		quiet.isListing, quiet.removals = false, nil
		stays, err := quiet.visitDir(t.name, t.childSource(s.since, 0), false)
		if err != nil {
			return false, err
		}
		removed = quiet.removals
		s.removals = append(s.removals, removed...)
		same := t.Kind == Dir && !t.Unknown && permissions(t.upper) == t.Mode
		if !stays && s.isComparing && (same || t.isApplied) {
			return s.dropUnchanged(t), nil
		}
	}
	if s.tidy {
		if err := s.upper.clearOpaque(t.name); err != nil {
			return false, err
		}
	}
	if t.isApplied {
		t.version, t.isKnown = s.deriveVersion(t, baseSource{from: fromReal, since: s.now}), false
	}
	if t.Kind == Dir && t.Since > 0 && !t.Open {
		// Everything that it covered is gone.
		gone := *t.version
		gone.Since = 0
		t.version = &gone
	}
	s.keepVersion(t)
	if !s.isListing {
		return true, nil
	}
	err = s.addChanged(t)
	if len(removed) > 0 {
		slices.Sort(removed)
		s.list = slices.DeleteFunc(s.list, func(c PathChange) bool {
			_, found := slices.BinarySearch(removed, c.Path)
			return found && c.NewDir == t.name
		})
	}
	return true, err
}

// visitSharedDir visits a directory that the real directory has too.
func (s *walk) visitSharedDir(t entry) (stays bool, err error) {
	opaque := t.isBelowOpaque || s.isOpaque(t.name)
	if opaque && t.Open {
		t.version, t.isKnown = s.closeVersion(t), false
	}
	if t.Kind == Nothing && !t.Unknown {
		s.madeByBoth = append(s.madeByBoth, t.name)
	}
	s.keepVersion(t)
	src := t.childSource(s.since, t.lower.Ino)
	marked := opaque && !s.tidy
	switch {
	case s.IsCopy:
		src = baseSource{from: fromNothing}
	case src.from == fromNothing:
		// The session made it at a path where nothing was, so it deleted nothing in it.
		if opaque = false; s.tidy {
			err = s.upper.clearOpaque(t.name)
		}
	case opaque && s.tidy:
		opaque, err = false, s.expandOpaque(t.name)
	}
	if err != nil {
		return false, err
	}
	if err := s.compareMode(&t); err != nil {
		return false, err
	}
	if opaque && !s.isListing {
		return true, nil
	}
	stays, err = s.visitDir(t.name, src, opaque)
	if err != nil || marked {
		return true, err
	}
	same := permissions(t.upper) == permissions(t.lower)
	if same && !stays && s.isComparing {
		return s.dropUnchanged(t), nil
	}
	now := *t.version
	if same || t.isApplied {
		now = version{Path: t.name, Kind: Dir, Mode: permissions(t.lower)}
	}
	if now.Open = true; !now.equalDir(t.version) {
		s.bases.put(&now)
	}
	return true, nil
}

// compareMode compares the permission bits of a directory that both have. If the session
// did not change them, they follow the real directory.
func (s *walk) compareMode(t *entry) error {
	known := t.Kind == Dir && !t.Unknown
	follows := known && permissions(t.upper) == t.Mode
	if t.isApplied {
		follows = t.pick.matches(t.upper)
	}
	switch {
	case permissions(t.upper) == permissions(t.lower):
	case follows && s.tidy:
		t.upper.Mode = t.lower.Mode
		return s.upper.setMode(t.name, permissions(t.lower))
	case !follows && s.isListing:
		s.list = append(s.list, PathChange{Path: t.name, Op: Mode, Kind: Dir, Mode: permissions(t.upper), OldKind: Dir, OldMode: permissions(t.lower), Conflict: t.Skipped || !t.matches(t.lower, t.realKind)})
	}
	return nil
}
