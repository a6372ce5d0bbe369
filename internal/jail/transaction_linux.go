package jail

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/durable"
	"github.com/golem-forge/golem/internal/overlay"
	"github.com/golem-forge/golem/sandbox"
)

// A work is where the changes of one command are kept: a layer for each folder that
// may be written.
type work struct {
	dir    string
	layers []overlay.Overlay
	target []string // of each, as commands name it
	held   *os.File // says that it is in use

	of     []overlay.Overlay // the layers of a session that the changes were taken from
	picked [][]string        // and which, of each
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
	dir, err := s.newFolder()
	if err != nil {
		return nil, err
	}
	w := &work{dir: dir}
	if w.held, err = hold(w.dir); err != nil {
		return nil, err
	}
	for _, m := range s.policy.Mounts {
		if m.Source == "" || !m.Write || m.Kept {
			continue
		}
		l := overlay.Overlay{Dir: string(m.Source), Store: filepath.Join(w.dir, strconv.Itoa(len(w.layers)))}
		if l.Device, l.Inode, err = m.numbers(); err != nil {
			break
		}
		if err = l.Init(); err != nil {
			break
		}
		w.layers, w.target = append(w.layers, l), append(w.target, m.Target)
	}
	if err == nil {
		err = w.describe()
	}
	if err != nil {
		w.held.Close()
		os.RemoveAll(w.dir)
		return nil, err
	}
	return w, nil
}

// newFolder makes a folder with a name that no work of this process has, of this
// session or another, also not one that has landed.
func (s *Session) newFolder() (string, error) {
	for {
		s.mu.Lock()
		s.works++
		name := stamp(s.works)
		s.mu.Unlock()
		dir := filepath.Join(string(s.policy.Layers), name)
		err := os.Mkdir(dir, 0o700)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		if _, err := os.Lstat(filepath.Join(string(s.policy.Layers), landedPrefix+name)); err != nil {
			return dir, nil
		}
		os.Remove(dir)
	}
}

// about is what is written down of a work, for who finds it.
type about struct {
	Layers []overlay.Overlay
	Target []string
	Of     []overlay.Overlay
	Picked [][]string
}

const aboutName = "about.json"

// numbers returns the kernel's numbers of the folder of a mount, 0 where any will do.
func (m Mount) numbers() (device, inode uint64, err error) {
	if m.Top.Inode == 0 {
		return 0, 0, nil
	}
	fd, err := openBelow("", string(m.Source), heldOf(m.Top))
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", m.Target, err)
	}
	defer unix.Close(fd)
	is, err := number(fd)
	return is[0], is[1], err
}

func (w *work) describe() error {
	return about{w.layers, w.target, w.of, w.picked}.write(w.dir)
}

// replace replaces a file of the state directory.
func replace(name string, data []byte) error { return durable.WriteAlone(name, data, 0o600) }

// workAt reads what is written down of a work, which may have been moved since.
func workAt(dir string) (*work, error) {
	a, err := aboutAt(dir)
	for i := range a.Layers {
		a.Layers[i].Store = filepath.Join(dir, strconv.Itoa(i))
	}
	return &work{dir: dir, layers: a.Layers, target: a.Target, of: a.Of, picked: a.Picked}, err
}

// layered reports whether commands write to layers.
func (s *Session) layered() bool { return s.level == Namespaces && s.policy.Layers != "" }

