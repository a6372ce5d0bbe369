package program

import (
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/audit"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/session"
	"github.com/golem-forge/golem/internal/strictyaml"
	"github.com/golem-forge/golem/internal/visible"
	"github.com/golem-forge/golem/internal/worker"
	"github.com/golem-forge/golem/sandbox"
)

// propose stores a new worker for the user to review.
func (r *Run) propose(name, description, prompt string) (string, error) {
	p := r.Gate.program
	problem := func(hint string) error {
		return &sandbox.Error{Op: "worker_create", Path: name, Code: "invalid_args", Hint: hint}
	}
	if slices.Contains(toolNames(), name) || p.Worker(name) != nil {
		return "", problem("a worker with this name exists; choose another name")
	}
	if strings.TrimSpace(prompt) == "" {
		return "", problem("instructions: they are empty")
	}
	content := "---\ndescription: " + quoted(description) + "\n---\n" + strings.TrimSpace(prompt) + "\n"
	w, err := worker.Parse(name+".worker", []byte(content))
	var wrong strictyaml.Problems
	if errors.As(err, &wrong) {
		return "", problem(wrong[0].What + "; " + wrong[0].Hint)
	}
	if err != nil || w.Name != name {
		return "", problem("no worker can be called so")
	}
	if err := r.Gate.Session.Propose(session.Proposal{Name: name, Content: content}); err != nil {
		return "", err
	}
	return "proposed: " + name + " waits for the user, and cannot be called in this run", nil
}

// quoted returns a text as a YAML string, with spaces in place of line breaks.
func quoted(text string) string {
	return "'" + strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "'", "''") + "'"
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
	records, err := p.OpenRecords()
	if err != nil {
		return "", err
	}
	defer records.Close()
	record := audit.Record{Kind: audit.Answer, Origin: policy.User.String(), Decision: "yes", By: "user", Note: "accepts the worker " + w.Name + " of session " + s.ID}
	if err := records.write(record, secrets); err != nil {
		return "", err
	}
	if err := root.MkdirAll("workers", 0o777); err != nil {
		return "", visible.FileError("workers", err)
	}
	file = "workers/" + w.Name + ".worker"
	f, err := root.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return "", visible.FileError(file, err)
	}
	_, err = f.WriteString(w.Content)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", visible.FileError(file, err)
	}
	return file, s.RemoveProposal(w)
}
