package changes

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/golem-forge/golem/internal/files/durable"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// A Recorder records the changes of commands in a directory of golem's. It implements
// jail.Recorder.
type Recorder struct{ Dir sandbox.Host }

// Prepare implements jail.Recorder.
func (r Recorder) Prepare(h *jail.Helper, mounts []jail.Mount, number int) (jail.Record, error) {
	var layers []overlay.Overlay
	var targets []string
	for _, m := range mounts {
		if !m.NeedsOverlay() {
			continue
		}
		device, inode, err := m.Identity()
		if err != nil {
			return nil, err
		}
		layers = append(layers, overlay.Overlay{Dir: string(m.Source), Device: device, Inode: inode})
		targets = append(targets, jail.Outside(m.Target))
	}
	w, err := (&store{dir: string(r.Dir), helper: &helper{h}}).newRecord(layers, targets, number)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// A record is a directory with the changes of one transaction. It has an overlay for each
// writable directory. It implements jail.Record.
type record struct {
	store   *store // the store that made the record, nil for a record that was found
	dir     string
	layers  []overlay.Overlay
	targets []string // the target of each overlay in the sandbox
	held    *os.File // locked while the record is in use

	of     []overlay.Overlay // the overlays of the session that the changes came from
	picked [][]string        // the picked paths of each

	discards []discarded // the changes that golem discards, if it has decided that
	removes  []string    // names in the directory of the session that it removes after them
}

// Stores implements jail.Record.
func (w *record) Stores() []string {
	var list []string
	for _, l := range w.layers {
		list = append(list, l.Store)
	}
	return list
}

// Start implements jail.Record.
func (w *record) Start() error {
	for _, l := range w.layers {
		if err := l.MarkStart(); err != nil {
			return err
		}
	}
	return nil
}

// Discard implements jail.Record.
func (w *record) Discard() error { return w.store.remove(w) }

// description is the content of a file about a record, or about the overlays of a
// session.
type description struct {
	Layers   []overlay.Overlay
	Targets  []string          // the target of each layer in the sandbox
	Session  []overlay.Overlay `json:",omitempty"` // of a record: the layers of the session that the changes come from
	Picked   [][]string        `json:",omitempty"` // of a record: the picked paths of each
	Discards []discarded       `json:",omitempty"`
	Removes  []string          `json:",omitempty"` // of a discard: what else of the session goes with the changes
}

// discarded are the paths that golem discards in an overlay of a session.
type discarded struct {
	Layer overlay.Overlay
	Paths []string
}

// descriptionName is the name of that file.
const descriptionName = "about.json"

// find returns the index of the overlay over a directory, or -1.
func (d description) find(o Directory) int {
	for i, l := range d.Layers {
		if l.Dir == string(o.Host) && d.Targets[i] == o.Target {
			return i
		}
	}
	return -1
}

// readDescription reads the description in a directory.
func readDescription(dir string) (d description, err error) {
	data, err := os.ReadFile(filepath.Join(dir, descriptionName))
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(data, &d); err != nil || len(d.Layers) != len(d.Targets) {
		return d, fmt.Errorf("%s: not as it was written", descriptionName)
	}
	return d, nil
}

// write writes the description. It omits devices and inodes, because the user may replace
// a directory before golem reads the description.
func (d description) write(dir string) error {
	d.Layers = slices.Clone(d.Layers)
	for i := range d.Layers {
		d.Layers[i].Device, d.Layers[i].Inode = 0, 0
	}
	data, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(dir, descriptionName), data)
}

// replaceFile replaces a file of the state directory.
func replaceFile(name string, data []byte) error { return durable.WriteAlone(name, data, 0o600) }

// describe writes the description of a record.
func (w *record) describe() error {
	return description{w.layers, w.targets, w.of, w.picked, w.discards, w.removes}.write(w.dir)
}

// readRecord reads a record, which may have been moved since it was described.
func readRecord(dir string) (*record, error) {
	d, err := readDescription(dir)
	for i := range d.Layers {
		d.Layers[i].Store = filepath.Join(dir, strconv.Itoa(i))
	}
	return &record{dir: dir, layers: d.Layers, targets: d.Targets, of: d.Session, picked: d.Picked, discards: d.Discards, removes: d.Removes}, err
}

// decidedName is a file in a record. It says that golem applies all changes of the
// record.
const decidedName = "decided"

func (w *record) decide() error {
	return durable.WriteAlone(filepath.Join(w.dir, decidedName), nil, 0o600)
}

func (w *record) undecide() error {
	err := os.Remove(filepath.Join(w.dir, decidedName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// isDecided reports whether golem is to apply the changes of a record, or has applied
// them.
func (w *record) isDecided() bool {
	_, err := os.Lstat(filepath.Join(w.dir, decidedName))
	return err == nil
}

// undoingName is a file in a record. It says that golem is undoing the whole record.
const undoingName = "undoing"

// isUndoing reports whether the record in a directory is being undone.
func isUndoing(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, undoingName))
	return err == nil
}

// endUndo records that the undo of a record is over.
func (w *record) endUndo() error {
	if err := os.Remove(filepath.Join(w.dir, undoingName)); err != nil {
		return err
	}
	return durable.SyncDir(w.dir)
}

// skip writes down which changes of a record golem skips.
func (w *record) skip(names []string) error {
	for i, l := range w.layers {
		if err := writeList(l, skippedName, pathsIn(w.targets, i, names)); err != nil {
			return err
		}
	}
	return nil
}

// skipMore adds to the changes that golem skips.
func (w *record) skipMore(names []string) error {
	for i, l := range w.layers {
		skipped, err := readList[string](l, skippedName)
		if err != nil {
			return err
		}
		if err := writeList(l, skippedName, append(skipped, pathsIn(w.targets, i, names)...)); err != nil {
			return err
		}
	}
	return nil
}

// appliesAny reports whether golem applies a change of a record.
func (w *record) appliesAny() (bool, error) {
	for _, l := range w.layers {
		if list, err := readApplicable(l); err != nil || len(list) > 0 {
			return true, err
		}
	}
	return false, nil
}

// readApplicable returns the changes of an overlay of a record, without those that golem skips.
func readApplicable(l overlay.Overlay) ([]overlay.PathChange, error) {
	list, err := readChanges(l)
	if err != nil {
		return nil, err
	}
	skipped, err := readList[string](l, skippedName)
	return overlay.Applicable(list, skipped), err
}
