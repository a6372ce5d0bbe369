package session

import (
	"path/filepath"

	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/files/undo"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/sandbox"
)

// An Undoer undoes the changes applied last, and the calls of file tools since then.
type Undoer struct {
	workspace *Workspace
	calls     *undo.History    // those of file tools that wrote to files directly
	files     *sandbox.Sandbox // all files of the project
}

// Undoer returns what undoes changes.
func (w *Workspace) Undoer(files *sandbox.Sandbox) *Undoer {
	return &Undoer{w, undo.Open(w.store.State), files}
}

// Last implements changes.Undoer.
func (u *Undoer) Last() (*changes.AppliedTransaction, error) {
	return changes.Last(u.workspace.pending.dir)
}

// Undo implements changes.Undoer.
func (u *Undoer) Undo(l *changes.AppliedTransaction) (back string, conflicts []string, err error) {
	conflicts, err = l.Undo(u.workspace.changes)
	if l.Session() == "" || l.LostSession() != "" {
		return "", conflicts, err
	}
	back = filepath.Base(string(l.Session()))
	if one, wrong := u.workspace.store.at(back); wrong == nil {
		back = naming.Label(one)
	}
	return back, conflicts, err
}

// LastStep implements changes.Undoer.
func (u *Undoer) LastStep() (plan undo.Plan, passed []*undo.Step, ok bool, err error) {
	all, err := u.calls.Steps()
	landed := u.workspace.pending.lastApplied()
	for _, step := range all {
		if !step.SavedAt().After(landed) {
			break
		}
		if plan = step.Plan(u.files); !plan.IsEmpty() && (plan.Elsewhere == "" || !isEmpty(step)) {
			return plan, passed, true, nil
		}
		passed = append(passed, step)
	}
	return undo.Plan{}, passed, false, err
}

// Forget implements changes.Undoer.
func (u *Undoer) Forget(list ...*undo.Step) error {
	for _, step := range list {
		if err := u.calls.Remove(step); err != nil {
			return err
		}
	}
	return nil
}
