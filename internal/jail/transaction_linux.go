package jail

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/layer"
	"github.com/golem-forge/golem/sandbox"
)

// A work is where the changes of one command are kept: a layer for each folder that
// may be written.
type work struct {
	dir    string
	layers []layer.Layer
	target []string // of each, as commands name it
	held   *os.File // says that it is in use
}

// stores are the folders of the layers.
func (w *work) stores() []string {
	var list []string
	for _, l := range w.layers {
		list = append(list, l.Store)
	}
	return list
}

// newWork makes a place for the changes of a command.
func (s *Session) newWork() (*work, error) {
	s.mu.Lock()
	s.works++
	n := s.works
	s.mu.Unlock()
	w := &work{dir: filepath.Join(string(s.policy.Layers), stamp(n))}
	if err := os.Mkdir(w.dir, 0o700); err != nil {
		return nil, err
	}
	var err error
	if w.held, err = hold(w.dir); err != nil {
		return nil, err
	}
	for _, m := range s.policy.Mounts {
		if m.Source == "" || !m.Write {
			continue
		}
		l := layer.Layer{Folder: string(m.Source), Store: filepath.Join(w.dir, strconv.Itoa(len(w.layers)))}
		if err := l.Begin(); err != nil {
			os.RemoveAll(w.dir)
			return nil, err
		}
		w.layers, w.target = append(w.layers, l), append(w.target, m.Target)
	}
	return w, w.describe()
}

// about is what is written down of a work, for who finds it.
type about struct {
	Layers []layer.Layer
	Target []string
}

const aboutName = "about.json"

func (w *work) describe() error {
	data, err := json.Marshal(about{w.layers, w.target})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(w.dir, aboutName), data, 0o600)
}

// workAt reads what is written down of a work.
func workAt(dir string) (*work, error) {
	data, err := os.ReadFile(filepath.Join(dir, aboutName))
	if err != nil {
		return nil, err
	}
	var a about
	if err := json.Unmarshal(data, &a); err != nil || len(a.Layers) != len(a.Target) {
		return nil, fmt.Errorf("%s: not as it was written", aboutName)
	}
	return &work{dir: dir, layers: a.Layers, target: a.Target}, nil
}

// layered reports whether commands write to layers.
func (s *Session) layered() bool { return s.level == Namespaces && s.policy.Layers != "" }

// plans puts the place for the first changes of a cell into its plan.
func (s *Session) plans(c *wire, p *plan) error {
	if !s.layered() {
		return nil
	}
	w, err := s.newWork()
	if err != nil {
		return fmt.Errorf("a place for changes: %w", err)
	}
	if _, err := s.follows(c, w); err != nil {
		return err
	}
	p.Stores = w.stores()
	return nil
}

// follows puts a work behind the one that a cell has now, which it returns.
func (s *Session) follows(c *wire, next *work) (now *work, err error) {
	s.mu.Lock()
	ended := s.ended
	if !ended {
		now, s.next[c] = s.next[c], next
	}
	s.mu.Unlock()
	if ended {
		return nil, errors.Join(errors.New("the session has ended"), s.forget(next))
	}
	return now, nil
}

