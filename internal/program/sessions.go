package program

import (
	"path/filepath"
	"strings"

	"github.com/golem-forge/golem/internal/audit"
	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/git"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/run"
	"github.com/golem-forge/golem/internal/session"
	"github.com/golem-forge/golem/sandbox"
)

// Sessions returns the store of the program's sessions.
func (p *Program) Sessions() session.Store {
	return session.Store{State: p.state, Project: p.Project, Given: p.mounts, Now: p.options.Now}
}

// RemoveSession removes a session with its changes, unless another golem works on it. It
// records that in the journal first.
func (p *Program) RemoveSession(s *session.Session, secrets []string) error {
	k, err := p.Sessions().Open(s)
	if err != nil {
		return err
	}
	defer k.Close()
	records, err := p.OpenRecords()
	if err != nil {
		return err
	}
	defer records.Close()
	record := audit.Record{Kind: audit.Answer, Origin: policy.User.String(), Decision: "revoked", By: "user", Note: "removes session " + s.ID}
	if err := records.write(record, secrets); err != nil {
		return err
	}
	if err := clearance.Forget(records.folder, s.ID); err != nil {
		return err
	}
	return k.Remove()
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
		above := git.Above(string(session.RealSource(m)))
		for _, home := range p.options.Homes {
			if rel, err := filepath.Rel(above, home); above != "" && err == nil && filepath.IsLocal(rel) {
				return sandbox.Host(above), false
			}
		}
		return sandbox.Host(above), above != "" && !strings.ContainsRune(above, ':')
	}
	return "", false
}
