package program

import (
	"path/filepath"

	"github.com/golem-forge/golem/internal/session"
	"github.com/golem-forge/golem/internal/taint"
	"github.com/golem-forge/golem/sandbox"
)

// taintFile returns the file that exists once a session has read untrusted input.
// Overlays and logs of the session may hold what was made of it. Without a session it is
// the program's: an agent that is served again may remember what it has read. Asking for a
// new session removes it.
func taintFile(state string, s *session.Session) string {
	if s == nil {
		return filepath.Join(state, "untrusted")
	}
	return s.TaintFile()
}

// newTracker returns the tracker of what a worker reads.
func (d *Gate) newTracker(files *sandbox.Sandbox) *taint.Tracker {
	return taint.New(taint.Options{Files: files, Project: d.program.Project, Untrusted: d.untrusted, HasOverlays: d.work.HasOverlays(), Marker: taintFile(d.program.state, d.work.Session)})
}