// turn returns the work of the command that a cell gets now, and gives the order
// the place for that of the one after it.
func (s *Session) turn(c *wire, o *order) (*work, error) {
	if !s.layered() {
		return nil, nil
	}
	next, err := s.newWork()
	if err != nil {
		return nil, fmt.Errorf("a place for changes: %w", err)
	}
	w, err := s.follows(c, next)
	if err != nil {
		return nil, err
	}
	o.Stores = next.stores()
	for _, l := range w.layers {
		if err := l.Stamp(); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// changed returns what was changed, nil for nothing.
func (s *Session) changed(w *work) (t *Transaction, err error) {
	defer func() {
		if err != nil { // nobody can land it
			s.forget(w)
		}
	}()
	t = &Transaction{session: s, work: w}
	for i, l := range w.layers {
		if entries, err := os.ReadDir(l.Upper()); err == nil && len(entries) == 0 {
			continue
		}
		a, err := s.ask(ask{Do: listWork, Layer: l})
		if err != nil {
			return nil, err
		}
		if a.Unfit != "" {
			t.Unfit = a.Unfit
		}
		for _, name := range a.Clash {
			t.Clash = append(t.Clash, filepath.Join(w.target[i], name))
		}
		list, err := readChanges(l)
		if err != nil {
			return nil, err
		}
		for _, c := range list {
			t.Changes = append(t.Changes, Change{c, w.target[i]})
		}
	}
	if len(t.Changes) == 0 && len(t.Clash) == 0 && t.Unfit == "" {
		return nil, s.forget(w)
	}
	return t, nil
}

// forget removes a work. One that is decided is left to who carries on with it.
func (s *Session) forget(w *work) error {
	defer w.held.Close()
	if w.decided() {
		return errors.New("it is being landed")
	}
	for _, l := range w.layers {
		if l.Remove() != nil {
			if _, err := s.ask(ask{Do: removeWork, Layer: l}); err != nil {
				return err
			}
		}
	}
	return os.RemoveAll(w.dir)
}

// Land brings the changes into the folders, but for those at or below the dropped
// names, which are as commands have them. It returns the names that others have
// changed meanwhile: then nothing has landed.
func (t *Transaction) Land(dropped []string) (clash []string, err error) {
	clash, err = t.session.each(t.work, prepareWork, dropped)
	if err == nil && len(clash) == 0 {
		// From here on it lands, whoever is killed.
		if err = t.work.decide(); err == nil {
			clash, err = t.session.each(t.work, finishWork, nil)
		}
	}
	if err == nil && len(clash) == 0 {
		return nil, t.session.keep(t.work)
	}
	if _, aborted := t.session.each(t.work, abortWork, nil); aborted != nil {
		return clash, errors.Join(err, aborted) // the next golem carries on
	}
	return clash, errors.Join(err, t.work.undecide())
}

// decidedName is a file of a work that says that its changes land, all of them.
const decidedName = "decided"

func (w *work) decide() error {
	f, err := os.OpenFile(filepath.Join(w.dir, decidedName), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

func (w *work) undecide() error {
	err := os.Remove(filepath.Join(w.dir, decidedName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// decided reports whether the changes of a work land, or have.
func (w *work) decided() bool {
	_, err := os.Lstat(filepath.Join(w.dir, decidedName))
	return err == nil
}

// each asks for something with every layer of a work that has something in it.
func (s *Session) each(w *work, do string, dropped []string) (clash []string, err error) {
	for i, l := range w.layers {
		if _, err := os.Lstat(filepath.Join(l.Store, changesName)); err != nil {
			continue // nothing was changed there
		}
		a := ask{Do: do, Layer: l}
		for _, name := range dropped {
			if rel, err := filepath.Rel(w.target[i], name); err == nil && filepath.IsLocal(rel) {
				a.Dropped = append(a.Dropped, rel)
			}
		}
		got, err := s.ask(a)
		if err != nil {
			return nil, err
		}
		for _, name := range got.Clash {
			clash = append(clash, filepath.Join(w.target[i], name))
		}
	}
	return clash, nil
}

// Drop gives the changes up.
func (t *Transaction) Drop() error { return t.session.forget(t.work) }

// Content returns what a changed file holds, and held. A file that is not there is
// nil.
func (t *Transaction) Content(c Change, most int64) (old, new []byte, err error) {
	for i, l := range t.work.layers {
		if t.work.target[i] != c.Target {
			continue
		}
		if c.Was == layer.File {
			if old, err = readAtMost(filepath.Join(l.Folder, c.Path), most); err != nil {
				return nil, nil, err
			}
		}
		if c.Kind == layer.File {
			new, err = readAtMost(filepath.Join(l.Upper(), c.Path), most)
		}
		return old, new, err
	}
	return nil, nil, fs.ErrNotExist
}

// Below calls visit with all that goes with a folder that was deleted or replaced, as
// commands name it, until visit returns false.
func (t *Transaction) Below(c Change, visit func(inside string) bool) error {
	for i, l := range t.work.layers {
		if t.work.target[i] != c.Target {
			continue
		}
		top := filepath.Join(l.Folder, c.Path)
		return filepath.WalkDir(top, func(name string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if name != top && !visit(filepath.Join(c.Target, c.Path, strings.TrimPrefix(name, top))) {
				return fs.SkipAll
			}
			return nil
		})
	}
	return fs.ErrNotExist
}

// Hash returns a digest of what a changed file holds, "" where it cannot be read.
func (t *Transaction) Hash(c Change) string {
	for i, l := range t.work.layers {
		if t.work.target[i] != c.Target {
			continue
		}
		f, err := os.Open(filepath.Join(l.Upper(), c.Path))
		if err != nil {
			return ""
		}
		defer f.Close()
		h := sha256.New()
		if _, err := io.Copy(h, f); err != nil {
			return ""
		}
		return fmt.Sprintf("%x", h.Sum(nil))
	}
	return ""
}

func readAtMost(name string, most int64) ([]byte, error) {
	info, err := os.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, errors.New("too large to be shown")
	}
	return os.ReadFile(name)
}

// lockLayers keeps others from changing which work is the last.
func lockLayers(layers sandbox.Host) (unlock func(), err error) {
	f, err := os.Open(string(layers))
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

// lastName is a file of the folder of layers that names the last work that landed.
const lastName = "last"

// keep remembers a work that has landed as the one that can be undone.
func (s *Session) keep(w *work) error {
	unlock, err := lockLayers(s.policy.Layers)
	if err != nil {
		return err
	}
	defer unlock()
	last := filepath.Join(string(s.policy.Layers), lastName)
	before, _ := os.ReadFile(last)
	defer w.held.Close()
	kept := filepath.Join(string(s.policy.Layers), landedPrefix+filepath.Base(w.dir))
	if err := os.Rename(w.dir, kept); err != nil {
		return err
	}
	for i := range w.layers {
		w.layers[i].Store = filepath.Join(kept, strconv.Itoa(i))
	}
	w.dir = kept
	if err := errors.Join(w.describe(), os.WriteFile(last+".new", []byte(filepath.Base(kept)), 0o600), os.Rename(last+".new", last)); err != nil {
		return err
	}
	if old := string(before); filepath.IsLocal(old) && old != filepath.Base(kept) {
		if was, err := workAt(filepath.Join(string(s.policy.Layers), old)); err == nil {
			return errors.Join(was.undecide(), s.forget(was))
		}
	}
	return nil
}
