package jail

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/durable"
	"github.com/golem-forge/golem/internal/overlay"
	"github.com/golem-forge/golem/sandbox"
)

// A Landed is the last transaction that has landed in some folders.
type Landed struct {
	Changes []Change
	layers  sandbox.Host
	work    *work
}

// Name tells the transaction from all others.
func (l *Landed) Name() string {
	if l.work == nil {
		return ""
	}
	return filepath.Base(l.work.dir)
}

// Last returns the last transaction whose changes were kept in a folder of layers.
// Without one the error is fs.ErrNotExist.
func Last(layers sandbox.Host) (*Landed, error) {
	name := lastOf(layers)
	if name == "" {
		return nil, fs.ErrNotExist
	}
	w, err := workAt(filepath.Join(string(layers), name))
	if err != nil {
		return nil, err
	}
	l := &Landed{layers: layers, work: w}
	for i, of := range w.layers {
		list, err := readChanges(of)
		if err != nil {
			return nil, err
		}
		dropped, err := readList[string](of, droppedName)
		if err != nil {
			return nil, err
		}
		for _, c := range overlay.Applicable(list, dropped) {
			l.Changes = append(l.Changes, Change{c, w.target[i]})
		}
	}
	return l, nil
}

// Over returns the folders that it has landed in.
func (l *Landed) Over() []Over {
	var list []Over
	for i, of := range l.work.layers {
		list = append(list, Over{Folder: sandbox.Host(of.Dir), Target: Outside(l.work.target[i])})
	}
	return list
}

