package program

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/explain"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/project"
	"github.com/golem-forge/golem/internal/strictyaml"
	"github.com/golem-forge/golem/internal/worker"
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

// calledBy reports whether a worker is this one or one of its callers.
func (s *Step) calledBy(w *worker.Worker) bool {
	return s != nil && (s.Worker == w || s.Parent.calledBy(w))
}

// A callTree knows which worker may call which.
type callTree struct {
	root     string // the program's directory
	project  *project.Project
	workers  []*worker.Worker
	entry    *worker.Worker // nil if there is none
	complete bool           // no worker file is missing from workers because of an error
	foreign  foreignTools
}

func (p *Program) calls() callTree {
	return callTree{p.root, p.Project, p.Workers, p.Entry, p.complete, p.foreign()}
}

// Tree returns the entry worker and all that it may call, nil if there is no entry worker.
func (p *Program) Tree() *Step { return p.calls().top() }

// top returns the entry worker and all that it may call, each with its share of the
// project's grant. The calls of a worker are listed once, where it is nearest to the top.
func (c callTree) top() *Step {
	if c.entry == nil || c.project == nil {
		return nil
	}
	top := c.step(nil, c.entry)
	unfolded := map[*worker.Worker]bool{c.entry: true}
	for queue := []*Step{top}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if at.Grant.Depth < 1 {
			continue
		}
		for _, w := range c.callees(at.Worker) {
			child := c.step(at, w)
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

func (c callTree) step(parent *Step, w *worker.Worker) *Step {
	s := &Step{Worker: w, Parent: parent}
	ceiling := c.project.Grant()
	if parent != nil {
		ceiling = parent.Grant
		ceiling.Depth--
	}
	s.Grant, s.Problems = w.Grant(ceiling, c.locate, parent == nil)
	return s
}

// callees returns the existing workers that a worker may call.
func (c callTree) callees(w *worker.Worker) []*worker.Worker {
	var list []*worker.Worker
	for _, other := range c.workers {
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

// reach returns the step of a worker; nil if no name is given and there is no entry
// worker.
func (p *Program) reach(name string) (*Step, error) {
	if name == "" && p.Entry == nil {
		return nil, nil
	}
	if name == "" {
		name = p.Entry.Name
	}
	w := p.Worker(name)
	if w == nil {
		return nil, unknownWorker(p.Workers, name)
	}
	if s := p.Tree().Find(name); s != nil {
		return s, nil
	}
	return nil, &sandbox.Error{Op: "worker", Path: name, Code: sandbox.ErrNotFound,
		Hint: "no worker may call it; name it under workers.allowed_workers of one that is called, or choose it with --entry"}
}

// locate returns the virtual path at which the project shows a directory of the host.
func (c callTree) locate(folder string) (string, bool) {
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(c.root, folder)
	}
	best, length := "", -1
	for _, m := range c.project.Mounts {
		source := string(m.Source)
		if m.Base != "" {
			source = filepath.Join(string(m.Base), source)
		}
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

// lint returns problems between the files of a program: workers that ask for more than
// their callers have, and calls of workers that do not exist.
func (c callTree) lint() strictyaml.Problems {
	var problems strictyaml.Problems
	for _, w := range c.workers {
		for _, call := range w.Calls() {
			if c.complete && call.Text != "*" && workerNamed(c.workers, call.Text) == nil {
				err := unknownWorker(c.workers, call.Text)
				problems.Add(call, "no worker "+sandbox.Shown(call.Text), hintOf(err))
			}
		}
	}
	for _, w := range c.workers {
		problems = append(problems, c.lintNames(w)...)
	}
	all, err := c.project.Sandbox(explain.ProbeMount)
	if err != nil {
		problems.Add(strictyaml.Node{Place: strictyaml.Place{Source: c.project.File}}, err.Error(), "fix the mount, or remove it")
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
	top := c.top()
	if top != nil {
		visit(top)
	}
	// A worker that nobody calls is compared with the project itself.
	for _, w := range c.workers {
		if ownPaths := c.project.File == "" && w.Sandbox.Kind == worker.Paths; !ownPaths && top.Find(w.Name) == nil {
			visit(c.step(nil, w))
		}
	}
	return problems
}

// lintNames returns a problem for each unknown tool or target: a rule about it would have
// no effect.
func (c callTree) lintNames(w *worker.Worker) strictyaml.Problems {
	var problems strictyaml.Problems
	for _, r := range w.Rules {
		if r.Verb == policy.Use && r.Target != "*" && !slices.Contains(toolNames(), policy.CurrentToolName(r.Target)) && workerNamed(c.workers, r.Target) == nil && !c.isForeign(r.Target) {
			problems.Add(strictyaml.Node{Place: strictyaml.Place{Source: r.From}}, "no tool "+sandbox.Shown(r.Target), didYouMean(r.Target, toolNames()))
		}
	}
	var targets []string
	for _, t := range c.project.Targets {
		targets = append(targets, t.Name)
	}
	if t, ok := w.Toolset("git"); ok && w.Git.Target != "" && !slices.Contains(targets, w.Git.Target) {
		problems.Add(strictyaml.Node{Place: t.Place}, "no target "+sandbox.Shown(w.Git.Target), didYouMean(w.Git.Target, targets))
	}
	return problems
}

// isForeign reports whether a name can be that of a foreign tool.
func (c callTree) isForeign(name string) bool {
	return c.foreign.isCustom(name) || slices.ContainsFunc(c.workers, func(w *worker.Worker) bool {
		return slices.ContainsFunc(w.Servers, func(s worker.Server) bool { return strings.HasPrefix(name, s.Name+"_") })
	})
}

func didYouMean(word string, among []string) string {
	if near := sandbox.Nearest(word, among); len(near) > 0 {
		return "did you mean " + near[0] + "?"
	}
	if len(among) == 0 {
		return "the project has none"
	}
	return "there are " + joinSorted(among)
}

func hintOf(err error) string {
	if e, ok := err.(*sandbox.Error); ok {
		return e.Hint
	}
	return ""
}

func joinSorted(names []string) string {
	names = slices.Clone(names)
	slices.Sort(names)
	return strings.Join(names, ", ")
}
