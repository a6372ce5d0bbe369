package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/records/state"
)

// A fileStory is what golem knows about the changes of a file.
type fileStory struct {
	audit.Story
	// Sessions are sessions that have changed the file now, and that no record names. golem was
	// killed, or the change is one that a record does not name.
	Sessions []string `json:"sessions,omitempty"`
	// Names are the names of sessions that still exist, by id.
	Names sessionNames `json:"session_names,omitempty"`
}

// readStory returns the story of a file by the names that it may have, with the sessions that have
// changed it.
func readStory(folder *state.Dir, names []string, sessions func() ([]*workSession, error)) (s fileStory, err error) {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if folder == nil {
		return s, nil
	}
	if s.Story, err = audit.ReadStory(folder, names); err != nil {
		return s, err
	}
	all, err := sessions()
	if err != nil {
		return s, nil // the journal is enough
	}
	s.Names = namesBeside(all)
	for _, w := range all {
		if slices.ContainsFunc(s.Touches, func(t audit.Touch) bool { return t.Session == w.ID }) {
			continue
		}
		contents, err := w.program.Storage.Sessions.OpenContents(w.Session)
		if err != nil {
			continue
		}
		if slices.ContainsFunc(names, contents.Has) {
			s.Sessions = append(s.Sessions, w.ID)
		}
		contents.Close()
	}
	return s, nil
}

// choose leaves only the touches that the flags select.
func (s *fileStory) choose(filter *filterFlags) {
	s.Touches = slices.DeleteFunc(s.Touches, func(t audit.Touch) bool { return !filter.during(t.Time) })
	s.Unnamed = slices.DeleteFunc(s.Unnamed, func(r audit.Record) bool { return !filter.during(r.Time) })
	if n := len(s.Touches); filter.last > 0 && n > filter.last {
		s.Touches = s.Touches[n-filter.last:]
	}
}

// during reports whether the flags select a time.
func (f *filterFlags) during(t time.Time) bool {
	return !t.Before(f.since.time) && (f.until.time.IsZero() || t.Before(f.until.time))
}

// isEmpty reports whether nothing is known about the file.
func (s fileStory) isEmpty() bool { return len(s.Touches)+len(s.Sessions) == 0 }

// maxUnnamed is how many records are listed that may be about a file.
const maxUnnamed = 10

// print prints who changed a file, in the order of time.
func (s fileStory) print(w io.Writer, typed string) {
	fmt.Fprintf(w, "changes of %s, in the order of time:\n", visible.Name(typed))
	rows := [][]string{{"n", "time", "session", "what", "command"}}
	for _, t := range s.Touches {
		command := visible.Line(t.Line, maxCommand)
		if t.Line == "" && t.File != nil {
			command = "-"
		}
		what := t.Text()
		if t.Tool == "apply_changes" {
			what = strings.TrimSuffix(what+" by "+t.DeciderText(), " by ")
		}
		rows = append(rows, []string{strconv.FormatUint(t.Number, 10), t.Time.Local().Format(time.DateTime), s.Names.beside(t.Session), what, command})
	}
	if len(s.Touches) > 0 {
		printColumns(w, rows)
	}
	for _, id := range s.Sessions {
		fmt.Fprintf(w, "session %s has changed it, and the journal does not say with which command; golem diff --session %s shows it\n", s.Names.beside(id), cmp.Or(s.Names[id], id))
	}
	if n := len(s.Unnamed); n > 0 {
		var numbers []string
		for _, r := range s.Unnamed[max(0, n-maxUnnamed):] {
			numbers = append(numbers, strconv.FormatUint(r.Number, 10))
		}
		fmt.Fprintf(w, "it may also be among the changes that %s not name: %s\n", visible.Count(n, "record")+" "+visible.Verb(n, "does", "do"), strings.Join(numbers, ", "))
	}
}
