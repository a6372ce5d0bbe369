package audit

import (
	"cmp"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/sandbox"
)

// A Touch is a record of a call that changed a file, applied a change to it, or deleted one.
type Touch struct {
	Record
	File *File `json:"file,omitempty"` // what happened to the file, nil if only the effects say it
	// Line is the command that ran, "" for other calls.
	Line string `json:"command,omitempty"`
}

// A Story is what the journal knows about the changes of a file.
type Story struct {
	Touches []Touch `json:"touches"` // in order
	// Unnamed are records with changed files that they do not name, and commands without an
	// outcome. The file may be one of theirs.
	Unnamed []Record `json:"unnamed,omitempty"`
}

// ReadStory returns the story of a file or directory with any of these names.
func ReadStory(folder *state.Dir, names []string) (s Story, err error) {
	intents := make(map[string]Record) // of commands whose outcome is not known yet
	begun := make(map[string]int)      // the touches that are intents, by call
	err = Read(folder, Filter{}, func(r Record, _ []byte) error {
		call := r.Session + "\x00" + r.Call
		intent := intents[call]
		switch {
		case r.Kind == Intent && r.Command() != "":
			intents[call] = r
		case r.Kind == Outcome:
			delete(intents, call)
		}
		if i, ok := begun[call]; ok && r.Kind == Outcome {
			s.Touches[i].Code = r.Code
		}
		file, touched := findAny(r, names)
		if !touched {
			if r.Files != nil && !r.Files.namesAll() {
				s.Unnamed = append(s.Unnamed, r)
			}
			return nil
		}
		if r.Kind == Intent {
			begun[call] = len(s.Touches)
		}
		s.Touches = append(s.Touches, Touch{r, file, cmp.Or(intent.Command(), r.Command())})
		return nil
	})
	for _, r := range intents {
		s.Unnamed = append(s.Unnamed, r)
	}
	slices.SortFunc(s.Unnamed, func(a, b Record) int { return cmp.Compare(a.Number, b.Number) })
	return s, err
}

// findAny returns the file of a record with any of some names. touched is true if the record has
// such a file, or an effect that changes it.
func findAny(r Record, names []string) (file *File, touched bool) {
	for _, name := range names {
		if f, ok := r.Files.Find(name); ok {
			return &f, true
		}
		f := Filter{Path: name}
		changes := func(effect string) bool {
			return (strings.HasPrefix(effect, policy.Write.String()+" ") || strings.HasPrefix(effect, policy.Delete.String()+" ")) && f.onPath(effect)
		}
		if r.Kind == Intent && slices.ContainsFunc(r.Effects, changes) {
			return nil, true
		}
	}
	return nil, false
}

// Text says what the record says about the file.
func (t Touch) Text() string {
	switch {
	case t.Kind == Intent && t.Code != "":
		return "failed (" + sandbox.Shown(t.Code) + "): " + t.CallText()
	case t.File != nil && t.Kind == Outcome:
		return t.File.String()
	case t.File != nil && t.Tool == "":
		return "deleted with the session: " + t.File.String()
	case t.File != nil:
		return "discarded: " + t.File.String()
	case t.Tool == "apply_changes":
		return "applied"
	}
	return t.CallText()
}
