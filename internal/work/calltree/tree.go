package calltree

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/explain"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/internal/work/worker"
	"github.com/golem-forge/golem/sandbox"
)

// A Step is a worker with the chain of its callers, and what it may do there.
type Step struct {
	Worker   *worker.Worker
	Parent   *Step // nil for the entry worker
	Grant    policy.Grant
	Problems strictyaml.Problems // what it asks for beyond its caller
	Calls    []*Step
	// Repeated is true if the worker is elsewhere in the tree with its calls, nearer to
	// the top; Circular if it is among its own callers.
	Repeated, Circular bool
}

// Chain returns the names from the entry worker to this one.
func (s *Step) Chain() []string {
	if s.Parent == nil {
		return []string{s.Worker.Name}
	}
	return append(s.Parent.Chain(), s.Worker.Name)
}

// Missing returns a problem if the worker takes its caller's files and would have the
// toolset filesystem with them, but the caller lacks it: then the worker sees no file.
func (s *Step) Missing() (problems strictyaml.Problems) {
	t, ok := s.Worker.Toolset("filesystem")
	if !ok || !t.Implied || s.Parent == nil || len(s.Problems) > 0 || s.Grant.Tools.Has("filesystem") {
		return nil
	}
	caller := sandbox.Shown(s.Parent.Worker.Name)
	problems.Note(strictyaml.Problem{Place: t.Place, What: "no tools for files: " + caller + " calls it, and has no toolset filesystem",
		Hint: "write filesystem: under toolsets of " + caller + ", or toolsets: [] here if it needs no files"})
	return problems
}

// WithModel returns the workers that the worker may call, at any depth, and that name a model
// in their files.
func (s *Step) WithModel() (list []*worker.Worker) {
	if s == nil {
		return nil
	}
	for _, call := range s.Calls {
		if call.Worker.Model.Text != "" && !call.Repeated && !call.Circular {
			list = append(list, call.Worker)
		}
		list = append(list, call.WithModel()...)
	}
	return list
}

// AllMissing returns the problems of Missing for the worker and all that it may call.
func (s *Step) AllMissing() (problems strictyaml.Problems) {
	if s == nil {
		return nil
	}
	problems = s.Missing()
	for _, call := range s.Calls {
		problems = append(problems, call.AllMissing()...)
	}
	return problems
}

// calledBy reports whether a worker is this one or one of its callers.
func (s *Step) calledBy(w *worker.Worker) bool {
	return s != nil && (s.Worker == w || s.Parent.calledBy(w))
}

// A Tree knows which worker may call which.
type Tree struct {
	Root     string // the program's directory
	Project  *project.Project
	Workers  []*worker.Worker
	Entry    *worker.Worker // of FindEntry; nil if there is none
	Complete bool           // no worker file is missing from Workers because of an error
	Tools    []string       // the names of golem's own tools
}

// Top returns the entry worker and all that it may call, nil if there is no entry worker.
// Each has its share of the project's grant. The calls of a worker are listed once, where
// it is nearest to the top.
func (c Tree) Top() *Step {
	if c.Entry == nil || c.Project == nil {
		return nil
	}
	top := c.Step(nil, c.Entry)
	unfolded := map[*worker.Worker]bool{c.Entry: true}
	for queue := []*Step{top}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if at.Grant.Depth < 1 {
			continue
		}
		for _, w := range c.Callees(at.Worker) {
			child := c.Step(at, w)
			child.Circular = at.calledBy(w)
			child.Repeated = unfolded[w]
			at.Calls = append(at.Calls, child)
			if !child.Repeated && !child.Circular && len(child.Problems) == 0 && child.Grant.Depth > 0 {
				queue = append(queue, child)
			}
			unfolded[w] = true
		}
	}
	return top
}

