package program

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/golem-forge/golem/internal/audit"
	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/git"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/records"
	"github.com/golem-forge/golem/internal/run"
	"github.com/golem-forge/golem/internal/session"
	"github.com/golem-forge/golem/internal/transaction"
	"github.com/golem-forge/golem/sandbox"
)

// Sessions returns the store of the program's sessions.
func (p *Program) Sessions() session.Store {
	return session.Store{State: p.state, Root: p.root, Project: p.Project, Given: p.mounts, Now: p.options.Now, Examined: p.options.Examined, OnRecover: p.options.OnRecover}
}

// forSession returns the program with its mounts as the session of a gate has them.
func forSession(p *Program, v GateOptions) *Program {
	isolated := v.Isolated
	if !isolated && v.Session != "" && v.Session != session.New {
		s, err := p.Sessions().Find(v.Session) // opening the session returns the error
		isolated = err == nil && s.Isolated
	}
	if !isolated {
		return p
	}
	own := *p
	own.Project, own.plain = p.Project.Isolated(), p.Project
	return &own
}

// asksOverlay reports whether the project itself asks for an overlay. Only then the worker
// learns of it: an isolated run has the prompt and the tools of a plain one.
func asksOverlay(p *Program) bool {
	store := p.Sessions()
	if p.plain != nil {
		store.Project = p.plain
	}
	return len(store.OverlayMounts()) > 0
}

// RemoveSession removes a session with its changes for the user, unless another golem
// works on it. It records that in the journal first.
func (p *Program) RemoveSession(s *session.Session, secrets []string) error {
	return removeSession(p, s, func(r *records.Records) error {
		return r.Write(audit.Record{Kind: audit.Answer, Session: s.ID, Origin: policy.User.String(), Decision: "revoked", By: "user", Note: "removes session " + s.ID}, secrets)
	})
}

// DiscardStaged discards the commits that a session has staged.
func DiscardStaged(ctx context.Context, p *Program, id string) (err error) {
	r, err := p.OpenRecords()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	waiting, err := clearance.Waiting(r.Folder)
	if err != nil || len(waiting) == 0 {
		return err
	}
	desk := newDesk(p, r, nil)
	defer desk.Close()
	open, err := desk.Open(ctx)
	if err != nil {
		return err
	}
	list, err := open.List()
	if err != nil {
		return err
	}
	for _, c := range list {
		if c.Session == id || c.Tree == id {
			err = errors.Join(err, open.Discard(ctx, c.ID))
		}
	}
	return err
}

// RemoveUnused removes a session that holds nothing. The journal has no record of it,
// because the user did not remove it and nothing is lost.
func RemoveUnused(p *Program, s *session.Session) error {
	return removeSession(p, s, func(*records.Records) error { return nil })
}

func removeSession(p *Program, s *session.Session, record func(*records.Records) error) error {
	k, err := p.Sessions().Open(s)
	if err != nil {
		return err
	}
	defer k.Close()
	if k.IsBusy() {
		return transaction.ErrBusy
	}
	records, err := p.OpenRecords()
	if err != nil {
		return err
	}
	defer records.Close()
	if err := record(records); err != nil {
		return err
	}
	if err := clearance.Forget(records.Folder, s.ID); err != nil {
		return err
	}
	return k.Remove()
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

// StateOf returns the state of a session of a program. A session that cannot be read counts as
// one with changes, so that nobody removes it by mistake.
func StateOf(p *Program, s *session.Session) SessionState {
	if IsRunning(p, s) {
		return SessionRunning
	}
	if end, err := p.Runs().End(s); err == nil && end == run.Paused {
		return SessionPaused
	}
	if p.Sessions().HasWork(s) {
		return SessionChanges
	}
	return SessionClean
}

// ProcessOf returns the process of the golem that works in a session now, and whether it is a
// run. The kernel says that the process holds the lock of the session. The process is 0 if
// there is none, or if the system does not show it.
func ProcessOf(p *Program, s *session.Session) (process int, isRun bool) {
	if dir, err := s.OpenState(); err == nil {
		process = run.Process(dir)
		dir.Close()
	}
	if process > 0 {
		return process, true
	}
	return session.Process(p.Sessions(), s), false
}

// IsRunning reports whether a golem works in a session.
func IsRunning(p *Program, s *session.Session) bool {
	if p.Sessions().IsBusy(s) {
		return true
	}
	dir, err := s.OpenState()
	if err != nil {
		return false
	}
	defer dir.Close()
	return run.IsLocked(dir)
}

// RunHistory calls yield with the log entries of the session's runs, in order.
func (p *Program) RunHistory(s *session.Session, yield func(run.Entry) error) error {
	dir, err := s.OpenState()
	if err != nil {
		return err
	}
	defer dir.Close()
	log, err := run.OpenLog(dir, false, p.options.Now)
	if err != nil {
		return err
	}
	defer log.Close()
	return log.Read(yield)
}

// RepositoryAbove returns the git work tree that holds the directory at / without being
// that directory, "" for none. Git does not work there, because the repository is not
// mounted. root reports whether golem accepts that work tree as --root.
func (p *Program) RepositoryAbove() (top sandbox.Host, root bool) {
	for _, m := range p.Project.Mounts {
		if m.Target != "/" {
			continue
		}
		above := git.Above(m.RealHostDir())
		for _, home := range p.options.Homes {
			if rel, err := filepath.Rel(above, home); above != "" && err == nil && filepath.IsLocal(rel) {
				return sandbox.Host(above), false
			}
		}
		return sandbox.Host(above), above != "" && !strings.ContainsRune(above, ':')
	}
	return "", false
}
