package storage

import (
	"errors"
	"strings"

	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/run"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

// Runs are the runs in the sessions of a program.
type Runs struct{ storage Storage }

// Runs returns the runs of the program.
func (s Storage) Runs() Runs { return Runs{s} }

// errFound ends Read early.
var errFound = errors.New("found")

// Find returns the session of a run by its id, or "" for the run that was used last.
func (r Runs) Find(id string) (*session.Session, error) {
	if id != "" {
		return r.storage.Sessions.Find(id)
	}
	list, err := r.storage.Sessions.List()
	if err != nil {
		return nil, err
	}
	for _, s := range list {
		// A log that cannot be read counts too: resuming it says why, and no older run
		// continues in its place.
		if err := r.Read(s, func(run.Entry) error { return errFound }); err != nil {
			return s, nil
		}
	}
	return nil, &sandbox.Error{Op: "resume", Code: sandbox.ErrNotFound, Hint: `nothing was run here yet; golem run . "what to do" begins a run`}
}

// Read calls yield with the log entries of the session's runs, in order.
func (r Runs) Read(s *session.Session, yield func(run.Entry) error) error {
	dir, err := s.OpenState()
	if err != nil {
		return err
	}
	defer dir.Close()
	log, err := run.OpenLog(dir, false, r.storage.Sessions.Now)
	if err != nil {
		return err
	}
	defer log.Close()
	return log.Read(yield)
}

// Begin returns the first entry of the session's last run. It names the entry worker
// and the model.
func (r Runs) Begin(s *session.Session) (run.Entry, error) {
	sum, err := r.Summary(s)
	return sum.Begin, err
}

// FirstInput returns the first line of the input of the first run of a session. It returns
// "" if there was no run or its record cannot be read, so that a list does not fail.
func (r Runs) FirstInput(s *session.Session) (input string) {
	if r.storage.Histories != nil {
		sum, _ := r.Summary(s)
		return sum.Input
	}
	r.Read(s, func(e run.Entry) error {
		if input = inputOf(e); input != "" {
			return errFound
		}
		return nil
	})
	return input
}

// inputOf returns the first line of an input, "" if the entry has none.
func inputOf(e run.Entry) string {
	for _, m := range e.Messages {
		for _, part := range m.Parts {
			if m.Role != model.User || part.Text == "" {
				continue
			}
			line, rest, _ := strings.Cut(strings.TrimSpace(part.Text), "\n")
			if strings.TrimSpace(rest) != "" {
				line += " …"
			}
			return line
		}
	}
	return ""
}

// IsPaused reports whether the last run of the session waits for an approval.
func (r Runs) IsPaused(id string) bool {
	s, err := r.storage.Sessions.Find(id)
	if err != nil || id == "" {
		return false
	}
	end, err := r.End(s)
	return err == nil && end == run.Paused
}

// End returns how the last run of a session ended: "" if nothing was run in it, or its
// run works now or was killed.
func (r Runs) End(s *session.Session) (run.End, error) {
	sum, err := r.Summary(s)
	return sum.End, err
}