// Step returns a worker that another one calls, nil for the entry worker, with its share of
// the caller's grant.
func (c Tree) Step(parent *Step, w *worker.Worker) *Step {
	s := &Step{Worker: w, Parent: parent}
	ceiling := c.Project.Grant()
	if parent != nil {
		ceiling = parent.Grant
		ceiling.Depth--
	}
	s.Grant, s.Problems = w.Grant(ceiling, c.locate, parent == nil)
	return s
}

// Callees returns the existing workers that a worker may call.
func (c Tree) Callees(w *worker.Worker) []*worker.Worker {
	var list []*worker.Worker
	for _, other := range c.Workers {
		if w.Workers.Has(other.Name) && (other != w || !w.Workers.IsAll()) {
			list = append(list, other)
		}
	}
	return list
}

// Find returns the step of a worker that is nearest to the top, nil if there is none.
func (s *Step) Find(name string) *Step {
	for queue := []*Step{s}; s != nil && len(queue) > 0; queue = queue[1:] {
		if queue[0].Worker.Name == name {
			return queue[0]
		}
		queue = append(queue, queue[0].Calls...)
	}
	return nil
}

// locate returns the virtual path at which the project shows a directory of the host.
func (c Tree) locate(folder string) (string, bool) {
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(c.Root, folder)
	}
	best, length := "", -1
	for _, m := range c.Project.Mounts {
		source := m.HostDir()
		rel, err := filepath.Rel(source, folder)
		if err != nil || !filepath.IsLocal(rel) || len(source) < length {
			continue
		}
		length = len(source)
		best = strings.TrimSuffix(m.Target, "/")
		if rel != "." {
			best += "/" + filepath.ToSlash(rel)
		}
		if best == "" {
			best = "/"
		}
	}
	return best, length >= 0
}

// Lint returns problems between the files of a program: workers that ask for more than
// their callers have, and calls of workers that do not exist.
func (c Tree) Lint() strictyaml.Problems {
	var problems strictyaml.Problems
	for _, w := range c.Workers {
		for _, call := range w.Calls() {
			if c.Complete && call.Text != "*" && Named(c.Workers, call.Text) == nil {
				problems.Add(call, "no worker "+sandbox.Shown(call.Text), unknownHint(c.Workers, call.Text))
			}
		}
	}
	for _, w := range c.Workers {
		problems = append(problems, c.lintNames(w)...)
	}
	all, err := c.Project.Sandbox(explain.ProbeMount)
	if err != nil {
		problems.Add(strictyaml.Node{Place: strictyaml.Place{Source: c.Project.File}}, err.Error(), "fix the mount, or remove it")
		return problems
	}
	var visit func(s *Step)
	visit = func(s *Step) {
		problems = append(problems, s.Problems...)
		if _, err := s.Grant.Files.Apply(all); err != nil && len(s.Problems) == 0 {
			problems.Add(strictyaml.Node{Place: s.Worker.Sandbox.Place}, err.Error(), "")
		}
		for _, call := range s.Calls {
			visit(call)
		}
	}
	top := c.Top()
	if top != nil {
		visit(top)
	}
	// A worker that nobody calls is compared with the project itself.
	for _, w := range c.Workers {
		if ownPaths := c.Project.File == "" && w.Sandbox.Kind == worker.Paths; !ownPaths && top.Find(w.Name) == nil {
			visit(c.Step(nil, w))
		}
	}
	return problems
}

// lintNames returns a problem for each unknown tool or target: a rule about it would have
// no effect.
func (c Tree) lintNames(w *worker.Worker) strictyaml.Problems {
	var problems strictyaml.Problems
	for _, r := range w.Rules {
		if r.Verb == policy.Use && r.Target != "*" && !slices.Contains(c.Tools, policy.CurrentToolName(r.Target)) && Named(c.Workers, r.Target) == nil && !hasForeign(c.Workers, r.Target) {
			problems.Add(strictyaml.Node{Place: strictyaml.Place{Source: r.From}}, "no tool "+sandbox.Shown(r.Target), strictyaml.DidYouMean(r.Target, c.Tools))
		}
	}
	var targets []string
	for _, t := range c.Project.Targets {
		targets = append(targets, t.Name)
	}
	if t, ok := w.Toolset("git"); ok && w.Git.Target != "" && !slices.Contains(targets, w.Git.Target) {
		problems.Add(strictyaml.Node{Place: t.Place}, "no target "+sandbox.Shown(w.Git.Target), strictyaml.DidYouMean(w.Git.Target, targets))
	}
	return problems
}

