package program

import (
	"path/filepath"
	"strings"

	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

// forSession returns the program with its mounts as the session of a gate has them.
func (p *Program) forSession(v WorkerOptions) *Program {
	isolated := v.Isolated
	if !isolated && v.Session != "" && v.Session != session.New {
		s, err := p.Storage.Sessions.Find(v.Session) // opening the session returns the error
		isolated = err == nil && s.Isolated
	}
	if !isolated {
		return p
	}
	own := *p
	own.Project, own.plain = p.Project.Isolated(), p.Project
	own.bindStorage()
	return &own
}

// asksOverlay reports whether the project itself asks for an overlay. Only then the worker
// learns of it: an isolated run has the prompt and the tools of a plain one.
func (p *Program) asksOverlay() bool {
	store := p.Storage.Sessions
	if p.plain != nil {
		store.Project = p.plain
	}
	return len(store.OverlayMounts()) > 0
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