// Each calls visit for all that Undo would change, by the name that the file tools have
// for it: what stands there now, and what was there before.
func (l *Landed) Each(visit func(name string, now, then overlay.State) error) error {
	for i, of := range l.work.layers {
		var changes []overlay.Change
		for _, c := range l.Changes {
			if c.Target == l.work.target[i] {
				changes = append(changes, c.Change)
			}
		}
		if len(changes) == 0 {
			continue
		}
		err := of.PreviewUndo(changes, func(now, then overlay.State) error {
			return visit(Outside(path.Join(l.work.target[i], now.Path)), now, then)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Of reports whether its changes were taken of what is kept in a directory of golem's.
func (l *Landed) Of(dir sandbox.Host) bool {
	return slices.ContainsFunc(l.work.of, func(of overlay.Overlay) bool { return of.Store != "" && filepath.Dir(of.Store) == string(dir) })
}

// undoingName is a file of a work that says that it is being undone, all of it.
const undoingName = "undoing"

// Undo brings back what was there before. It returns the names that have changed
// since: then nothing has been undone. What was taken of a session the session has
// again; k are the layers of one that this golem has open, or nil.
func (l *Landed) Undo(k *Kept, now func() time.Time) (clash []string, err error) {
	unlock, err := lockLayers(l.layers)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if lastOf(l.layers) != filepath.Base(l.work.dir) {
		return nil, errors.New("another command has changed something since")
	}
	held, ok := seize(l.work.dir)
	if !ok {
		return nil, errors.New("another golem is at it")
	}
	defer held.Close()
	var stayed []string
	err = withHolder(l.layers, now, func(s *Session) (err error) {
		if !undoing(l.work.dir) {
			if clash, err = s.each(l.work, mayUndo); err != nil || len(clash) > 0 {
				return err
			}
			if err := durable.WriteAlone(filepath.Join(l.work.dir, undoingName), nil, 0o600); err != nil {
				return err
			}
		}
		stayed, err = s.takeBack(l.work, k)
		return err
	})
	switch {
	case err != nil && undoing(l.work.dir):
		return nil, &sandbox.Error{Op: "undo", Code: sandbox.ErrInternal, Hint: Plain(err) + "; a part of it is undone, and golem undoes the rest when it is started next"}
	case len(stayed) > 0:
		return nil, &sandbox.Error{Op: "undo", Code: sandbox.ErrConflict, Hint: "changed while it was undone, and left as it is: " + sandbox.Shown(Outside(stayed[0])) + fmt.Sprintf("; of such there are %d, and all else is undone", len(stayed))}
	}
	return clash, err
}

// Forget makes the transaction one that cannot be undone. What was kept for that is removed
// when golem is started next.
func (l *Landed) Forget() error {
	unlock, err := lockLayers(l.layers)
	if err != nil {
		return err
	}
	defer unlock()
	if lastOf(l.layers) != filepath.Base(l.work.dir) {
		return errors.New("another command has changed something since")
	}
	return os.Remove(filepath.Join(string(l.layers), lastName))
}

// takeBack undoes all of a work, and removes it. It returns the names of what has
// changed meanwhile, which stays.
func (s *Session) takeBack(w *work, k *Kept) (stayed []string, err error) {
	if stayed, err = s.each(w, abortWork); err != nil {
		return nil, err
	}
	if err := s.restore(w, k); err != nil {
		return nil, err
	}
	if lastOf(s.policy.Layers) == filepath.Base(w.dir) {
		if err := os.Remove(filepath.Join(string(s.policy.Layers), lastName)); err != nil {
			return nil, err
		}
	}
	return stayed, errors.Join(w.undecide(), s.forget(w))
}

// restore gives the session, whose changes a work was made of, those back that were
// undone. A session that is not there any more gets nothing.
func (s *Session) restore(w *work, k *Kept) error {
	for i, l := range w.of {
		if _, err := os.Lstat(l.Store); err != nil || len(w.picked[i]) == 0 {
			continue
		}
		if k == nil || k.dir != filepath.Dir(l.Store) {
			k = &Kept{dir: filepath.Dir(l.Store), holder: s}
		}
		err := k.alone(func(func() *Session) error {
			_, err := s.ask(ask{Do: restoreKept, Layer: l, To: w.layers[i]})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Recover carries on with transactions that were landing, or being undone, when
// golem was killed, and removes what is left of others. What it cannot carry on with
// it sets aside. It returns how many have landed so.
func Recover(layers sandbox.Host, now func() time.Time) (n int, err error) {
	list, err := leftBehind(layers)
	if len(list) == 0 {
		return 0, err
	}
	// Somebody may be at it. Litter alone is not waited for.
	held, ok := seize(string(layers))
	if !ok && !slices.ContainsFunc(list, halfDone) {
		return 0, nil
	}
	if !ok {
		if held, err = lockFolder(string(layers)); err != nil {
			return 0, err
		}
	}
	defer held.Close()
	if list, err = leftBehind(layers); len(list) == 0 {
		return 0, err
	}
	err = withHolder(layers, now, func(s *Session) error {
		more, err := s.carryOnAll()
		n += more
		return err
	})
	return n, unlessLitter(err, list)
}

// unlessLitter returns an error where something of a list is still to land or to be
// undone. That it cannot be removed keeps nobody from anything.
func unlessLitter(err error, list []string) error {
	if slices.ContainsFunc(list, halfDone) {
		return err
	}
	return nil
}

// leftBehind returns the folders of works that nobody is at any more: of a golem that
// is gone, half undone, or landed before the last.
func leftBehind(layers sandbox.Host) (list []string, err error) {
	entries, err := os.ReadDir(string(layers))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	last := lastOf(layers)
	for _, e := range entries {
		dir := filepath.Join(string(layers), e.Name())
		of, landed := strings.CutPrefix(e.Name(), landedPrefix)
		if landed && (undoing(dir) || e.Name() != last) || !landed && abandoned(of) {
			list = append(list, dir)
		}
	}
	return list, err
}

// halfDone reports whether the changes of the work in a folder are to land, or to be
// undone.
func halfDone(dir string) bool { return undoing(dir) || (&work{dir: dir}).decided() }

// carryOnAll carries on with all that is left behind. Layers are locked.
func (s *Session) carryOnAll() (n int, err error) {
	list, err := leftBehind(s.policy.Layers)
	for _, dir := range list {
		held, ok := seize(dir)
		if !ok {
			continue // of a golem that cannot be seen from here
		}
		landed, e := s.carryOn(dir)
		held.Close()
		var later postponed
		if e != nil && !errors.Is(e, errEnded) && !(errors.As(e, &later) && halfDone(dir)) {
			e = durable.Rename(dir, filepath.Join(string(s.policy.Layers), "broken-"+filepath.Base(dir)))
		}
		if e != nil {
			err = e
		} else if landed {
			n++
		}
	}
	return n, unlessLitter(err, list)
}

// landedPrefix begins the name of a work that has landed.
const landedPrefix = "landed-"

// undoing reports whether the work in a folder is being undone.
func undoing(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, undoingName))
	return err == nil
}

// carryOn does with a work that somebody has left what was to be done with it, and
// reports whether it has landed.
func (s *Session) carryOn(dir string) (landed bool, err error) {
	w, err := workAt(dir)
	if err != nil {
		return false, os.RemoveAll(dir) // it was just being made
	}
	switch {
	case undoing(dir):
		_, err := s.takeBack(w, nil)
		return false, err
	case strings.HasPrefix(filepath.Base(dir), landedPrefix):
		return false, errors.Join(w.undecide(), s.forget(w)) // another has landed since
	case !w.decided():
		if _, err := s.each(w, abortWork); err != nil {
			return false, err
		}
		return false, s.forget(w)
	}
	clash, err := s.each(w, recoverWork) // what others have changed since is left as it is
	if err != nil {
		return false, err
	}
	return true, errors.Join(s.settle(w, clash), s.keep(w))
}
