package program

import (
	"cmp"
	"context"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/clearance/scan"
	"github.com/golem-forge/golem/internal/git"
	"github.com/golem-forge/golem/internal/project"
	"github.com/golem-forge/golem/internal/strictyaml"
	"github.com/golem-forge/golem/internal/taint"
	"github.com/golem-forge/golem/internal/tool"
	gittools "github.com/golem-forge/golem/internal/toolset/git"
	"github.com/golem-forge/golem/internal/worker"
	"github.com/golem-forge/golem/sandbox"
)

// storeName is the state directory with the staged commits.
const storeName = "store"

// targets are the repositories that the user pushes results to.
type targets struct {
	project *project.Project
	workers []*worker.Worker
	entry   *worker.Worker // nil if there is none
	root    string         // the program's directory
	home    string         // for ~
}

func (p *Program) targets() targets {
	return targets{p.Project, p.Workers, p.Entry, p.root, p.options.Home}
}

// list returns the targets of the project, and those that workers define themselves.
func (r targets) list() []project.Target {
	all := slices.Clone(r.project.Targets)
	for _, w := range r.workers {
		if w.Git.Inline != nil {
			all = append(all, r.inline(w))
		}
	}
	return all
}

// inlineName returns the name of the target that a worker defines.
func (r targets) inlineName(w *worker.Worker) string {
	if w == r.entry {
		return "default"
	}
	return "default-" + w.Name
}

// inline returns the target that a worker defines. A relative path starts at the program.
func (r targets) inline(w *worker.Worker) project.Target {
	in := w.Git.Inline
	t := project.Target{Name: r.inlineName(w), Type: in.Type, URL: in.URL, Repo: in.Repo, Branch: in.Branch, At: "/workspace", From: in.Place}
	if in.Path != "" {
		dir := in.Path
		if home, ok := strings.CutPrefix(dir, "~"); ok && (home == "" || home[0] == '/') {
			dir = r.home + home
		}
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(r.root, dir)
		}
		t.Path = sandbox.Host(filepath.Clean(dir))
	}
	if slices.ContainsFunc(r.project.Mounts, func(m project.Mount) bool { return m.Target == "/" }) {
		t.At = "/"
	}
	return t
}

// gitSet returns the git tools of a worker, for listing.
func (r targets) gitSet(w *worker.Worker) gittools.Set {
	most := r.project.ClearanceLimits
	s := gittools.Set{Limits: gittools.Limits{Files: most.MaxFiles, Bytes: most.MaxBytes, Ratio: clearance.Limit(most.MaxPercent) / 100}}
	for _, t := range r.list() {
		s.Targets = append(s.Targets, gittools.Target{Name: t.Name, Type: t.Type, Branch: t.Branch, At: t.At, Address: addressOf(t)})
	}
	if w != nil {
		s.Default = w.Git.Target
		if w.Git.Inline != nil {
			s.Default = r.inlineName(w)
		}
	}
	s.Outside = outsideMounts(r.project.Mounts)
	return s
}

// addressOf returns the address of a target on another machine.
func addressOf(t project.Target) string {
	if t.Repo != "" {
		return cmp.Or(t.URL, "https://github.com") + "/" + t.Repo
	}
	return t.URL
}

// outsideMounts returns the mounts inside other mounts whose directories on the host are
// not inside each other in the same way.
func outsideMounts(mounts []project.Mount) []string {
	var list []string
	for _, m := range mounts {
		var over *project.Mount
		for i := range mounts {
			o := &mounts[i]
			if o.Target != m.Target && (o.Target == "/" || strings.HasPrefix(m.Target, o.Target+"/")) && (over == nil || len(o.Target) > len(over.Target)) {
				over = o
			}
		}
		if over == nil {
			continue
		}
		rel := strings.TrimPrefix(strings.TrimPrefix(m.Target, over.Target), "/")
		if hostOf(m) != filepath.Join(hostOf(*over), filepath.FromSlash(rel)) {
			list = append(list, m.Target)
		}
	}
	return list
}

// hostOf returns the directory of a mount on the host.
func hostOf(m project.Mount) string {
	if m.Base != "" {
		return filepath.Join(string(m.Base), string(m.Source))
	}
	return string(m.Source)
}

// A clearing opens the clearance desk of a program when it is first needed: most calls do
// not need it.
type clearing struct {
	program *Program
	records *Records
	worker  *worker.Worker
	tree    string // the session that holds the files, "" for none

	mu   sync.Mutex
	desk *clearance.Desk
	scan *Scanners
	who  func(context.Context) (author, committer git.Person)
}

func (c *clearing) open(ctx context.Context) (*clearance.Desk, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.desk != nil {
		return c.desk, nil
	}
	p := c.program
	store, err := openGit(ctx, p)
	if err != nil {
		return nil, err
	}
	off := ""
	if place, is := p.Project.Ceiling.NetworkOff(); is {
		off = place.String()
	}
	var targets []clearance.Target
	for _, t := range p.targets().list() {
		targets = append(targets, clearance.Target{Off: off, Name: t.Name, Type: t.Type, Path: t.Path, URL: t.URL, Repo: t.Repo, Branch: t.Branch, Hooks: t.Hooks, Web: p.options.Web})
	}
	desk, err := clearance.Open(c.records.folder, store, targets, p.hostEnv().credentials(c.worker))
	if err != nil {
		return nil, err
	}
	c.desk = desk.In(c.tree)
	c.who = func(ctx context.Context) (author, committer git.Person) {
		return p.hostEnv().persons(ctx, store, c.worker)
	}
	return c.desk, nil
}

