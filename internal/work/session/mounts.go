package session

import (
	"fmt"
	"slices"
	"time"

	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/files/undo"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// SettingsFor returns mounts as settings of a project file. Messages about them name the
// mount and not a flag: without a flag, golem mounts the current directory.
func SettingsFor(mounts []Mount) []project.Setting {
	var settings []project.Setting
	list := strictyaml.Node{Kind: strictyaml.List}
	for _, m := range mounts {
		place := strictyaml.Place{Source: project.MountPlace + m.Target}
		word := func(text string) strictyaml.Node {
			return strictyaml.Node{Place: place, Kind: strictyaml.Scalar, Text: text}
		}
		if m.Target == "/" {
			settings = append(settings, project.Setting{Keys: []string{"sandbox", "root"}, Value: word(m.Source)},
				project.Setting{Keys: []string{"sandbox", "mode"}, Value: word(m.Mode)})
			continue
		}
		each := strictyaml.Node{Place: place, Kind: strictyaml.Map}
		each = each.Set([]string{"source"}, word(m.Source)).Set([]string{"target"}, word(m.Target)).Set([]string{"mode"}, word(m.Mode))
		list.Place, list.Items = place, append(list.Items, each)
	}
	if len(list.Items) > 0 {
		settings = append(settings, project.Setting{Keys: []string{"sandbox", "mounts"}, Value: list})
	}
	return settings
}

// LastChange returns when changes were last applied, or made by a file tool directly; the
// zero time for never.
func (s Sessions) LastChange() time.Time {
	Recover(s)
	applied := s.pending().lastApplied()
	if steps := stepsAfter(s.State, applied); len(steps) > 0 {
		return steps[0].SavedAt()
	}
	return applied
}

// stepsAfter returns the calls of file tools after a time, the last one first. It begins with
// one that has something to undo. dir is the state directory.
func stepsAfter(dir string, applied time.Time) []*undo.Step {
	steps, _ := undo.Open(dir).Steps()
	steps = skipEmpty(steps, applied)
	if len(steps) > 0 && !steps[0].SavedAt().After(applied) {
		return nil
	}
	return steps
}

// skipEmpty returns steps without the first ones that have nothing to undo, as far as they
// were saved after a time.
func skipEmpty(steps []*undo.Step, applied time.Time) []*undo.Step {
	for len(steps) > 0 && steps[0].SavedAt().After(applied) && isEmpty(steps[0]) {
		steps = steps[1:]
	}
	return steps
}

// isEmpty reports whether a call changed nothing in its directories, or is undone.
func isEmpty(step *undo.Step) bool {
	files, err := mountsOf(step)
	return err == nil && step.Plan(files).IsEmpty()
}

// mountsOf returns the directories in which a call changed something. A call whose step is
// damaged has none. The error says that a directory is gone.
func mountsOf(step *undo.Step) (*sandbox.Sandbox, error) {
	var c sandbox.Config
	for _, m := range step.Mounts {
		c.Mounts = append(c.Mounts, sandbox.Mount{Source: sandbox.Host(m.Dir), Target: m.Target, Access: sandbox.ReadOnly})
	}
	return sandbox.New(c)
}

// UndoMounts returns the directories that the last of these changes was made in.
func (s Sessions) UndoMounts() (mounts []Mount, err error) {
	add := func(source, target string) {
		if !slices.ContainsFunc(mounts, func(m Mount) bool { return m.Target == target }) {
			mounts = append(mounts, Mount{Source: source, Target: target, Mode: sandbox.ReadWrite.String()})
		}
	}
	if err := state.CheckOwner(s.State); err != nil {
		return nil, fmt.Errorf("undo: %w", err)
	}
	Recover(s)
	for _, step := range stepsAfter(s.State, s.pending().lastApplied()) {
		if _, gone := mountsOf(step); gone != nil || len(step.Mounts) == 0 {
			continue // golem undo reports it and forgets it with the directories of an earlier step
		}
		for _, m := range step.Mounts {
			add(m.Dir, m.Target)
		}
		return mounts, nil
	}
	last, err := changes.Last(s.pending().dir)
	if err != nil {
		return nil, stateError("undo", err)
	}
	for _, over := range last.Directories() {
		add(string(over.Host), over.Target)
	}
	return mounts, nil
}
