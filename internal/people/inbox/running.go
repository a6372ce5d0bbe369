package inbox

import (
	"cmp"
	"path/filepath"

	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/people/visible"
)

// A RunningSession is a session that a golem works on now, in the form of golem status
// --json.
type RunningSession struct {
	ID string `json:"id"`
	changes.Holder
}

// RunningSessions returns those of some sessions that a golem works on now.
func RunningSessions(all []ProgramSession) (list []RunningSession) {
	for _, s := range all {
		if h, ok := s.Holder(); ok {
			list = append(list, RunningSession{s.ID, h})
		}
	}
	return list
}

// Holder returns the golem that works on the session now. ok is false if there is none.
func (s ProgramSession) Holder() (h changes.Holder, ok bool) {
	if h, ok = s.Program.Storage.Sessions.Holder(s.Session); ok {
		h.Command = cmp.Or(visible.Line(filepath.Base(cmp.Or(h.Command, s.Command, "golem")), maxWhat), "golem")
	}
	return h, ok
}
