package jail

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/layer"
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

// Undo brings back what was there before. It returns the names that have changed
// since: then nothing has been undone.
func (l *Landed) Undo(now func() time.Time) (clash []string, err error) {
	s, err := startHolder(Policy{Layers: l.layers}, now)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	for _, do := range []string{mayUndo, undoWork} {
		clash, err := s.each(l.work, do, nil)
		if err != nil || len(clash) > 0 {
			return clash, err
		}
	}
	if err := os.Remove(filepath.Join(string(l.layers), lastName)); err != nil {
		return nil, err
	}
	return nil, s.forget(l.work)
}

// Recover carries on with transactions that were landing when golem was killed, and
// removes what is left of others. It returns how many have landed so.
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
		if !abandoned(strings.TrimPrefix(e.Name(), "landed-")) {
			continue
		}
		dir := filepath.Join(string(layers), e.Name())
		if !free(dir) {
			continue
		}
		w, err := workAt(dir)
		if err != nil && !strings.HasPrefix(e.Name(), "landed-") {
			os.RemoveAll(dir) // it was just being made
			continue
		}
		if err != nil || strings.HasPrefix(e.Name(), "landed-") && !w.landing() {
			continue
		}
		if s == nil {
			if s, err = startHolder(Policy{Layers: layers}, now); err != nil {
				return n, err
			}
		}
		if _, err := s.each(w, recoverWork, nil); err != nil {
			return n, err
		}
		switch {
		case strings.HasPrefix(e.Name(), "landed-"): // it was being undone
			err = errors.Join(os.Remove(filepath.Join(string(layers), lastName)), s.forget(w))
		case w.landed():
			err = s.keep(w)
			n++
		default:
			err = s.forget(w)
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// landed reports whether changes of a work have landed.
func (w *work) landed() bool {
	return slices.ContainsFunc(w.layers, layer.Layer.Landed)
}

// landing reports whether it was decided that the changes of a work land, and that
// is not done, or being undone.
func (w *work) landing() bool {
	return slices.ContainsFunc(w.layers, layer.Layer.Pending)
}
