package program

import (
	"cmp"
	"strings"

	"github.com/golem-forge/golem/internal/calltree"
	"github.com/golem-forge/golem/internal/run"
	"github.com/golem-forge/golem/internal/worker"
	"github.com/golem-forge/golem/sandbox"
)

// A WorkerModel is the model that a worker names in its own file.
type WorkerModel struct {
	run.Choice
	Fallbacks []run.Choice // models to ask if it does not answer
	Context   int64        // how many tokens it takes, 0 if that is not known
}

// ChosenModel returns the model that a flag or variable sets for all workers of a run, ""
// if none does.
func ChosenModel(p *Program) string {
	if from := p.Project.PlaceOf("model").Source; from == "GOLEM_MODEL" || strings.HasPrefix(from, "--") {
		return p.Project.Model
	}
	return ""
}

// EntryModel returns the model of the entry worker: the one that is set for all workers,
// or that of its file, or that of the project. It is "" if nobody names one.
func EntryModel(p *Program) string {
	own := ""
	if p.Entry != nil {
		own = p.Entry.Model.Text
	}
	return cmp.Or(ChosenModel(p), own, p.Project.Model)
}

// WorkersWithModel returns the workers that the entry worker may call, at any depth, and
// that name a model in their files.
func WorkersWithModel(p *Program) (list []*worker.Worker) {
	var visit func(s *calltree.Step)
	visit = func(s *calltree.Step) {
		for _, call := range s.Calls {
			if call.Worker.Model.Text != "" && !call.Repeated && !call.Circular {
				list = append(list, call.Worker)
			}
			visit(call)
		}
	}
	if top := p.Tree(); top != nil {
		visit(top)
	}
	return list
}

// CheckModel returns an error if a policy forbids a model. how says how to choose another.
func CheckModel(p *Program, name, how string) error {
	place, denied := p.Project.Ceiling.DeniedModel(name)
	if !denied {
		return nil
	}
	return &sandbox.Error{Op: "run", Path: name, Code: "blocked", Hint: place.String() + " lists the models that may be used; " + how}
}

// modelOf returns the model of a worker in a run: its own, or that of its nearest caller with
// one, or that of the run.
func (r *Run) modelOf(step *calltree.Step) WorkerModel {
	for at := step; at != nil && at.Parent != nil; at = at.Parent {
		if m, ok := r.job.Models[at.Worker.Name]; ok {
			return m
		}
	}
	return WorkerModel{run.Choice{Name: r.job.ModelName, Model: r.job.Model}, r.job.Fallbacks, r.job.Context}
}
