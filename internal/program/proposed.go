package program

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/audit"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/strictyaml"
	"github.com/golem-forge/golem/internal/visible"
	"github.com/golem-forge/golem/internal/worker"
	"github.com/golem-forge/golem/sandbox"
)

// proposedName is the folder of a session for workers that were proposed in it.
const proposedName = "proposed"

// maxProposed is how many wait at a time.
const maxProposed = 64

// A Proposal is a worker that another has written. It has no effect before the user
// puts it into the program.
type Proposal struct {
	Name    string `json:"name"`
	Content string `json:"content"` // of the file
}

// propose keeps a new worker for the user to look at.
func (r *Run) propose(name, description, prompt string) (string, error) {
	p := r.Gate.program
	problem := func(hint string) error {
		return &sandbox.Error{Op: "worker_create", Path: name, Code: "invalid_args", Hint: hint}
	}
	if slices.Contains(toolNames(), name) || p.Worker(name) != nil {
		return "", problem("the name is taken; choose another")
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
	dir := filepath.Join(r.Gate.Session.dir, proposedName)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", visible.FileError("the proposal", err)
	}
	if there, err := os.ReadDir(dir); err != nil || len(there) >= maxProposed {
		return "", problem(fmt.Sprintf("%d proposals are the most in a session; nothing was kept", maxProposed))
	}
	// What the user has looked at stays as it is.
	f, err := os.OpenFile(filepath.Join(dir, name+".worker"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return "", problem("it is proposed already; choose another name")
	}
	if err == nil {
		_, err = f.WriteString(content)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return "", visible.FileError("the proposal", err)
	}
	return "proposed: " + name + " waits for the user, and cannot be called in this run", nil
}

// quoted writes a text as YAML that is read as the same text.
func quoted(text string) string {
	return "'" + strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "'", "''") + "'"
}

// Proposals returns the workers that were proposed in a session.
func (p *Program) Proposals(s *Session) ([]Proposal, error) {
	dir := filepath.Join(s.dir, proposedName)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, visible.FileError("the proposals", err)
	}
	var list []Proposal
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".worker")
		if !ok {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, visible.FileError(e.Name(), err)
		}
		list = append(list, Proposal{name, string(data)})
	}
	return list, nil
}

// Accept puts a proposed worker into the program, as it was read. It is in the journal
// before it is there; to be called it needs the program to be trusted again.
func (p *Program) Accept(s *Session, w Proposal, secrets []string) (file string, err error) {
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
	return file, errors.Join(os.Remove(filepath.Join(s.dir, proposedName, w.Name+".worker")))
}

// Proposed returns one of the proposals.
func (p *Program) Proposed(s *Session, name string) (Proposal, error) {
	list, err := p.Proposals(s)
	if err != nil {
		return Proposal{}, err
	}
	var names []string
	for _, w := range list {
		if w.Name == name {
			return w, nil
		}
		names = append(names, w.Name)
	}
	hint := fmt.Sprintf("none was proposed in session %s; --session names another", s.ID)
	if len(names) > 0 {
		hint = "proposed in session " + s.ID + ": " + strings.Join(names, ", ")
	}
	return Proposal{}, &sandbox.Error{Op: "accept", Path: name, Code: sandbox.ErrNotFound, Hint: hint}
}
