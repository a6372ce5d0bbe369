package program

import (
	"os"

	"github.com/golem-forge/golem/internal/audit"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/session"
	"github.com/golem-forge/golem/internal/visible"
	"github.com/golem-forge/golem/sandbox"
)

// propose stores a new worker for the user to review.
func (r *Run) propose(name, description, prompt string) (string, error) {
	taken := toolNames()
	for _, w := range r.Gate.program.Workers {
		taken = append(taken, w.Name)
	}
	w, err := session.NewProposal(name, description, prompt, taken)
	if err != nil {
		return "", err
	}
	if err := r.Gate.Session.Propose(w); err != nil {
		return "", err
	}
	return "proposed: " + name + " waits for the user, and cannot be called in this run", nil
}

// AcceptProposal writes a proposed worker into the program. It records that in the
// journal first. The worker can be called once the user trusts the program again.
func (p *Program) AcceptProposal(s *session.Session, w session.Proposal, secrets []string) (file string, err error) {
	if p.Worker(w.Name) != nil {
		return "", &sandbox.Error{Op: "accept", Path: w.Name, Code: sandbox.ErrExists, Hint: "the program has such a worker"}
	}
	root, err := os.OpenRoot(p.root)
	if err != nil {
		return "", visible.FileError("the program", err)
	}
	defer root.Close()
	records, err := p.Storage.OpenRecords()
	if err != nil {
		return "", err
	}
	defer records.Close()
	record := audit.Record{Kind: audit.Answer, Origin: policy.User.String(), Decision: "yes", By: "user", Note: "accepts the worker " + w.Name + " of session " + s.ID}
	if err := records.Write(record, secrets); err != nil {
		return "", err
	}
	if file, err = w.Write(root); err != nil {
		return "", err
	}
	return file, s.RemoveProposal(w)
}
