package target

import (
	"cmp"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	gittools "github.com/golem-forge/golem/internal/work/toolset/git"
	"github.com/golem-forge/golem/internal/work/worker"
	"github.com/golem-forge/golem/sandbox"
)

// Targets are the repositories that the user pushes results to.
type Targets struct {
	Project *project.Project
	Workers []*worker.Worker
	Entry   *worker.Worker // nil if there is none
	Root    string         // the program's directory
	Home    string         // for ~
}

// List returns the targets of the project, and those that workers define themselves.
func (r Targets) List() []project.Target {
	all := slices.Clone(r.Project.Targets)
	for _, w := range r.Workers {
		if w.Git.Inline != nil {
			all = append(all, r.inline(w))
		}
	}
	return all
}

// inlineName returns the name of the target that a worker defines.
func (r Targets) inlineName(w *worker.Worker) string {
	if w == r.Entry {
		return "default"
	}
	return "default-" + w.Name
}

// inline returns the target that a worker defines. A relative path starts at the program.
func (r Targets) inline(w *worker.Worker) project.Target {
	in := w.Git.Inline
	t := project.Target{Name: r.inlineName(w), Type: in.Type, URL: in.URL, Repo: in.Repo, Branch: in.Branch, At: "/workspace", From: in.Place}
	if in.Path != "" {
		dir := in.Path
		if home, ok := strings.CutPrefix(dir, "~"); ok && (home == "" || home[0] == '/') {
			dir = r.Home + home
		}
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(r.Root, dir)
		}
		t.Path = sandbox.Host(filepath.Clean(dir))
	}
	if slices.ContainsFunc(r.Project.Mounts, func(m project.Mount) bool { return m.Target == "/" }) {
		t.At = "/"
	}
	return t
}

// GitTools returns the git tools of a worker, for listing.
func (r Targets) GitTools(w *worker.Worker) gittools.Set {
	most := r.Project.ClearanceLimits
	s := gittools.Set{Limits: gittools.Limits{Files: most.MaxFiles, Bytes: most.MaxBytes, Ratio: clearance.Limit(most.MaxPercent) / 100}}
	for _, t := range r.List() {
		s.Targets = append(s.Targets, gittools.Target{Name: t.Name, Type: t.Type, Branch: t.Branch, At: t.At, Address: addressOf(t)})
	}
	if w != nil {
		s.Default = w.Git.Target
		if w.Git.Inline != nil {
			s.Default = r.inlineName(w)
		}
	}
	s.Outside = outsideMounts(r.Project.Mounts)
	return s
}

// addressOf returns the address of a target on another machine.
func addressOf(t project.Target) string {
	if t.Repo != "" {
		return strings.TrimRight(cmp.Or(t.URL, "https://github.com"), "/") + "/" + t.Repo
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
		if m.HostDir() != filepath.Join(over.HostDir(), filepath.FromSlash(rel)) {
			list = append(list, m.Target)
		}
	}
	return list
}

// Lint returns the problems with the targets that workers define.
func (r Targets) Lint() strictyaml.Problems {
	var problems strictyaml.Problems
	for _, w := range r.Workers {
		if w.Git.Inline == nil {
			continue
		}
		name := r.inlineName(w)
		if slices.ContainsFunc(r.Project.Targets, func(t project.Target) bool { return t.Name == name }) {
			problems.Add(strictyaml.Node{Place: w.Git.Inline.Place}, "default_target: "+name+" is a target of the project's", "name that one: default_target: "+name)
		}
		if t := r.inline(w); !slices.ContainsFunc(r.Project.Mounts, func(m project.Mount) bool {
			return m.Target == t.At || path.Dir(m.Target) == t.At || t.At == "/"
		}) {
			problems.Add(strictyaml.Node{Place: w.Git.Inline.Place}, "default_target: no mount is at "+t.At+", where its root would stand", "write the target in the project's clearance.targets, with at:")
		}
	}
	return problems
}