func (c *clearing) scanners() (*scan.Set, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.scan == nil {
		s, err := c.program.OpenScanners(c.records.folder)
		if err != nil {
			return nil, err
		}
		c.scan = s
	}
	return c.scan.Set, nil
}

// Close stores the verdicts of the scanners.
func (c *clearing) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.scan == nil {
		return nil
	}
	return c.scan.Close()
}

// credentials returns the credentials that a push may use.
func (e hostEnv) credentials(w *worker.Worker) git.Credentials {
	var named []string
	if w != nil {
		for _, v := range w.Git.Credentials.Env {
			if v.Pass {
				if value, ok := environ(e.variables, v.Name); ok {
					named = append(named, v.Name+"="+value)
				}
			}
		}
		if w.Git.Credentials.Mode == "explicit" {
			return git.Explicit(named)
		}
	}
	return git.Inherit(e.safe())
}

// persons returns the author and the committer of a commit: those that the worker's file
// names, or the user.
func (e hostEnv) persons(ctx context.Context, store *git.Store, w *worker.Worker) (author, committer git.Person) {
	environment := e.variables
	if w != nil {
		if w.Git.Credentials.Mode == "explicit" {
			environment = nil
		}
		environment = slices.Clone(environment)
		for _, v := range w.Git.Credentials.Env {
			if !v.Pass {
				environment = append(environment, v.Name+"="+v.Value)
			}
		}
	}
	return store.Who(ctx, environment, git.Person{Name: "golem", Email: "golem@localhost"})
}

// environ returns the value of an environment variable.
func environ(environment []string, name string) (value string, ok bool) {
	for _, one := range environment {
		if n, v, _ := strings.Cut(one, "="); n == name {
			value, ok = v, true
		}
	}
	return value, ok
}

// gitTools returns the git tools of a worker for a gate.
func (d *Gate) gitTools(step *Step, g tool.Gate, tracker *taint.Tracker) (gittools.Set, io.Closer) {
	var w *worker.Worker
	if step != nil {
		w = step.Worker
	}
	s := d.program.targets().gitSet(w)
	c := &clearing{program: d.program, records: d.records, worker: w}
	if d.work.HasOverlays() {
		c.tree = d.work.Session.ID
	}
	s.Desk = c.open
	s.Untrusted = func(dir string) bool { return tracker.UntrustedMount(dir, false) != "" }
	s.Scanners = c.scanners
	s.Request = func(ctx context.Context) (clearance.Request, error) {
		if _, err := c.open(ctx); err != nil {
			return clearance.Request{}, err
		}
		r := clearance.Request{Time: d.program.options.Now(), Workers: g.Workers, Intake: tracker.Bytes(), Untrusted: tracker.Source()}
		r.Author, r.Commit = c.who(ctx)
		if d.Session != nil {
			r.Session = d.Session.ID
		}
		r.Passed = taint.NewInputFinder(ctx, g.Files, tracker, inputMounts(d.program.Project.Mounts)).Find
		return r, nil
	}
	return s, c
}

// inputMounts returns the mounts that are read-only or untrusted.
func inputMounts(mounts []project.Mount) []string {
	var list []string
	for _, m := range mounts {
		if m.Mode == "ro" || m.Untrusted {
			list = append(list, m.Target)
		}
	}
	return list
}

// lint returns the problems with the targets that workers define.
func (r targets) lint() strictyaml.Problems {
	var problems strictyaml.Problems
	for _, w := range r.workers {
		if w.Git.Inline == nil {
			continue
		}
		name := r.inlineName(w)
		if slices.ContainsFunc(r.project.Targets, func(t project.Target) bool { return t.Name == name }) {
			problems.Add(strictyaml.Node{Place: w.Git.Inline.Place}, "default_target: "+name+" is a target of the project's", "name that one: default_target: "+name)
		}
		if t := r.inline(w); !slices.ContainsFunc(r.project.Mounts, func(m project.Mount) bool {
			return m.Target == t.At || path.Dir(m.Target) == t.At || t.At == "/"
		}) {
			problems.Add(strictyaml.Node{Place: w.Git.Inline.Place}, "default_target: no mount is at "+t.At+", where its root would stand", "write the target in the project's clearance.targets, with at:")
		}
	}
	return problems
}

// Balance is how much a run has read, and how much it has staged.
type Balance struct {
	Read, Staged int64 // bytes
	Commits      int
}

// Balance returns the balance of the session so far.
func (r *Run) Balance() Balance {
	var b Balance
	if r.Entry != nil {
		b.Read = r.Entry.Exposure.Bytes()
	}
	p := r.Gate.program
	if _, err := os.Lstat(filepath.Join(p.state, storeName)); err != nil {
		return b // nothing was ever staged
	}
	desk, err := (&clearing{program: p, records: r.Gate.records}).open(context.Background())
	if err != nil {
		return b
	}
	list, _ := desk.List()
	for _, c := range list {
		if c.Session == r.ID {
			b.Commits++
			b.Staged += c.Bytes()
		}
	}
	return b
}