// plans puts the place for the first changes of a cell into its plan.
func (s *Session) plans(c *wire, p *plan) error {
	if !s.layered() || p.Direct {
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
		if err := l.MarkStart(); err != nil {
			return nil, errors.Join(err, s.forget(w))
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
		if entries, err := os.ReadDir(l.UpperDir()); err == nil && len(entries) == 0 {
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

// forget removes a work. One that is decided, or not taken back, is left to who
// carries on with it: it holds what was there before.
func (s *Session) forget(w *work) error {
	defer w.held.Close()
	moved := !strings.HasPrefix(filepath.Base(w.dir), landedPrefix) && slices.ContainsFunc(w.layers, overlay.Overlay.HasMoves)
	if moved || w.decided() {
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
	s, w := t.session, t.work
	unlock, err := lockLayers(s.policy.Layers)
	if err != nil {
		return nil, err
	}
	defer unlock()
	// What somebody was killed at comes first: it was decided before.
	if _, err := s.carryOnAll(); err != nil {
		return nil, err
	}
	if err := w.leaveOut(dropped); err != nil {
		return nil, err
	}
	clash, err = s.each(w, prepareWork)
	if err == nil && len(clash) == 0 {
		// From here on it lands, whoever is killed.
		if err = w.decide(); err == nil {
			clash, err = s.each(w, finishWork)
		}
	}
	if err == nil && len(clash) == 0 {
		if _, err = s.each(w, clearWork); err == nil {
			err = s.keep(w)
		}
		// What cannot be taken back any more has landed: the next golem does the rest.
		if err == nil || slices.ContainsFunc(w.layers, overlay.Overlay.IsFinal) {
			if t.settle != nil {
				t.settle() // what stays there is as the folder is now, and no change
			}
			return nil, nil
		}
	}
	stayed, left := s.giveUp(w)
	if left != nil {
		return nil, &sandbox.Error{Op: "shell", Code: sandbox.ErrInternal,
			Hint: "the changes could not be brought in, and those that were could not be taken back: " + Plain(errors.Join(err, left)) + "; golem takes them back when it is started next"}
	}
	return append(clash, stayed...), err
}

// giveUp takes back what has landed of a work, and decides that nothing does. It
// returns the names of what others have changed after it had landed, which stays.
func (s *Session) giveUp(w *work) (stayed []string, err error) {
	if err := w.undecide(); err != nil {
		return nil, err
	}
	stayed, err = s.each(w, abortWork)
	if errors.Is(err, errEnded) {
		err = withHolder(s.policy.Layers, s.now, func(other *Session) (err error) {
			stayed, err = other.each(w, abortWork)
			return err
		})
	}
	return stayed, err
}

// withHolder runs something with a holder, and where that ends too soon with another.
func withHolder(layers sandbox.Host, now func() time.Time, do func(*Session) error) error {
	for tries := 0; ; tries++ {
		s := startHelper(Policy{Layers: layers}, now)
		err := do(s)
		s.Close()
		if !errors.Is(err, errEnded) || tries == 2 {
			return err
		}
	}
}

// unpick tells the layers of a session that nothing of it lands.
func (s *Session) unpick(w *work) error {
	for i, paths := range w.picked {
		if len(paths) == 0 {
			continue
		}
		if err := writeList(w.layers[i], picksName, paths); err != nil {
			return err
		}
		if _, err := s.ask(ask{Do: unpickKept, Layer: w.of[i], To: w.layers[i]}); err != nil {
			return err
		}
	}
	return nil
}

// settle takes out of the layers of a session what has landed of them, but for the
// names, as commands have them, of what others have changed meanwhile.
func (s *Session) settle(w *work, clash []string) error {
	for i, paths := range w.picked {
		if len(paths) == 0 {
			continue
		}
		left, err := readList[string](w.layers[i], droppedName)
		if err != nil {
			return err
		}
		for _, name := range clash {
			if rel, err := filepath.Rel(w.target[i], name); err == nil && filepath.IsLocal(rel) {
				left = append(left, rel)
			}
		}
		err = errors.Join(writeList(w.layers[i], picksName, paths), writeList(w.layers[i], droppedName, left))
		if err != nil {
			return err
		}
		if _, err := s.ask(ask{Do: settleKept, Layer: w.of[i], To: w.layers[i]}); err != nil {
			return err
		}
	}
	return nil
}

// decidedName is a file of a work that says that its changes land, all of them.
const decidedName = "decided"

func (w *work) decide() error {
	return durable.WriteAlone(filepath.Join(w.dir, decidedName), nil, 0o600)
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

// leaveOut writes down what does not land of a work.
func (w *work) leaveOut(dropped []string) error {
	for i, l := range w.layers {
		var list []string
		for _, name := range dropped {
			if rel, err := filepath.Rel(w.target[i], name); err == nil && filepath.IsLocal(rel) {
				list = append(list, rel)
			}
		}
		if err := writeList(l, droppedName, list); err != nil {
			return err
		}
	}
	return nil
}

// each asks for something with every layer of a work that has something in it.
func (s *Session) each(w *work, do string) (clash []string, err error) {
	for i, l := range w.layers {
		if _, err := os.Lstat(filepath.Join(l.Store, changesName)); err != nil {
			continue // nothing was changed there
		}
		got, err := s.ask(ask{Do: do, Layer: l})
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
func (t *Transaction) Drop() error {
	if t.unpick != nil {
		if err := t.unpick(); err != nil {
			return err
		}
	}
	return t.session.forget(t.work)
}

// Content returns what a changed file holds, and held. A file that is not there is
// nil.
func (t *Transaction) Content(c Change, most int64) (old, new []byte, err error) {
	for i, l := range t.work.layers {
		if t.work.target[i] != c.Target {
			continue
		}
		if c.OldKind == overlay.File {
			if old, err = l.ReadReal(c.Path, most); err != nil {
				return nil, nil, err
			}
		}
		if c.Kind == overlay.File {
			new, err = overlay.ReadFile(l.UpperDir(), c.Path, most)
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
		top := filepath.Join(l.Dir, c.Path)
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

// Exists reports whether a name, as the file tools have it, is in a directory of the
// transaction before it is applied.
func (t *Transaction) Exists(name string) bool {
	if t.work == nil {
		return false
	}
	var file, in string
	for i, l := range t.work.layers {
		target := Outside(t.work.target[i])
		rel, ok := strings.CutPrefix(name, strings.TrimSuffix(target, "/")+"/")
		if ok && len(target) > len(in) {
			file, in = filepath.Join(l.Dir, rel), target
		}
	}
	if in == "" {
		return false
	}
	_, err := os.Lstat(file)
	return err == nil
}

// Open opens what a changed file holds.
func (t *Transaction) Open(c Change) (*os.File, error) {
	for i, l := range t.work.layers {
		if t.work.target[i] == c.Target {
			return overlay.OpenFile(l.UpperDir(), c.Path)
		}
	}
	return nil, fs.ErrNotExist
}

// Hash returns a digest of what a changed file holds, "" where it cannot be read.
func (t *Transaction) Hash(c Change) string {
	f, err := t.Open(c)
	return overlay.Digest(f, err)
}

// lockLayers keeps others from landing and undoing meanwhile.
func lockLayers(layers sandbox.Host) (unlock func(), err error) {
	f, err := lockFolder(string(layers))
	if err != nil {
		return nil, err
	}
	return func() { f.Close() }, nil
}

// lockFolder locks a folder for as long as the file is open, when nobody else has.
func lockFolder(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if err == nil {
			return f, nil
		}
		if err != unix.EINTR {
			f.Close()
			return nil, err
		}
	}
}

// lastName is a file of the folder of layers that names the last work that landed.
const lastName = "last"

// lastOf returns the name in it, "" for none.
func lastOf(layers sandbox.Host) string {
	name, err := os.ReadFile(filepath.Join(string(layers), lastName))
	if err != nil || filepath.Base(string(name)) != string(name) {
		return ""
	}
	return string(name)
}

// keep remembers a work that has landed as the one that can be undone, and forgets
// the one before it. Layers are locked.
func (s *Session) keep(w *work) error {
	layers := string(s.policy.Layers)
	before, kept := lastOf(s.policy.Layers), landedPrefix+filepath.Base(w.dir)
	for _, l := range w.layers { // an undo needs the lists, also after a crash of the machine
		if err := durable.SyncFiles(l.Store); err != nil {
			return err
		}
	}
	if err := durable.SyncFiles(w.dir); err != nil {
		return err
	}
	// Whoever is killed between finds either the name or the work itself.
	last := filepath.Join(layers, lastName)
	if err := replace(last, []byte(kept)); err != nil {
		return err
	}
	if err := durable.Rename(w.dir, filepath.Join(layers, kept)); err != nil {
		return errors.Join(err, replace(last, []byte(before)))
	}
	defer w.held.Close()
	w.dir = filepath.Join(layers, kept)
	for i := range w.layers {
		w.layers[i].Store = filepath.Join(w.dir, strconv.Itoa(i))
	}
	if was, err := workAt(filepath.Join(layers, before)); err == nil && before != kept && !undoing(was.dir) {
		was.undecide()
		s.forget(was) // what is left of it the next golem removes
	}
	return nil
}