// hasForeign reports whether a name can be that of a foreign tool of a worker.
func hasForeign(workers []*worker.Worker, name string) bool {
	return HasCustom(workers, name) || slices.ContainsFunc(workers, func(w *worker.Worker) bool {
		return slices.ContainsFunc(w.Servers, func(s worker.Server) bool { return strings.HasPrefix(name, s.Name+"_") })
	})
}

// HasCustom reports whether a worker has a custom tool with this name.
func HasCustom(workers []*worker.Worker, name string) bool {
	return slices.ContainsFunc(workers, func(w *worker.Worker) bool {
		return slices.ContainsFunc(w.Custom, func(c worker.Custom) bool { return c.Name == name })
	})
}

// Named returns the worker with a name, nil if there is none.
func Named(workers []*worker.Worker, name string) *worker.Worker {
	for _, w := range workers {
		if w.Name == name {
			return w
		}
	}
	return nil
}

// FindEntry returns the worker that a program starts with: the one with the given name.
// Without a name it is the worker of main.worker in the program's directory, whatever
// name its file has, or else a worker called main, or else the only worker. It returns an
// error if the program has other workers, because then nothing says whose limits apply.
// It returns nil if the program has no worker.
func FindEntry(workers []*worker.Worker, name string) (*worker.Worker, error) {
	if name != "" {
		if w := Named(workers, name); w != nil {
			return w, nil
		}
		return nil, UnknownError(workers, name)
	}
	if len(workers) == 0 {
		return nil, nil
	}
	for _, isEntry := range []func(w *worker.Worker) bool{
		func(w *worker.Worker) bool { return w.File == project.EntryWorker },
		func(w *worker.Worker) bool { return strings.EqualFold(worker.Stem(w.File), "main") },
		func(w *worker.Worker) bool { return w.Name == "main" },
		func(*worker.Worker) bool { return true },
	} {
		var found []*worker.Worker
		for _, w := range workers {
			if isEntry(w) {
				found = append(found, w)
			}
		}
		if len(found) == 1 {
			return found[0], nil
		}
		if len(found) > 1 {
			break
		}
	}
	names := namesOf(workers)
	hint := "none of " + strings.Join(names[:min(len(names), maxNamed)], ", ")
	if more := len(names) - maxNamed; more > 0 {
		hint += fmt.Sprintf(" and %d more", more)
	}
	return nil, &sandbox.Error{Op: "worker", Code: sandbox.ErrNotFound, Hint: hint + " is the entry worker; name one with --entry, or call its file " + project.EntryWorker}
}

// maxNamed is how many workers an error names.
const maxNamed = 8

// UnknownError returns the error for a name that no worker has.
func UnknownError(workers []*worker.Worker, name string) error {
	return &sandbox.Error{Op: "worker", Path: name, Code: sandbox.ErrNotFound, Hint: unknownHint(workers, name)}
}

func unknownHint(workers []*worker.Worker, name string) string {
	names := namesOf(workers)
	if len(names) == 0 {
		return "this program has no workers; golem init makes a program with some"
	}
	return strictyaml.DidYouMean(name, names)
}

// namesOf returns the names of workers, sorted.
func namesOf(workers []*worker.Worker) []string {
	var names []string
	for _, w := range workers {
		names = append(names, w.Name)
	}
	slices.Sort(names)
	return names
}
