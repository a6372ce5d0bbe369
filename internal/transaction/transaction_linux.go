package transaction

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/overlay"
	"github.com/golem-forge/golem/sandbox"
)

// Finish returns the result of a command of a jail.Session with what the command changed.
func Finish(r jail.Result, err error) (Result, error) {
	got := Result{Result: r}
	if w, ok := r.Record.(*record); ok {
		var failed error
		if got.Changed, failed = w.store.list(w); failed != nil {
			return got, failed
		}
	}
	return got, err
}

// Apply brings the changes into the directories, except those at or below the names to
// skip, which are as commands have them. It returns the names that others have changed
// meanwhile: then nothing is applied.
func (t *Transaction) Apply(skip []string) (clash []string, err error) {
	st, w := t.store, t.record
	unlock, err := lockDirectory(st.dir)
	if err != nil {
		return nil, err
	}
	defer unlock.Close()
	// Transactions that a killed golem left come first: they were decided before.
	if _, err := st.recoverAll(); err != nil {
		return nil, err
	}
	if err := w.skip(skip); err != nil {
		return nil, err
	}
	clash, err = st.each(w, prepareRecord)
	if err == nil && len(clash) == 0 {
		// From here on it is applied, whoever is killed.
		if err = w.decide(); err == nil {
			clash, err = st.each(w, finishRecord)
		}
	}
	if err == nil && len(clash) == 0 {
		if _, err = st.each(w, clearRecord); err == nil {
			err = st.remember(w)
		}
		// If it cannot be taken back any more it is applied: the next golem does the rest.
		if err == nil || slices.ContainsFunc(w.layers, overlay.Overlay.IsFinal) {
			if t.settle != nil {
				t.settle() // if it fails, the overlays have what the directories have, which is no change
			}
			return nil, nil
		}
	}
	stayed, left := st.abort(w)
	if left != nil {
		return nil, &sandbox.Error{Op: "shell", Code: sandbox.ErrInternal,
			Hint: "the changes could not be brought in, and those that were could not be taken back: " + jail.Plain(errors.Join(err, left)) + "; golem takes them back when it is started next"}
	}
	return append(clash, stayed...), err
}

// Discard gives the changes up.
func (t *Transaction) Discard() error {
	if t.unpick != nil {
		if err := t.unpick(); err != nil {
			return err
		}
	}
	return t.store.remove(t.record)
}

// Content returns what a changed file holds, and held before. A file that does not exist
// is nil.
func (t *Transaction) Content(c Change, most int64) (old, new []byte, err error) {
	l, err := t.layer(c)
	if err != nil {
		return nil, nil, err
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

// layer returns the overlay that has a change. Without one the error is fs.ErrNotExist.
func (t *Transaction) layer(c Change) (overlay.Overlay, error) {
	i := slices.Index(t.record.targets, c.Target)
	if i < 0 {
		return overlay.Overlay{}, fs.ErrNotExist
	}
	return t.record.layers[i], nil
}

// Walk calls visit with everything in a directory that was deleted or replaced, as commands
// name it, until visit returns false.
func (t *Transaction) Walk(c Change, visit func(inside string) bool) error {
	l, err := t.layer(c)
	if err != nil {
		return err
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

// Exists reports whether a name, as the file tools have it, is in a directory of the
// transaction before it is applied.
func (t *Transaction) Exists(name string) bool {
	if t.record == nil {
		return false
	}
	var file, in string
	for i, l := range t.record.layers {
		target := jail.Outside(t.record.targets[i])
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

// Open opens a changed file, with the content that it has after the change.
func (t *Transaction) Open(c Change) (*os.File, error) {
	l, err := t.layer(c)
	if err != nil {
		return nil, err
	}
	return overlay.OpenFile(l.UpperDir(), c.Path)
}

// Hash returns a digest of the content that Open returns, "" if it cannot be read.
func (t *Transaction) Hash(c Change) string {
	f, err := t.Open(c)
	return overlay.Digest(f, err)
}
