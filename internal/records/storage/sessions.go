package storage

import (
	"errors"

	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/work/run"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/internal/work/spending"
)

// ErrChanged is the error if a session that was to be removed as clean has changes.
var ErrChanged = errors.New("the session has changes that were not applied")

// RemoveSession removes a session with its changes for the user, unless another golem
// works on it, or undoes changes into it. If the user saw it as clean, and it has changes now,
// the error is ErrChanged. RemoveSession records the removal in the journal first, with the files
// that it deletes. With the session it removes the requests that wait for an approval: nothing can use an answer any
// more.
func (s Storage) RemoveSession(one *session.Session, clean bool, secrets []string) error {
	return s.remove(one, clean, func(r *Records) error {
		files := &audit.Files{Unlisted: "golem could not list the changes of the session"}
		if l, err := s.Sessions.ListChanges(one); err == nil {
			files = l.Files()
			l.Close()
		}
		return r.Write(audit.Record{Kind: audit.Answer, Session: one.ID, Origin: policy.User.String(), Decision: "revoked", By: "user", Note: audit.RemovesSession + one.ID, Files: files}, secrets)
	})
}

// RemoveUnused removes a session that holds nothing, and does nothing if it has changes. The
// journal has no record of it, because the user did not remove it and nothing is lost.
func (s Storage) RemoveUnused(one *session.Session) error {
	err := s.remove(one, true, func(*Records) error { return nil })
	if errors.Is(err, ErrChanged) {
		return nil
	}
	return err
}

func (s Storage) remove(one *session.Session, clean bool, record func(*Records) error) error {
	k, err := s.Sessions.Open(one)
	if err != nil {
		return err
	}
	defer k.Close()
	records, err := s.OpenRecords()
	if err != nil {
		return err
	}
	defer records.Close()
	err = k.Remove(func() error {
		if _, is := session.UndoInto(s.Sessions, one); is {
			return changes.ErrBusy
		}
		if clean && s.Sessions.HasWork(one) {
			return ErrChanged
		}
		if err := record(records); err != nil {
			return err
		}
		return clearance.Forget(records.Folder, one.ID)
	})
	if err != nil {
		return err
	}
	return errors.Join(records.withdraw(one.ID), session.ForgetName(s.Sessions, one))
}

// A SessionState says what a session waits for.
type SessionState string

// The states of sessions.
const (
	SessionRunning SessionState = "running" // a golem works on it
	SessionPaused  SessionState = "paused"  // its run waits for an approval
	SessionChanges SessionState = "changes" // it has changes that were not applied
	SessionClean   SessionState = "clean"
)

// StateOf returns the state of a session. A session that cannot be read counts as one with
// changes, so that nobody removes it by mistake.
func (s Storage) StateOf(one *session.Session) SessionState {
	if s.IsRunning(one) {
		return SessionRunning
	}
	if end, err := s.Runs().End(one); err == nil && end == run.Paused {
		return SessionPaused
	}
	if s.Sessions.HasWork(one) {
		return SessionChanges
	}
	return SessionClean
}

// ProcessOf returns the process of the golem that works in a session now, and whether it is a
// run. The kernel says that the process holds the lock of the session. The process is 0 if
// there is none, or if the system does not show it.
func (s Storage) ProcessOf(one *session.Session) (process int, isRun bool) {
	if dir, err := one.OpenState(); err == nil {
		process = run.Process(dir)
		dir.Close()
	}
	if process > 0 {
		return process, true
	}
	k, err := s.Sessions.Open(one)
	if err != nil {
		return 0, false
	}
	defer k.Close()
	return changes.Process(k), false
}

// IsRunning reports whether a golem works in a session.
func (s Storage) IsRunning(one *session.Session) bool {
	if s.Sessions.IsBusy(one) {
		return true
	}
	dir, err := one.OpenState()
	if err != nil {
		return false
	}
	defer dir.Close()
	return run.IsLocked(dir)
}

// SpentIn returns what the agents of a session asked of models, and what that cost. It is
// empty if that cannot be read.
func SpentIn(one *session.Session) spending.Account {
	dir, err := one.OpenState()
	if err != nil {
		return spending.Account{}
	}
	defer dir.Close()
	spent, err := spending.Read(dir)
	if err != nil {
		return spending.Account{}
	}
	return spent
}
