package changes

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"

	"github.com/golem-forge/golem/internal/files/claim"
	"github.com/golem-forge/golem/internal/files/durable"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// An AppliedTransaction is a transaction that golem applied to some directories. The last
// one can be undone, and then the one before it.
type AppliedTransaction struct {
	Changes []Change
	dir     string // the directory of the store
	record  *record
	lost    bool // the session that the changes came from was removed
}

// Name returns a name that no other transaction has.
func (a *AppliedTransaction) Name() string {
	if a.record == nil {
		return ""
	}
	return filepath.Base(a.record.dir)
}

// Last returns the last applied transaction whose record is in dir, a directory of
// golem's. If there is none, the error is fs.ErrNotExist.
func Last(dir sandbox.Host) (*AppliedTransaction, error) {
	name, err := readLast(string(dir))
	if err == nil && name == "" {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	return readApplied(string(dir), name)
}

// readApplied reads an applied record.
func readApplied(dir, name string) (*AppliedTransaction, error) {
	w, err := readRecord(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	a := &AppliedTransaction{dir: dir, record: w, lost: w.isSessionLost()}
	for i, l := range w.layers {
		list, err := readApplicable(l)
		if err != nil {
			return nil, err
		}
		for _, c := range list {
			a.Changes = append(a.Changes, Change{PathChange: c, Target: w.targets[i], layer: i})
		}
	}
	return a, nil
}

// Directories returns the directories that the transaction was applied to.
func (a *AppliedTransaction) Directories() []Directory {
	var list []Directory
	for i, l := range a.record.layers {
		list = append(list, Directory{Host: sandbox.Host(l.Dir), Target: a.record.targets[i]})
	}
	return list
}

// WhyFinal says why the transaction cannot be undone, "" if it can.
func (a *AppliedTransaction) WhyFinal() string {
	if slices.ContainsFunc(a.record.layers, overlay.Overlay.IsFinal) {
		return overlay.ErrCannotUndo.Error()
	}
	return ""
}

// Each calls visit for everything that Undo would change. It passes the name, the current
// state and the state before the transaction.
func (a *AppliedTransaction) Each(visit func(name string, now, then overlay.State) error) error {
	for i, l := range a.record.layers {
		var changes []overlay.PathChange
		for _, c := range a.Changes {
			if c.layer == i {
				changes = append(changes, c.PathChange)
			}
		}
		if len(changes) == 0 {
			continue
		}
		err := l.PreviewUndo(changes, func(now, then overlay.State) error {
			return visit(path.Join(a.record.targets[i], now.Path), now, then)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Undo restores the state before the transaction. If files have changed since, Undo
// returns their names and undoes nothing. If the changes came from a session, that
// session has them again, and nobody can remove it meanwhile. If it was removed since the
// transaction was read, Undo returns an error and undoes nothing. o are the overlays of the
// session if this golem has them open, or nil.
func (a *AppliedTransaction) Undo(o *Overlays) (clash []string, err error) {
	locked, err := lockDirectory(a.dir)
	if err != nil {
		return nil, err
	}
	defer locked.Close()
	if lastIn(a.dir) != filepath.Base(a.record.dir) {
		return nil, errors.New("another command has changed something since")
	}
	held, ok := claim.Seize(a.record.dir)
	if !ok {
		return nil, errors.New("another golem is doing it")
	}
	defer held.Close()
	session, err := a.record.holdSession()
	if err != nil {
		return nil, err
	}
	defer session.Close()
	if !a.lost && a.record.isSessionLost() {
		return nil, errors.New("session " + filepath.Base(a.record.session()) + " was removed meanwhile, so that the changes cannot go back into it; golem undo shows what you would lose")
	}
	var stayed []string
	err = withHelper(func(h *helper) (err error) {
		st := &store{a.dir, h}
		if !isUndoing(a.record.dir) {
			if clash, err = st.each(a.record, checkUndo); err != nil || len(clash) > 0 {
				return err
			}
			if err := durable.WriteAlone(filepath.Join(a.record.dir, undoingName), nil, 0o600); err != nil {
				return err
			}
		}
		stayed, err = st.undo(a.record, o)
		return err
	})
	switch {
	case err != nil && isUndoing(a.record.dir):
		return nil, &sandbox.Error{Op: "undo", Code: sandbox.ErrInternal, Hint: jail.Plain(err) + "; a part of it is undone, and golem undoes the rest when it is started next"}
	case len(stayed) > 0:
		return nil, &sandbox.Error{Op: "undo", Code: sandbox.ErrConflict, Hint: "changed during the undo, and left as it is: " + sandbox.Shown(stayed[0]) + fmt.Sprintf("; %d such files, everything else is undone; golem undo --list lists them", len(stayed))}
	}
	return clash, err
}

// Forget makes it impossible to undo the transaction. The one before it can be undone
// next. The next golem removes the files that an undo would have needed.
func (a *AppliedTransaction) Forget() error {
	locked, err := lockDirectory(a.dir)
	if err != nil {
		return err
	}
	defer locked.Close()
	if lastIn(a.dir) != filepath.Base(a.record.dir) {
		return errors.New("another command has changed something since")
	}
	return (&store{dir: a.dir}).unlink(a.Name())
}
