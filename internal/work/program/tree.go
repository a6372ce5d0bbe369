package program

import (
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/work/calltree"
	"github.com/golem-forge/golem/internal/work/foreigntools"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/run"
	"github.com/golem-forge/golem/sandbox"
)

// calls returns which worker of the program may call which.
func (p *Program) calls() calltree.Tree {
	return calltree.Tree{Root: p.root, Project: p.Project, Workers: p.Workers, Entry: p.Entry, Complete: p.complete, Tools: toolNames()}
}

// Tree returns the entry worker and all that it may call, nil if there is no entry worker.
func (p *Program) Tree() *calltree.Step { return p.calls().Top() }

// reach returns the step of a worker, "" for the entry worker. It returns nil if no name is
// given and the program has no worker at all: then the project file is its only limit.
func (p *Program) reach(name string) (*calltree.Step, error) {
	if name == "" && p.Entry == nil {
		return nil, p.CheckEntry()
	}
	if name == "" {
		name = p.Entry.Name
	}
	w := p.Worker(name)
	if w == nil {
		return nil, calltree.UnknownError(p.Workers, name)
	}
	if s := p.Tree().Find(name); s != nil {
		return s, nil
	}
	return nil, &sandbox.Error{Op: "worker", Path: name, Code: sandbox.ErrNotFound,
		Hint: "no worker may call it; name it under workers.allowed_workers of one that is called, or choose it with --entry"}
}

// foreign returns the custom tools and MCP servers of the program.
func (p *Program) foreign() foreigntools.Tools {
	return foreigntools.Tools{Workers: p.Workers, Files: p.toolFiles, State: p.Storage.Sessions.State, Reserved: append(toolNames(), "exec"), Named: append(policyTools(), toolNames()...), Now: p.options.Now}
}

// Attachments returns the reader of files that the user attaches for the entry worker.
func (p *Program) Attachments() (run.Attachments, error) {
	a := run.Attachments{Root: p.root, Project: p.Project}
	step, err := p.reach("")
	if step != nil {
		a.Worker, a.Policy = step.Worker, step.Grant.Attachments
	}
	return a, err
}

// Attach reads files of the user for the entry worker, within its attachment policy.
func (p *Program) Attach(names []string) ([]model.File, error) {
	a, err := p.Attachments()
	if err != nil || len(names) == 0 {
		return nil, err
	}
	return a.Read(names)
}

func joinSorted(names []string) string {
	names = slices.Clone(names)
	slices.Sort(names)
	return strings.Join(names, ", ")
}
