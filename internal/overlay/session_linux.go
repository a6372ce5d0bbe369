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

// A kept layer is one for a whole session: many calls change it, while the user goes
// on working in the real folder. What the session has not changed is as the real
// folder has it now. For what it has changed, the version is noted that it was changed
// from, by the call that first did it, so that it can be told where the user has
// addChanged the same. Whatever is again as it was, or as the real folder has it, is no
// change.

// A kept is what a session keeps over a folder: a layer, or a copy of it.
type session interface {
	base() *sessionStore
	// standing lists the changes over what the real folder has now.
	changes() ([]Change, error)
	// settle is for paths that were picked and have landed, but for those that were left
	// out.
	markApplied(paths, left []string) error
	// discard gives up the changes at and below paths.
	discard(paths []string) error
	// restore takes back changes that had landed and were undone; they are in from.
	restore(from *tree, list []Change) error
}

// openSession opens what a session keeps, which nobody else may change meanwhile, or read.
func openSession(o Overlay, how int) (session, error) {
	s, err := openStore(o, how)
	switch {
	case err != nil:
		return nil, err
	case o.IsCopy:
		return &copySession{sessionStore: *s}, nil
	}
	return &overlaySession{sessionStore: *s}, nil
}

// A store is that of a session, open.
type sessionStore struct {
	Overlay
	scanner
	lock  *os.File
	bases *baseSet
	picks *pickList
}

func (k *sessionStore) base() *sessionStore { return k }

