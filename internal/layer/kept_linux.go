package layer

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"

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
func (l Layer) kept(how int) (kept, error) {
	s, err := l.store(how)
	switch {
	case err != nil:
		return nil, err
	case l.Copied:
		return &replica{store: *s}, nil
	}
	return &keeper{store: *s}, nil
}

// A store is that of a session, open.
type store struct {
	Layer
	reader
	lock  *os.File
	bases *bases
	picks *picks
}

func (k *store) own() *store { return k }

func (l Layer) store(how int) (s *store, err error) {
	s = &store{Layer: l, reader: reader{skips: true}}
	defer func() {
		if err != nil {
			s.close()
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
	if s.upper, err = openTree(l.Own()); err != nil {
		return nil, err
	}
	if s.lower, err = openTree(l.Folder); err != nil {
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

// Keep makes the store of a kept layer, where it is missing.
func (l Layer) Keep() error {
	if !there(l.Store + "/" + clockName) {
		if err := l.Begin(); err != nil {
			return err
		}
	}
	for _, name := range []string{l.Seen(), l.Store + "/" + textsName} {
		if err := os.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// Record notes what the real folder has at every path that the layer has changed and
// that is not noted yet. It belongs after each call, which began at the stamp, and
// before each stamp, for a call that was killed, or is still at work. What has changed
// in the real folder since the stamp is noted as unknown, and is a clash.
//
// Where tidy says that nobody writes to the layer now, what is no change is taken out
// of it, so that the user's later edits show through.
//
// Of a copy all was noted when it was made.
func (l Layer) Record(tidy bool) error {
	if l.Copied {
		return nil
	}
	s, err := l.store(unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer s.close()
	return (&keeper{store: *s, tidy: tidy}).record()
}

// Standing lists all that the session has changed over what is in the real folder
// now. Names that can be none are left out, and told by an Unfit beside the list.
func (l Layer) Standing() ([]Change, error) {
	k, err := l.kept(unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	defer k.own().close()
	return k.standing()
}

// BaseText returns the content of the real file that a path was changed from, where
// it was kept. For a copy none is.
func (l Layer) BaseText(name string) ([]byte, error) {
	if l.Copied {
		return nil, fmt.Errorf("%q: %w", name, fs.ErrNotExist)
	}
	s, err := l.store(unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if v := s.bases.all[name]; v != nil && v.Text > 0 {
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

	landed map[string]bool // what has landed and is to be settled
	now    int64           // when that began
	out    []string        // what is to be taken out, things before the folders that they are in
}

// record goes through the layer and writes down what is new.
func (k *keeper) record() error {
	k.judge, k.out = k.tidy, nil
	k.upper.forget()
	for _, v := range k.bases.all {
		v.met = false
	}
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
	k.tell, k.judge = true, true
	if err := k.all(); err != nil {
		return nil, err
	}
	if len(k.unfit) > 0 {
		return k.list, &Unfit{k.unfit[0]}
	}
	return k.list, nil
}

// all goes through all of the layer.
func (k *keeper) all() error {
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
