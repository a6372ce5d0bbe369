package jail

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/golem-forge/golem/sandbox"
)

// A Landed is the last transaction that has landed in some folders.
type Landed struct {
	Changes []Change
	layers  sandbox.Host
	work    *work
}

// Last returns the last transaction whose changes were kept in a folder of layers.
// Without one the error is fs.ErrNotExist.
func Last(layers sandbox.Host) (*Landed, error) {
	name, err := os.ReadFile(filepath.Join(string(layers), lastName))
	if err != nil {
		return nil, fs.ErrNotExist
	}
	if !filepath.IsLocal(string(name)) {
		return nil, fmt.Errorf("%s: not as it was written", lastName)
	}
	w, err := workAt(filepath.Join(string(layers), string(name)))
	if err != nil {
		return nil, err
	}
	l := &Landed{layers: layers, work: w}
	for i, of := range w.layers {
		list, err := readChanges(of)
		if err != nil {
			return nil, err
		}
		for _, c := range list {
			l.Changes = append(l.Changes, Change{c, w.target[i]})
		}
	}
	return l, nil
}

// undoingName is a file of a work that says that it is being undone, all of it.
const undoingName = "undoing"

// Undo brings back what was there before. It returns the names that have changed
// since: then nothing has been undone.
func (l *Landed) Undo(now func() time.Time) (clash []string, err error) {
	unlock, err := lockLayers(l.layers)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if name, err := os.ReadFile(filepath.Join(string(l.layers), lastName)); err != nil || string(name) != filepath.Base(l.work.dir) {
		return nil, errors.New("another command has changed something since")
	}
	held, ok := seize(l.work.dir)
	if !ok {
		return nil, errors.New("another golem is at it")
	}
	defer held.Close()
	s, err := startHolder(Policy{Layers: l.layers}, now)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if clash, err := s.each(l.work, mayUndo, nil); err != nil || len(clash) > 0 {
		return clash, err
	}
	if err := os.WriteFile(filepath.Join(l.work.dir, undoingName), nil, 0o600); err != nil {
		return nil, err
	}
	return nil, s.takeBack(l.work)
}

// takeBack undoes all of a work, and removes it.
func (s *Session) takeBack(w *work) error {
	if _, err := s.each(w, abortWork, nil); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(string(s.policy.Layers), lastName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(w.undecide(), s.forget(w))
}

// Recover carries on with transactions that were landing, or being undone, when
// golem was killed, and removes what is left of others. What it cannot carry on with
// it sets aside. It returns how many have landed so.
func Recover(layers sandbox.Host, now func() time.Time) (n int, err error) {
	entries, err := os.ReadDir(string(layers))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var s *Session
	defer func() {
		if s != nil {
			s.Close()
		}
	}()
	for _, e := range entries {
		landed := strings.HasPrefix(e.Name(), landedPrefix)
		dir := filepath.Join(string(layers), e.Name())
		if !abandoned(strings.TrimPrefix(e.Name(), landedPrefix)) || landed && !undoing(dir) {
			continue
		}
		held, ok := seize(dir)
		if !ok {
			continue
		}
		if s == nil {
			if s, err = startHolder(Policy{Layers: layers}, now); err != nil {
				s = nil
				held.Close()
				if undoing(dir) || (&work{dir: dir}).decided() {
					return n, err
				}
				continue // it is only litter
			}
		}
		kept, err := s.carryOn(dir)
		held.Close()
		if err != nil {
			err = os.Rename(dir, filepath.Join(string(layers), "broken-"+e.Name()))
		}
		if err != nil {
			return n, err
		}
		if kept {
			n++
		}
	}
	return n, nil
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
		return false, s.takeBack(w)
	case !w.decided():
		if _, err := s.each(w, abortWork, nil); err != nil {
			return false, err
		}
		return false, s.forget(w)
	}
	if _, err := s.each(w, recoverWork, nil); err != nil {
		return false, err
	}
	return true, s.keep(w)
}
