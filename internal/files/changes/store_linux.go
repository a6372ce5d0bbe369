package changes

import (
	"cmp"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/golem-forge/golem/internal/files/claim"
	"github.com/golem-forge/golem/internal/files/durable"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/people/visible"
)

// A store is the directory with the records of transactions, and a helper to work on
// them.
type store struct {
	dir    string
	helper *helper
}

// newRecord makes a record for changes in directories. It makes a new store for each layer.
func (st *store) newRecord(layers []overlay.Overlay, targets []string, number int) (*record, error) {
	dir, err := st.newDirectory(number)
	if err != nil {
		return nil, err
	}
	w := &record{store: st, dir: dir, layers: layers, targets: targets}
	if w.held, err = claim.Hold(w.dir); err != nil {
		return nil, err
	}
	for i := range layers {
		layers[i].Store = filepath.Join(w.dir, strconv.Itoa(i))
		if err = layers[i].Init(); err != nil {
			break
		}
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

// newDirectory makes a directory with a name that no record of this process has, applied
// records included.
func (st *store) newDirectory(number int) (string, error) {
	for ; ; number++ {
		name := claim.Name(number)
		dir := filepath.Join(st.dir, name)
		err := os.Mkdir(dir, 0o700)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		if _, err := os.Lstat(filepath.Join(st.dir, appliedPrefix+name)); err != nil {
			return dir, nil
		}
		os.Remove(dir)
	}
}

// list makes a transaction of the changes in a record. It returns nil if there are none.
func (st *store) list(w *record) (t *Transaction, err error) {
	defer func() {
		if err != nil { // the record cannot be applied
			st.remove(w)
		}
	}()
	t = &Transaction{store: st, record: w}
	for i, l := range w.layers {
		if entries, err := os.ReadDir(l.UpperDir()); err == nil && len(entries) == 0 {
			continue
		}
		got, err := st.helper.ask(request{Do: listRecord, Layer: l})
		if err != nil {
			return nil, err
		}
		if err := t.add(i, got); err != nil {
			return nil, err
		}
	}
	if len(t.Changes) == 0 && len(t.Clash) == 0 && t.Unfit == "" {
		return nil, st.remove(w)
	}
	return t, nil
}

// add adds the changes in an overlay of the record, which a helper has listed.
func (t *Transaction) add(i int, got reply) error {
	target := t.record.targets[i]
	t.Unfit = cmp.Or(t.Unfit, got.Unfit)
	for _, name := range got.Clash {
		t.Clash = append(t.Clash, path.Join(target, name))
	}
	list, err := readChanges(t.record.layers[i])
	for _, c := range list {
		t.Changes = append(t.Changes, Change{PathChange: c, Target: target, layer: i})
	}
	return err
}

// remove removes a record. It fails if the record is decided, or if changes are applied
// that were not undone. Then the record still holds files that are needed to complete or
// undo it.
func (st *store) remove(w *record) error {
	defer w.held.Close()
	applied := strings.HasPrefix(filepath.Base(w.dir), appliedPrefix)
	if !applied && w.isStarted() || w.isDecided() {
		return errors.New("it is being applied")
	}
	for _, l := range w.layers {
		if l.Remove() != nil {
			if _, err := st.helper.ask(request{Do: removeRecord, Layer: l}); err != nil {
				return err
			}
		}
	}
	return os.RemoveAll(w.dir)
}

// abort undoes the applied part of a record, and decides that golem applies none of it.
// It returns the names of files that others changed after that, and keeps those files.
func (st *store) abort(w *record) (stayed []string, err error) {
	if err := w.undecide(); err != nil {
		return nil, err
	}
	stayed, err = st.each(w, abortRecord)
	if errors.Is(err, jail.ErrEnded) {
		err = withHelper(func(h *helper) (err error) {
			stayed, err = (&store{st.dir, h}).each(w, abortRecord)
			return errors.Join(err, (&store{st.dir, h}).giveBack(w, nil))
		})
		return stayed, err
	}
	return stayed, errors.Join(err, st.giveBack(w, nil))
}

// discard discards the changes of a session that a record names, and last what else it names, so
// that no failed discard loses that. If rest is set, some of
// them may be discarded already.
func (st *store) discard(w *record, rest bool) error {
	for _, d := range w.discards {
		if _, err := st.helper.ask(request{Do: discardChanges, Layer: d.Layer, Paths: d.Paths, Rest: rest}); err != nil {
			return err
		}
	}
	for _, name := range w.removes {
		if err := removeWhole(filepath.Join(filepath.Dir(w.discards[0].Layer.Store), name)); err != nil {
			return err
		}
	}
	return nil
}

// removeWhole removes a file or directory at once, if it exists. Parts of a directory can stay
// under another name: a program may have made them unreadable.
func removeWhole(name string) error {
	old := name + "-" + strings.ToLower(rand.Text()[:6])
	if err := durable.Rename(name, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return visible.FileError("the "+filepath.Base(name)+" of the session", err)
	}
	os.RemoveAll(old)
	return nil
}

// take moves files out of the session that stayed there until now. It returns the names of
// files that have changed since.
func (st *store) take(w *record) (clash []string, err error) {
	for _, i := range w.inPlace() {
		got, err := st.helper.ask(request{Do: takeChanges, Layer: w.of[i], To: w.layers[i]})
		if err != nil {
			return nil, err
		}
		for _, name := range got.Clash {
			clash = append(clash, path.Join(w.targets[i], name))
		}
	}
	return clash, nil
}

// transfer returns the transfer of files from the session to an overlay of the record.
func (w *record) transfer(i int) overlay.Transfer {
	return overlay.Transfer{Session: w.of[i], To: w.layers[i]}
}

// inPlace returns the numbers of the overlays of a record that take files from the
// session, if the session still exists.
func (w *record) inPlace() (list []int) {
	for i, l := range w.of {
		paths, damaged := w.transfer(i).Paths()
		if _, err := os.Lstat(l.Store); err == nil && (len(paths) > 0 || damaged != nil) {
			list = append(list, i)
		}
	}
	return list
}

// holdsTaken reports whether a record holds files that it took from the session.
func (w *record) holdsTaken() bool {
	return slices.ContainsFunc(w.inPlace(), func(i int) bool { return w.transfer(i).HoldsTaken() })
}

// giveBack moves files back into the session that take moved out of it: those at or below
// names, or all if names is nil. The helper of a killed golem takes none any more.
func (st *store) giveBack(w *record, names []string) error {
	for _, i := range w.inPlace() {
		paths := pathsIn(w.targets, i, names)
		if names != nil && len(paths) == 0 {
			continue
		}
		if _, err := st.helper.ask(request{Do: returnChanges, Layer: w.of[i], To: w.layers[i], Paths: paths}); err != nil {
			return err
		}
	}
	return nil
}

// giveBackAlone is giveBack while nobody works on the session.
func (st *store) giveBackAlone(w *record, names []string) error {
	list := w.inPlace()
	if len(list) == 0 {
		return nil
	}
	session := &Overlays{dir: filepath.Dir(w.of[list[0]].Store)}
	return session.alone(func() error { return st.giveBack(w, names) })
}

// eachPicked makes a request for every overlay of the session from which a record has picked
// changes: settleChanges removes the applied ones, and unpickChanges marks all as not applied.
func (st *store) eachPicked(w *record, do string) error {
	for i, paths := range w.picked {
		if len(paths) == 0 {
			continue
		}
		if err := writeList(w.layers[i], picksName, paths); err != nil {
			return err
		}
		if _, err := st.helper.ask(request{Do: do, Layer: w.of[i], To: w.layers[i]}); err != nil {
			return err
		}
	}
	return nil
}

// each makes a request for every overlay of a record that has changes. It returns the
// names of files that others have changed.
func (st *store) each(w *record, do string) (clash []string, err error) {
	return st.eachWith(w, request{Do: do})
}

// eachWith is each for a request with more in it.
func (st *store) eachWith(w *record, r request) (clash []string, err error) {
	for i, l := range w.layers {
		if _, err := os.Lstat(filepath.Join(l.Store, changesName)); err != nil {
			continue // the overlay has no changes
		}
		r.Layer = l
		got, err := st.helper.ask(r)
		if err != nil {
			return nil, err
		}
		for _, name := range got.Clash {
			clash = append(clash, path.Join(w.targets[i], name))
		}
	}
	return clash, nil
}

// lastName is a file of the store with the name of the last applied record.
const lastName = "last"

// appliedPrefix is the prefix of the name of an applied record.
const appliedPrefix = "applied-"

// lastIn returns the name of the last applied record, "" if there is none.
func lastIn(dir string) string {
	name, _ := readLast(dir)
	return name
}

// readLast is lastIn for callers that must know whether the name can be read.
func readLast(dir string) (string, error) {
	name, err := os.ReadFile(filepath.Join(dir, lastName))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil || filepath.Base(string(name)) != string(name) {
		return "", err
	}
	return string(name), nil
}

// remember makes an applied record the last one, and removes the oldest ones if there are
// too many. The caller has locked the store.
func (st *store) remember(w *record) error {
	before, kept := lastIn(st.dir), appliedPrefix+filepath.Base(w.dir)
	if before != kept { // otherwise golem was killed after this
		if err := w.link(before); err != nil {
			return err
		}
	}
	for _, l := range w.layers { // an undo needs the lists, even after a crash of the machine
		if err := durable.SyncFiles(l.Store); err != nil {
			return err
		}
	}
	if err := durable.SyncFiles(w.dir); err != nil {
		return err
	}
	// If golem is killed in between, the next one finds the record under its old name.
	last := filepath.Join(st.dir, lastName)
	if err := replaceFile(last, []byte(kept)); err != nil {
		return err
	}
	if err := durable.Rename(w.dir, filepath.Join(st.dir, kept)); err != nil {
		return errors.Join(err, replaceFile(last, []byte(before)))
	}
	defer w.held.Close()
	w.dir = filepath.Join(st.dir, kept)
	for i := range w.layers {
		w.layers[i].Store = filepath.Join(w.dir, strconv.Itoa(i))
	}
	st.trim()
	return nil
}

// undo undoes a whole record and removes it. It returns the names of files that changed
// meanwhile, and keeps those files. The record then stays, with their changes only. If undo
// cannot remove the record, the next golem does that.
func (st *store) undo(w *record, o *Overlays) (stayed []string, err error) {
	if stayed, err = st.eachWith(w, request{Do: undoRecord, Older: st.older(filepath.Base(w.dir))}); err != nil {
		return nil, err
	}
	if err := st.restore(w, o); err != nil {
		return nil, err
	}
	if len(stayed) > 0 {
		return stayed, w.keepLeft()
	}
	if err := st.unlink(filepath.Base(w.dir)); err != nil {
		return nil, err
	}
	if err := w.endUndo(); err != nil {
		return nil, err
	}
	if w.undecide() == nil {
		st.remove(w)
	}
	return nil, nil
}

// keepLeft makes a record of which a part is undone one of the other part.
func (w *record) keepLeft() error {
	for i, l := range w.layers {
		paths := overlay.LeftPaths(l)
		if i < len(w.picked) && len(w.picked[i]) > 0 {
			w.picked[i] = paths
		}
		list, err := readChanges(l)
		if err != nil {
			return err
		}
		set := make(map[string]bool)
		for _, p := range paths {
			set[p] = true
		}
		isLeft := overlay.AtOrBelow(func(name string) bool { return set[name] })
		list = slices.DeleteFunc(list, func(c overlay.PathChange) bool { return !isLeft(c.Path) })
		if len(list) > 0 {
			err = writeChanges(l, list)
		} else if err = os.Remove(filepath.Join(l.Store, changesName)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if err = errors.Join(err, overlay.EndUndo(l)); err != nil {
			return err
		}
	}
	if err := w.describe(); err != nil {
		return err
	}
	return w.endUndo()
}

// restore puts the undone changes of a record back into the session that they came from,
// if that session still exists.
func (st *store) restore(w *record, o *Overlays) error {
	for i, l := range w.of {
		if _, err := os.Lstat(l.Store); err != nil || len(w.picked[i]) == 0 {
			continue
		}
		if o == nil || o.dir != filepath.Dir(l.Store) {
			o = &Overlays{dir: filepath.Dir(l.Store)}
		}
		err := o.alone(func() error {
			_, err := st.helper.ask(request{Do: restoreChanges, Layer: l, To: w.layers[i]})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
