package session

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/files/undo"
	"github.com/golem-forge/golem/internal/records/state"
)

// An UndoStep is a change that golem undo can undo when everything after it is undone.
type UndoStep struct {
	At      time.Time `json:"at"`
	Tool    string    `json:"tool,omitempty"`    // the file tool that made it
	Session string    `json:"session,omitempty"` // the session that it was applied from
	Name    string    `json:"name,omitempty"`    // the name of this session
	Command string    `json:"command,omitempty"` // the program that started this session
	Files   []string  `json:"files"`             // the topmost names that it changed
	Problem string    `json:"problem,omitempty"` // why it cannot be undone

	// Mounts are the directories that it was made in. They may be others than those of the
	// program now.
	Mounts []Mount `json:"-"`
}

// UndoSteps returns the changes that can be undone, the last one first.
func (s Sessions) UndoSteps() ([]UndoStep, error) {
	if err := state.CheckOwner(s.State); err != nil {
		return nil, fmt.Errorf("undo: %w", err)
	}
	Recover(s)
	applied, err := changes.History(s.pending().dir)
	if err != nil {
		return nil, stateError("undo", err)
	}
	var list []UndoStep
	for _, a := range applied {
		list = append(list, s.appliedStep(a))
	}
	steps, err := undo.Open(s.State).Steps()
	if err != nil {
		return nil, err
	}
	for _, st := range skipEmpty(steps, s.pending().lastApplied()) {
		u := UndoStep{At: st.SavedAt(), Tool: st.Tool, Files: undo.Topmost(st.Names()), Problem: st.Impossible}
		for _, m := range st.Mounts {
			u.Mounts = append(u.Mounts, Mount{Source: m.Dir, Target: m.Target})
		}
		list = append(list, u)
	}
	slices.SortStableFunc(list, func(a, b UndoStep) int { return b.At.Compare(a.At) })
	return list, nil
}

// UndoSession returns the session from which the change was applied that golem undo undoes
// next, "" if it came from none.
func (s Sessions) UndoSession() string {
	steps, err := s.UndoSteps()
	if err != nil || len(steps) == 0 {
		return ""
	}
	return steps[0].Session
}

func (s Sessions) appliedStep(a *changes.AppliedTransaction) UndoStep {
	u := UndoStep{At: a.At(), Files: []string{}, Problem: a.WhyFinal()}
	if dir := string(a.Session()); dir != "" {
		u.Session = filepath.Base(dir)
		if one, err := s.at(u.Session); err == nil {
			u.Name, u.Command = one.Name, one.Command
		}
	}
	for _, d := range a.Directories() {
		u.Mounts = append(u.Mounts, Mount{Source: string(d.Host), Target: d.Target})
	}
	for _, c := range a.Changes {
		if c.NewDir == "" {
			u.Files = append(u.Files, c.Name())
		}
	}
	return u
}
