package session

import (
	"slices"
	"time"

	"github.com/golem-forge/golem/internal/project"
	"github.com/golem-forge/golem/internal/strictyaml"
	"github.com/golem-forge/golem/internal/undo"
	"github.com/golem-forge/golem/sandbox"
)

// SettingsFor returns mounts as settings of a project file. Messages about them name the
// mount and not a flag: without a flag, golem mounts the current directory.
func SettingsFor(mounts []Mount) []project.Setting {
	var settings []project.Setting
	list := strictyaml.Node{Kind: strictyaml.List}
	for _, m := range mounts {
		place := strictyaml.Place{Source: "the directory at " + m.Target}
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
// zero time for never. Calls holds those of file tools.
func (s Store) LastChange(calls *undo.Store) time.Time {
	applied, called := s.LastApplied(), calls.Newest()
	if called.After(applied) {
		return called
	}
	return applied
}

// UndoMounts returns the directories that the last of these changes was made in.
func (s Store) UndoMounts(calls *undo.Store) (mounts []Mount, err error) {
	add := func(source, target string) {
		if !slices.ContainsFunc(mounts, func(m Mount) bool { return m.Target == target }) {
			mounts = append(mounts, Mount{Source: source, Target: target, Mode: sandbox.ReadWrite.String()})
		}
	}
	if calls.Newest().After(s.LastApplied()) {
		steps, err := calls.Steps()
		if err != nil || len(steps) == 0 {
			return nil, err
		}
		for _, m := range steps[0].Mounts {
			add(m.Dir, m.Target)
		}
		return mounts, nil
	}
	applied, err := s.AppliedMounts()
	if err != nil {
		return nil, err
	}
	for _, over := range applied {
		add(string(over.Host), over.Target)
	}
	return mounts, nil
}