func openStore(o Overlay, how int) (s *sessionStore, err error) {
	s = &sessionStore{Overlay: o, scanner: scanner{isLenient: true}}
	begun := s
	defer func() {
		if err != nil {
			begun.close()
		}
	}()
	if s.lock, err = os.OpenFile(o.Store+"/"+lockName, os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, err
	}
	for {
		if err = unix.Flock(int(s.lock.Fd()), how); err != unix.EINTR {
			break
		}
	}
	if err != nil {
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

func (k *sessionStore) close() {
	k.upper.close()
	k.lower.close()
	k.lock.Close()
}

// InitSession makes the store of a kept layer, where it is missing.
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

// RecordBases notes what the real folder has at every path that the layer has changed and
// that is not noted yet. It belongs after each call, which began at the stamp, and
// before each stamp, for a call that was killed, or is still at work. What has changed
// in the real folder since the stamp is noted as unknown, and is a clash.
//
// Where tidy says that nobody writes to the layer now, what is no change is taken out
// of it, so that the user's later edits show through.
//
// Of a copy all was noted when it was made.
func (o Overlay) RecordBases(tidy bool) error {
	if o.IsCopy {
		return nil
	}
	s, err := openStore(o, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer s.close()
	return (&overlaySession{sessionStore: *s, tidy: tidy}).record()
}

// SessionChanges lists all that the session has changed over what is in the real folder
// now. Names that can be none are left out, and told by an Unfit beside the list.
func (o Overlay) SessionChanges() ([]Change, error) {
	k, err := openSession(o, unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	defer k.base().close()
	return k.changes()
}

// BaseContent returns the content of the real file that a path was changed from, where
// it was kept. For a copy none is.
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

// A keeper goes through a kept layer.
type overlaySession struct {
	sessionStore
	tidy        bool // the layer is put in order
	isListing   bool // the changes are listed
	isComparing bool // one of both: it matters what is no change
	isReadOnly  bool // nothing is written

	applied  map[string]bool // what has landed and is to be settled
	now      int64           // when that began
	removals []string        // what is to be taken out, things before the folders that they are in
}

// record goes through the layer and writes down what is new.
func (k *overlaySession) record() error {
	k.isComparing, k.removals = k.tidy, nil
	k.upper.closeLast()
	if err := k.visitAll(); err != nil {
		return err
	}
	for name, v := range k.bases.all {
		if !v.inUse {
			k.bases.forget(name) // there is no change any more
		}
	}
	if err := k.bases.flush(); err != nil {
		return err
	}
	// Who settles later must not take for deleted what is taken out now.
	settled := map[string]bool{}
	maps.Copy(settled, k.applied)
	for _, name := range k.removals {
		settled[name] = true
	}
	if err := k.picks.remove(func(name string) bool { return settled[name] }); err != nil {
		return err
	}
	for _, name := range k.removals {
		if err := k.removeFromUpper(name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return k.bases.save()
}

// changes lists the changes. Nothing is written.
func (k *overlaySession) changes() ([]Change, error) {
	k.isListing, k.isComparing, k.isReadOnly = true, true, true
	if err := k.visitAll(); err != nil {
		return nil, err
	}
	if len(k.badNames) > 0 {
		return k.list, &NameError{k.badNames[0]}
	}
	return k.list, nil
}

// visitAll goes through all of the layer.
func (k *overlaySession) visitAll() error {
	k.bases.startScan()
	if k.tidy {
		st, err := k.lower.stat("")
		if err != nil {
			return err
		}
		if err := k.setMode("", permissions(st)); err != nil {
			return err
		}
	}
	_, err := k.visitDir("", baseSource{from: fromReal, since: k.since}, false)
	return err
}

// A thing is what is at a path, in the layer and in the real folder.
type entry struct {
	name          string
	upper, lower  unix.Stat_t
	kind          Kind // in the layer: Nothing is the mark of what was deleted
	realKind      Kind // in the real folder
	isKnown       bool // the version was known before
	isBelowOpaque bool // a folder above covers the real one
	isApplied     bool
	pick          pickInfo // where it was picked
	isPending     bool     // it was picked, has not landed yet, and is other than what will
	*version
}

// lookUp returns what is at a path.
func (k *overlaySession) lookUp(name string, s baseSource, covering bool) (t entry, err error) {
	t = entry{name: name, isBelowOpaque: covering, version: k.bases.all[name]}
	if t.upper, err = k.upper.stat(name); err != nil {
		return t, err
	}
	if t.lower, t.realKind, err = k.statReal(name); err != nil {
		return t, err
	}
	t.kind = kindOf(t.upper)
	if p, picked := k.picks.all[name]; picked && t.kind != Special {
		t.pick = pickInfo{p.At, p.Partial}
		t.isApplied = k.applied[name]
		t.isPending = !t.isApplied && !t.pick.matches(t.upper)
	}
	if t.isKnown = t.version != nil; !t.isKnown {
		t.version = k.deriveVersion(t, s)
	}
	return t, nil
}

// statReal says what the real folder has.
func (k *sessionStore) statReal(name string) (unix.Stat_t, Kind, error) {
	st, err := k.lower.stat(name)
	if k.canIgnore(err) {
		return st, Nothing, nil
	}
	if err != nil {
		return st, Nothing, err
	}
	return st, kindOf(st), nil
}

// keepVersion notes the version of something that stays.
func (k *overlaySession) keepVersion(t entry) {
	t.inUse = true
	if t.Kind == Dir && !t.Open {
		for _, in := range k.bases.below(t.name) { // clashes in what was deleted
			_, was, err := k.statReal(in.Path)
			in.inUse = err != nil || was != Nothing || t.kind == Dir
		}
	}
	if !t.isKnown && !k.isReadOnly {
		k.bases.keepContent(k.lower, t.version)
	}
	if k.bases.all[t.name] != t.version {
		k.bases.put(t.version)
	}
}

// visitDir goes through a folder of the layer. It reports whether something stays in
// it. A folder that covers the real one has deleted all that it does not have.
func (k *overlaySession) visitDir(name string, s baseSource, covering bool) (stays bool, err error) {
	names, err := k.upper.list(name)
	if k.canIgnore(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	all := names
	if covering {
		below, err := k.lower.list(name)
		if err != nil && !k.canIgnore(err) {
			return false, err
		}
		all = slices.Compact(slices.Sorted(slices.Values(append(below, names...))))
	}
	for _, base := range all {
		at := path.Join(name, base)
		if len(at) >= maxPath || k.isListing {
			if ok, _ := k.checkName(at, base); !ok {
				stays = true
				continue
			}
		}
		if _, found := slices.BinarySearch(names, base); !found {
			if err := k.addCovered(at, s); err != nil {
				return false, err
			}
			continue
		}
		one, err := k.visitEntry(at, s, covering)
		if err != nil && !k.canIgnore(err) {
			return false, err
		}
		stays = stays || one
	}
	return stays, nil
}

// addCovered lists something that was deleted with the folder that it was in.
func (k *overlaySession) addCovered(name string, s baseSource) error {
	low, was, err := k.statReal(name)
	if err != nil || was == Nothing || !k.isListing {
		return err
	}
	v := k.bases.all[name]
	if v == nil {
		v = k.deriveVersion(entry{name: name, lower: low, realKind: was}, s)
	}
	if v.Kind == Nothing && !v.Unknown {
		return nil // nor was it there before
	}
	k.list = append(k.list, Change{Path: name, Op: Delete, OldKind: was, Conflict: !k.isCurrent(v, low, was)})
	return nil
}

// visitEntry goes through one thing of the layer. It reports whether that stays.
func (k *overlaySession) visitEntry(name string, s baseSource, covering bool) (bool, error) {
	t, err := k.lookUp(name, s, covering)
	switch {
	case err != nil:
		return false, err
	case t.kind == Dir && t.realKind == Dir:
		return k.visitSharedDir(t)
	case t.kind == Dir:
		return k.visitUpperDir(t)
	}
	return k.visitLeaf(t)
}

// visitLeaf goes through a file, a link, or the mark of something that was deleted.
func (k *overlaySession) visitLeaf(t entry) (stays bool, err error) {
	if t.Open {
		t.version, t.isKnown = k.closeVersion(t), false
	}
	if k.isComparing {
		idle := t.isApplied && t.pick.matches(t.upper)
		if !idle {
			idle, err = k.isUnchanged(t)
		}
		if err != nil {
			return false, err
		}
		if idle {
			return k.dropUnchanged(t), nil
		}
	}
	if t.isApplied {
		t.version, t.isKnown = k.deriveVersion(t, baseSource{from: fromReal, since: k.now}), false
	}
	if now := t.upper.Ctim.Nano(); k.tidy && t.kind == File && t.CheckedCtime != now {
		v := *t.version
		v.CheckedCtime, t.version = now, &v
	}
	k.keepVersion(t)
	if !k.isListing {
		return true, nil
	}
	if t.kind == Nothing {
		k.list = append(k.list, Change{Path: t.name, Op: Delete, OldKind: t.realKind, Conflict: !k.isCurrent(t.version, t.lower, t.realKind)})
		return true, nil
	}
	return true, k.addChanged(t)
}

// addChanged lists something that is new, or other than what the real folder has, with
// visitAll that is in it.
func (k *overlaySession) addChanged(t entry) error {
	from := len(k.list)
	c := Change{Path: t.name, Op: Create, Kind: t.kind, Mode: permissions(t.upper), OldKind: t.realKind}
	if t.realKind != Nothing {
		c.Op = Modify
	}
	if err := k.addChange(c, t.upper, t.lower); err != nil {
		return err
	}
	clash := len(k.list) > from && !k.isCurrent(t.version, t.lower, t.realKind)
	for i := range k.list[from:] {
		k.list[from+i].Conflict = clash
	}
	return nil
}

// dropUnchanged says of something that it is no change: its version is forgotten, and it is
// taken out. Where something else will land it stays, and hides that then.
func (k *overlaySession) dropUnchanged(t entry) (stays bool) {
	if t.isPending {
		k.keepVersion(t)
		return true
	}
	if k.removals = append(k.removals, t.name); k.tidy {
		k.bases.forget(t.name)
	}
	return false
}

// visitUpperDir goes through a folder that the real folder does not have.
func (k *overlaySession) visitUpperDir(t entry) (stays bool, err error) {
	var left []string
	if t.Open || t.isApplied {
		// It was in both. What is left of it, where there is nothing of the session's own
		// in it, goes as the real one has gone.
		quiet := *k
		quiet.isListing, quiet.removals = false, nil
		stays, err := quiet.visitDir(t.name, t.childSource(k.since), false)
		if err != nil {
			return false, err
		}
		left = quiet.removals
		k.removals = append(k.removals, left...)
		same := t.Kind == Dir && !t.Unknown && permissions(t.upper) == t.Mode
		if !stays && k.isComparing && (same || t.isApplied) {
			return k.dropUnchanged(t), nil
		}
	}
	if k.tidy {
		if err := k.clearOpaque(t.name); err != nil {
			return false, err
		}
	}
	if t.isApplied {
		t.version, t.isKnown = k.deriveVersion(t, baseSource{from: fromReal, since: k.now}), false
	}
	if t.Kind == Dir && t.Since > 0 && !t.Open {
		// All that it has covered is gone.
		gone := *t.version
		gone.Since = 0
		t.version = &gone
	}
	k.keepVersion(t)
	if !k.isListing {
		return true, nil
	}
	err = k.addChanged(t)
	if len(left) > 0 {
		k.list = slices.DeleteFunc(k.list, func(c Change) bool { return c.NewDir == t.name && slices.Contains(left, c.Path) })
	}
	return true, err
}

// visitSharedDir goes through a folder that the real folder has too.
func (k *overlaySession) visitSharedDir(t entry) (stays bool, err error) {
	covering := t.isBelowOpaque || k.isOpaque(t.name)
	if covering && t.Open {
		t.version, t.isKnown = k.closeVersion(t), false
	}
	k.keepVersion(t)
	s := t.childSource(k.since)
	marked := covering && !k.tidy
	switch {
	case s.from == fromNothing:
		// The session has made it where nothing was: it has deleted nothing in it.
		if covering = false; k.tidy {
			err = k.clearOpaque(t.name)
		}
	case covering && k.tidy:
		covering, err = false, k.expandOpaque(t.name)
	}
	if err != nil {
		return false, err
	}
	if err := k.compareMode(&t); err != nil {
		return false, err
	}
	if covering && !k.isListing {
		return true, nil
	}
	stays, err = k.visitDir(t.name, s, covering)
	if err != nil || marked {
		return true, err
	}
	same := permissions(t.upper) == permissions(t.lower)
	if same && !stays && k.isComparing {
		return k.dropUnchanged(t), nil
	}
	now := *t.version
	if same || t.isApplied {
		now = version{Path: t.name, Kind: Dir, Mode: permissions(t.lower)}
	}
	if now.Open = true; !now.equalDir(t.version) {
		k.bases.put(&now)
	}
	return true, nil
}

// compareMode looks at the permission bits of a folder that both have. Where the session has
// not changed them they are the real folder's.
func (k *overlaySession) compareMode(t *entry) error {
	known := t.Kind == Dir && !t.Unknown
	follows := known && permissions(t.upper) == t.Mode
	if t.isApplied {
		follows = t.pick.matches(t.upper)
	}
	switch {
	case permissions(t.upper) == permissions(t.lower):
	case follows && k.tidy:
		t.upper.Mode = t.lower.Mode
		return k.setMode(t.name, permissions(t.lower))
	case !follows && k.isListing:
		k.list = append(k.list, Change{Path: t.name, Op: Mode, Kind: Dir, Mode: permissions(t.upper), OldKind: Dir, OldMode: permissions(t.lower), Conflict: !t.matches(t.lower, t.realKind)})
	}
	return nil
}
