package program

import (
	"context"

	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/internal/clearance/scanners"
	"github.com/golem-forge/golem/internal/clearance/target"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/records/storage"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/internal/work/worker"
	"github.com/golem-forge/golem/sandbox"
)

// Targets returns the repositories that the user pushes results to.
func (p *Program) Targets() target.Targets {
	return target.Targets{Project: p.Project, Workers: p.Workers, Entry: p.Entry, Root: p.root, Home: p.options.Home}
}

// hostEnv returns the user's environment. The program's directory and all state count as
// writable: they hold files of strangers, and overlays of sessions.
func (p *Program) hostEnv() target.Env {
	e := target.Env{Variables: p.options.Environ, Writable: []string{p.root, p.Storage.Base}, OnlyNamed: p.options.Job != nil}
	for _, m := range p.Project.Mounts {
		if m.Mode != sandbox.ReadOnly.String() || m.Untrusted {
			e.Writable = append(e.Writable, m.HostDir())
		}
	}
	return e
}

// ScannerOptions says how scanners of results are opened. If a state directory is given, they
// cache verdicts there. Without the user's trust, they are the scanners of every program.
func (p *Program) ScannerOptions(folder *state.Dir) scanners.Options {
	own := p.Project
	if p.CheckTrust() != nil {
		plain := *own
		plain.Scanners, plain.Engines, plain.ClearanceLimits = nil, project.Engines{}, project.ClearanceLimits{}
		own = &plain
	}
	return scanners.Options{Project: own, Budget: p.scanBudget(), Cache: folder, Now: p.options.Now}
}

// NewRepositories returns the repositories of the program for a worker, nil for none. It is closed
// after use.
func (p *Program) NewRepositories(r *storage.Records, w *worker.Worker) *target.Repositories {
	return &target.Repositories{Targets: p.Targets(), Env: p.hostEnv(), State: p.Storage.Sessions.State, Folder: r.Folder, Worker: w, Scan: p.ScannerOptions(r.Folder)}
}

// openGit opens the private git store of the program.
func (p *Program) openGit(ctx context.Context) (*git.ObjectStore, error) {
	return p.hostEnv().OpenGit(ctx, p.Storage.Sessions.State)
}

// Commits returns a reader of the commits of a session.
func (p *Program) Commits(one *session.Session) *session.Commits {
	return p.Storage.Sessions.Commits(one, p.openGit)
}
