package program

import (
	"cmp"
	"strings"

	"github.com/golem-forge/golem/internal/work/calltree"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/run"
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
func ChosenModel(p *project.Project) string {
	if from := p.PlaceOf("model").Source; from == "GOLEM_MODEL" || strings.HasPrefix(from, "--") {
		return p.Model
	}
	return ""
}

// EntryModel returns the model of the entry worker: the one that is set for all workers,
// or that of its file, or that of the project. It is "" if nobody names one.
func (p *Program) EntryModel() string {
	own := ""
	if p.Entry != nil {
		own = p.Entry.Model.Text
	}
	return cmp.Or(ChosenModel(p.Project), own, p.Project.Model)
}

// CheckModel returns an error if a policy forbids a model. how says how to choose another.
func CheckModel(c project.Ceiling, name, how string) error {
	place, denied := c.DeniedModel(name)
	if !denied {
		return nil
	}
	return &sandbox.Error{Op: "run", Path: name, Code: "blocked", Hint: place.String() + " lists the models that may be used; " + how}
}

// CheckServer returns an error if a policy forbids a server for a model.
func CheckServer(c project.Ceiling, name, server string) error {
	place, denied := c.DeniedServer(server)
	if !denied {
		return nil
	}
	return &sandbox.Error{Op: "run", Path: name, Code: "blocked", Hint: place.String() + " does not allow its server " + sandbox.Shown(server) + "; use the vendor's own, or add its host to network.allow there"}
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
