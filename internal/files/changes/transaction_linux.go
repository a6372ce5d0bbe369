package changes

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// Finish adds the changes of a command to its result from jail.Session.
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

// Apply applies the changes to the directories. It skips changes at or below the names in
// skip. If others have changed files meanwhile, Apply returns their names and applies
// nothing.
func (t *Transaction) Apply(skip []string) (clash []string, err error) {
	t.readers.close()
	unlock, err := lockDirectory(t.store.dir)
	if err != nil {
		return nil, err
	}
	defer unlock.Close()
	// First complete the transactions of a killed golem, which were decided before.
	if _, err := t.store.recoverAll(); err != nil {
		return nil, err
	}
	if t.alone == nil {
		return t.apply(skip)
	}
	err = t.alone(func() error {
		clash, err = t.apply(skip)
		return err
	})
	if errors.Is(err, ErrBusy) {
		err = &sandbox.Error{Op: "apply_changes", Code: sandbox.ErrConflict, Hint: "another golem process is using the session; nothing was applied; try again when its call has ended"}
	}
	return clash, err
}

// apply is Apply for a locked store.
func (t *Transaction) apply(skip []string) (clash []string, err error) {
	defer t.reportProgress()()
	st, w := t.store, t.record
	if err := w.skip(skip); err != nil {
		return nil, err
	}
	clash, err = st.take(w)
	if err == nil && len(clash) == 0 {
		clash, err = st.each(w, prepareRecord)
	}
	if err == nil && len(clash) == 0 {
		// After decide, a golem that is started next completes the transaction.
		if err = w.decide(); err == nil {
			clash, err = st.each(w, finishRecord)
		}
	}
	if err == nil && len(clash) == 0 {
		if _, err = st.each(w, clearRecord); err == nil {
			err = st.remember(w)
		}
		// If it can no longer be undone, it counts as applied. The next golem does the
		// rest.
		if err == nil || slices.ContainsFunc(w.layers, overlay.Overlay.IsFinal) {
			if t.settle != nil {
				t.settle() // if it fails, the overlays have the same content as the directories, which is no change
			}
			return nil, nil
		}
	}
	stayed, left := st.abort(w)
	if left != nil {
		return nil, &sandbox.Error{Op: "shell", Code: sandbox.ErrInternal,
			Hint: "golem could not apply the changes, and could not undo those that it had applied: " + jail.Plain(errors.Join(err, left)) + "; golem undoes them at its next start"}
	}
	return append(clash, stayed...), err
}

// whyFinal is the reason why golem could not undo changes.
const whyFinal = "the state directory is on another file system"

// WhyFinal says why the changes cannot be undone after Apply, "" if they can.
func (t *Transaction) WhyFinal() string {
	for i, l := range t.record.layers {
		if slices.ContainsFunc(t.Changes, func(c Change) bool { return c.layer == i }) && !overlay.CanUndo(l) {
			return whyFinal
		}
	}
	return ""
}

// Discard discards the changes.
func (t *Transaction) Discard() error {
	t.readers.close()
	discard := func(st *store) error {
		if t.unpick != nil {
			if err := t.unpick(st); err != nil {
				return err
			}
		}
		return st.remove(t.record)
	}
	err := discard(t.store)
	if errors.Is(err, jail.ErrEnded) { // that may be why golem discards the changes
		err = withHelper(func(h *helper) error { return discard(&store{t.store.dir, h}) })
	}
	return err
}

// Content returns the content of a changed file before and after the change. It is nil if
// the file did not or does not exist.
func (t *Transaction) Content(c Change, most int64) (old, new []byte, err error) {
	l := t.record.layers[c.layer]
	if c.OldKind == overlay.File {
		if old, err = l.ReadReal(c.Path, most); err != nil {
			return nil, nil, err
		}
	}
	if c.Kind == overlay.File {
		r, err := t.reader(c)
		if err != nil {
			return nil, nil, err
		}
		if new, err = r.ReadFile(c.Path, most); err != nil {
			return nil, nil, err
		}
	}
	return old, new, nil
}

// reader returns a reader of the directory that has the changed file: the session's
// overlay until Apply takes the file from it, or that of the record.
func (t *Transaction) reader(c Change) (*overlay.Reader, error) {
	dir := t.record.layers[c.layer].UpperDir()
	if c.layer < len(t.inPlace) && t.inPlace[c.layer][c.Top()] {
		dir = t.record.of[c.layer].UpperDir()
	}
	return t.readers.open(dir)
}

func (t *Transaction) oldFiles(c *Change, left *int) []OldFile {
	return t.readers.oldFiles(t.record.layers[c.layer].Dir, c, left)
}

// readers are open directories, by their paths.
type readers struct{ all map[string]*overlay.Reader }

// open returns the reader of a directory.
func (r *readers) open(dir string) (one *overlay.Reader, err error) {
	if one = r.all[dir]; one != nil {
		return one, nil
	}
	if one, err = overlay.OpenReader(dir); err != nil {
		return nil, err
	}
	if r.all == nil {
		r.all = make(map[string]*overlay.Reader)
	}
	r.all[dir] = one
	return one, nil
}

// oldFiles lists the files and symlinks of the user's directory dir at the path of a change that
// deletes or replaces it. It counts left down for each name, with those of directories, and
// stops at 0.
func (r *readers) oldFiles(dir string, c *Change, left *int) (list []OldFile) {
	one, err := r.open(dir)
	if err != nil {
		return nil
	}
	one.Walk(c.Path, func(s overlay.State) bool {
		if s.Kind != overlay.Dir {
			list = append(list, OldFile{relative(c.Path, s.Path), s.Kind, s.Mode, s.Size, c})
		}
		*left--
		return *left > 0
	})
	return list
}

func (r *readers) close() {
	for _, one := range r.all {
		one.Close()
	}
	r.all = nil
}

// Walk calls visit for every name in a deleted or replaced directory, until visit returns
// false.
func (t *Transaction) Walk(c Change, visit func(name string, d fs.DirEntry) bool) error {
	top := filepath.Join(t.record.layers[c.layer].Dir, c.Path)
	return filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name != top && !visit(path.Join(c.Name(), strings.TrimPrefix(name, top)), d) {
			return fs.SkipAll
		}
		return nil
	})
}

// IsChangedSince reports whether a file was changed, or moved to its name, at or after a time in
// nanoseconds.
func IsChangedSince(info fs.FileInfo, since int64) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return !ok || st.Ctim.Nano() >= since
}

// Exists reports whether a name exists in a directory of the transaction before Apply.
func (t *Transaction) Exists(name string) bool {
	if t.record == nil {
		return false
	}
	for i, l := range t.record.layers {
		if rel, ok := pathIn(t.record.targets, i, name); ok {
			_, err := os.Lstat(filepath.Join(l.Dir, rel))
			return err == nil
		}
	}
	return false
}

// Open opens a changed file, with the content that it has after the change.
func (t *Transaction) Open(c Change) (*os.File, error) {
	r, err := t.reader(c)
	if err != nil {
		return nil, err
	}
	return r.Open(c.Path)
}
