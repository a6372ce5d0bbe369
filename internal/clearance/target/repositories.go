package target

import (
	"context"
	"net/http"
	"sync"

	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/internal/clearance/scan"
	"github.com/golem-forge/golem/internal/clearance/scanners"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/internal/work/worker"
)

// Repositories opens the staged commits of a program when they are first needed: most calls do
// not need them. It is closed after use.
type Repositories struct {
	Targets Targets
	Env     Env
	State   string            // the program's state directory
	Folder  *state.Dir        // the same, opened
	Web     http.RoundTripper // for requests to servers
	Worker  *worker.Worker    // nil for none
	Session string            // the session that holds the files, "" for none
	Scan    scanners.Options

	mu      sync.Mutex
	commits *clearance.Commits
	store   *git.ObjectStore
	scan    *scanners.Set
}

// Open opens the staged commits.
func (d *Repositories) Open(ctx context.Context) (*clearance.Commits, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.commits != nil {
		return d.commits, nil
	}
	store, err := d.Env.OpenGit(ctx, d.State)
	if err != nil {
		return nil, err
	}
	var targets []clearance.Target
	for _, t := range d.Targets.List() {
		off := ""
		if place, denied := deniedTarget(d.Targets.Project.Ceiling, t); denied {
			off = place.String()
		}
		targets = append(targets, clearance.Target{Off: off, Name: t.Name, Type: t.Type, Path: t.Path, URL: t.URL, Repo: t.Repo, Branch: t.Branch, Hooks: t.Hooks, Web: d.Web})
	}
	commits, err := clearance.Open(d.Folder, store, targets, d.Env.Credentials(d.Worker))
	if err != nil {
		return nil, err
	}
	d.commits, d.store = commits.In(d.Session), store
	return d.commits, nil
}

// deniedTarget returns the place that forbids a target: its host, or its directory on this
// machine, of which workers read every branch.
func deniedTarget(c project.Ceiling, t project.Target) (strictyaml.Place, bool) {
	if at := t.Address(); at != "" {
		return c.DeniedAddress(at)
	}
	dir := t.Dir()
	if t.URL != "" { // git may add .git
		dir = clearance.Repository(dir)
	}
	return c.DeniedRoot(project.RealDir(dir))
}

// Persons returns the author and the committer of a commit.
func (d *Repositories) Persons(ctx context.Context) (author, committer git.Person, err error) {
	if _, err := d.Open(ctx); err != nil {
		return author, committer, err
	}
	author, committer = d.Env.Persons(ctx, d.store, d.Worker)
	return author, committer, nil
}

// Scanners opens the scanners of results.
func (d *Repositories) Scanners() (*scan.Set, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.scan == nil {
		s, err := scanners.Open(d.Scan)
		if err != nil {
			return nil, err
		}
		d.scan = s
	}
	return d.scan.Set, nil
}

// Close stores the verdicts of the scanners.
func (d *Repositories) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.scan == nil {
		return nil
	}
	return d.scan.Close()
}
