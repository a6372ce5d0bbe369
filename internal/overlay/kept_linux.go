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
// changed the same. Whatever is again as it was, or as the real folder has it, is no
// change.

// A kept is what a session keeps over a folder: a layer, or a copy of it.
type kept interface {
	own() *store
	// standing lists the changes over what the real folder has now.
	standing() ([]Change, error)
	// settle is for paths that were picked and have landed, but for those that were left
	// out.
	settle(paths, left []string) error
	// discard gives up the changes at and below paths.
	discard(paths []string) error
	// restore takes back changes that had landed and were undone; they are in from.
	restore(from *tree, list []Change) error
}

// kept opens what a session keeps, which nobody else may change meanwhile, or read.
func (l Overlay) kept(how int) (kept, error) {
	s, err := l.store(how)
	switch {
	case err != nil:
		return nil, err
	case l.IsCopy:
		return &replica{store: *s}, nil
	}
	return &keeper{store: *s}, nil
}

// A store is that of a session, open.
type store struct {
	Overlay
	reader
	lock  *os.File
	bases *bases
	picks *picks
}

func (k *store) own() *store { return k }

func (l Overlay) store(how int) (s *store, err error) {
	s = &store{Overlay: l, reader: reader{skips: true}}
	begun := s
	defer func() {
		if err != nil {
			begun.close()
		}
	}()
	if s.lock, err = os.OpenFile(l.Store+"/"+lockName, os.O_CREATE|os.O_RDWR, 0o600); err != nil {
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
	if s.upper, err = openTree(l.UpperOrCopy()); err != nil {
		return nil, err
	}
	if s.lower, err = l.openFolder(); err != nil {
		return nil, err
	}
	if s.since, err = stampOf(l.Store + "/" + clockName); err != nil {
		return nil, err
	}
	if s.picks, err = readPicks(l.Store); err != nil {
		return nil, err
	}
	s.bases, err = readBases(l.Store)
	return s, err
}

func (k *store) close() {
	k.upper.close()
	k.lower.close()
	k.lock.Close()
}

// InitSession makes the store of a kept layer, where it is missing.
func (l Overlay) InitSession() error {
	if !there(l.Store + "/" + clockName) {
		if err := l.Init(); err != nil {
			return err
		}
	}
	for _, name := range []string{l.SessionDir(), l.Store + "/" + textsName} {
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
func (l Overlay) RecordBases(tidy bool) error {
	if l.IsCopy {
		return nil
	}
	s, err := l.store(unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer s.close()
	return (&keeper{store: *s, tidy: tidy}).record()
}

// SessionChanges lists all that the session has changed over what is in the real folder
// now. Names that can be none are left out, and told by an Unfit beside the list.
func (l Overlay) SessionChanges() ([]Change, error) {
	k, err := l.kept(unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	defer k.own().close()
	return k.standing()
}

// BaseContent returns the content of the real file that a path was changed from, where
// it was kept. For a copy none is.
func (l Overlay) BaseContent(name string) ([]byte, error) {
	if l.IsCopy {
		return nil, fmt.Errorf("%q: %w", name, fs.ErrNotExist)
	}
	s, err := l.store(unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if v := s.bases.all[path.Clean(name)]; v != nil && v.Text > 0 {
		return os.ReadFile(s.bases.text(v))
	}
	return nil, fmt.Errorf("%q: %w", name, fs.ErrNotExist)
}

// A keeper goes through a kept layer.
type keeper struct {
	store
	tidy  bool // the layer is put in order
	tell  bool // the changes are listed
	judge bool // one of both: it matters what is no change
	still bool // nothing is written

	landed map[string]bool // what has landed and is to be settled
	now    int64           // when that began
	out    []string        // what is to be taken out, things before the folders that they are in
}

// record goes through the layer and writes down what is new.
func (k *keeper) record() error {
	k.judge, k.out = k.tidy, nil
	k.upper.forget()
	if err := k.all(); err != nil {
		return err
	}
	for name, v := range k.bases.all {
		if !v.met {
			k.bases.drop(name) // there is no change any more
		}
	}
	if err := k.bases.flush(); err != nil {
		return err
	}
	// Who settles later must not take for deleted what is taken out now.
	settled := map[string]bool{}
	maps.Copy(settled, k.landed)
	for _, name := range k.out {
		settled[name] = true
	}
	if err := k.picks.drop(func(name string) bool { return settled[name] }); err != nil {
		return err
	}
	for _, name := range k.out {
		if err := k.takeOut(name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return k.bases.save()
}

// standing lists the changes. Nothing is written.
func (k *keeper) standing() ([]Change, error) {
	k.tell, k.judge, k.still = true, true, true
	if err := k.all(); err != nil {
		return nil, err
	}
	if len(k.unfit) > 0 {
		return k.list, &NameError{k.unfit[0]}
	}
	return k.list, nil
}

// all goes through all of the layer.
func (k *keeper) all() error {
	k.bases.begin()
	if k.tidy {
		st, err := k.lower.stat("")
		if err != nil {
			return err
		}
		if err := k.setMode("", bits(st)); err != nil {
			return err
		}
	}
	_, err := k.inside("", source{from: theRealOne, at: k.since}, false)
	return err
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

// note notes the version of something that stays.
func (k *keeper) note(t thing) {
	t.met = true
	if t.Kind == Dir && !t.Open {
		for _, in := range k.bases.below(t.name) { // clashes in what was deleted
			_, was, err := k.real(in.Path)
			in.met = err != nil || was != Nothing || t.kind == Dir
		}
	}
	if !t.noted && !k.still {
		k.bases.keepText(k.lower, t.version)
	}
	if k.bases.all[t.name] != t.version {
		k.bases.put(t.version)
	}
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
	if v.Kind == Nothing && !v.Unknown {
		return nil // nor was it there before
	}
	k.list = append(k.list, Change{Path: name, Op: Delete, OldKind: was, Conflict: !k.at(v, low, was)})
	return nil
}

// entry goes through one thing of the layer. It reports whether that stays.
func (k *keeper) entry(name string, s source, covering bool) (bool, error) {
	t, err := k.look(name, s, covering)
	switch {
	case err != nil:
		return false, err
	case t.kind == Dir && t.was == Dir:
		return k.both(t)
	case t.kind == Dir:
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
		idle := t.landed && t.landing.whole(t.st)
		if !idle {
			idle, err = k.idle(t)
		}
		if err != nil {
			return false, err
		}
		if idle {
			return k.leaves(t), nil
		}
	}
	if t.landed {
		t.version, t.noted = k.derive(t, source{from: theRealOne, at: k.now}), false
	}
	if now := t.st.Ctim.Nano(); k.tidy && t.kind == File && t.Looked != now {
		v := *t.version
		v.Looked, t.version = now, &v
	}
	k.note(t)
	if !k.tell {
		return true, nil
	}
	if t.kind == Nothing {
		k.list = append(k.list, Change{Path: t.name, Op: Delete, OldKind: t.was, Conflict: !k.at(t.version, t.low, t.was)})
		return true, nil
	}
	return true, k.changed(t)
}

// changed lists something that is new, or other than what the real folder has, with
// all that is in it.
func (k *keeper) changed(t thing) error {
	from := len(k.list)
	c := Change{Path: t.name, Op: Create, Kind: t.kind, Mode: bits(t.st), OldKind: t.was}
	if t.was != Nothing {
		c.Op = Modify
	}
	if err := k.add(c, t.st, t.low); err != nil {
		return err
	}
	clash := len(k.list) > from && !k.at(t.version, t.low, t.was)
	for i := range k.list[from:] {
		k.list[from+i].Conflict = clash
	}
	return nil
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

// alone goes through a folder that the real folder does not have.
func (k *keeper) alone(t thing) (stays bool, err error) {
	var left []string
	if t.Open || t.landed {
		// It was in both. What is left of it, where there is nothing of the session's own
		// in it, goes as the real one has gone.
		quiet := *k
		quiet.tell, quiet.out = false, nil
		stays, err := quiet.inside(t.name, t.source(k.since), false)
		if err != nil {
			return false, err
		}
		left = quiet.out
		k.out = append(k.out, left...)
		same := t.Kind == Dir && !t.Unknown && bits(t.st) == t.Mode
		if !stays && k.judge && (same || t.landed) {
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
	if t.Kind == Dir && t.At > 0 && !t.Open {
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
	if len(left) > 0 {
		k.list = slices.DeleteFunc(k.list, func(c Change) bool { return c.NewDir == t.name && slices.Contains(left, c.Path) })
	}
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
	marked := covering && !k.tidy
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
	if err != nil || marked {
		return true, err
	}
	same := bits(t.st) == bits(t.low)
	if same && !stays && k.judge {
		return k.leaves(t), nil
	}
	now := *t.version
	if same || t.landed {
		now = version{Path: t.name, Kind: Dir, Mode: bits(t.low)}
	}
	if now.Open = true; !now.equal(t.version) {
		k.bases.put(&now)
	}
	return true, nil
}

// mode looks at the permission bits of a folder that both have. Where the session has
// not changed them they are the real folder's.
func (k *keeper) mode(t *thing) error {
	known := t.Kind == Dir && !t.Unknown
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
		k.list = append(k.list, Change{Path: t.name, Op: Mode, Kind: Dir, Mode: bits(t.st), OldKind: Dir, OldMode: bits(t.low), Conflict: !t.is(t.low, t.was)})
	}
	return nil
}
