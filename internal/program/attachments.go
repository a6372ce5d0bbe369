package program

import (
	"github.com/golem-forge/golem/internal/calltree"
	"github.com/golem-forge/golem/internal/model"
	"github.com/golem-forge/golem/internal/run"
)

// Attach reads files of the user for the entry worker, within its attachment policy.
func (p *Program) Attach(names []string) ([]model.File, error) {
	if len(names) == 0 {
		return nil, nil
	}
	step, err := p.reach("")
	if err != nil {
		return nil, err
	}
	return attachmentsOf(p, step).Read(names)
}

// AttachData returns content without a file as a file for the entry worker of p, beside the
// files that it gets already, within its attachment policy.
func AttachData(p *Program, name string, data []byte, before []model.File) (model.File, error) {
	step, err := p.reach("")
	if err != nil {
		return model.File{}, err
	}
	return attachmentsOf(p, step).Add(name, data, before)
}

// attachmentsOf returns the reader of files that the user attaches for a worker, nil for
// none.
func attachmentsOf(p *Program, step *calltree.Step) run.Attachments {
	a := run.Attachments{Root: p.root, Project: p.Project}
	if step != nil {
		a.Worker, a.Policy = step.Worker, step.Grant.Attachments
	}
	return a
}
