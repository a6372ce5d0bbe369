package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/internal/work/worker"
	"github.com/golem-forge/golem/sandbox"
)

// proposedName is the directory of a session for proposed workers.
const proposedName = "proposed"

// maxProposed is how many proposals a session holds.
const maxProposed = 64

// A Proposal is a worker that another worker has written. It has no effect until the user
// accepts it.
type Proposal struct {
	Name    string `json:"name"`
	Content string `json:"content"` // the content of the file
}

// Proposals returns the workers that were proposed in the session.
func (s *Session) Proposals() ([]Proposal, error) {
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

// Proposal returns the proposal with a name.
func (s *Session) Proposal(name string) (Proposal, error) {
	list, err := s.Proposals()
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
	hint := fmt.Sprintf("none was proposed in session %s; --session NAME chooses another, golem sessions lists them", naming.Label(s))
	if len(names) > 0 {
		hint = "proposed in session " + naming.Label(s) + ": " + strings.Join(names, ", ")
	}
	return Proposal{}, &sandbox.Error{Op: "accept", Path: name, Code: sandbox.ErrNotFound, Hint: hint}
}

// NewProposal returns a worker that another worker has written. taken are names that no
// worker may have.
func NewProposal(name, description, prompt string, taken []string) (Proposal, error) {
	problem := func(hint string) (Proposal, error) {
		return Proposal{}, &sandbox.Error{Op: "worker_create", Path: name, Code: "invalid_args", Hint: hint}
	}
	if slices.Contains(taken, name) {
		return problem("a worker with this name exists; choose another name")
	}
	if strings.TrimSpace(prompt) == "" {
		return problem("instructions: they are empty")
	}
	content := "---\ndescription: " + quoteYAML(description) + "\n---\n" + strings.TrimSpace(prompt) + "\n"
	w, err := worker.Parse(name+".worker", []byte(content))
	var wrong strictyaml.Problems
	if errors.As(err, &wrong) {
		return problem(wrong[0].What + "; " + wrong[0].Hint)
	}
	if err != nil || w.Name != name {
		return problem("no worker can be called so")
	}
	return Proposal{Name: name, Content: content}, nil
}

// quoteYAML returns a text as a YAML string, with spaces in place of line breaks.
func quoteYAML(text string) string {
	return "'" + strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "'", "''") + "'"
}

// Write writes the worker into a program's directory, unless the file exists.
func (w Proposal) Write(root *os.Root) (file string, err error) {
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
	return file, nil
}

// Propose keeps a new proposal for the user to review. It does not replace one with the
// same name: the user may have reviewed that already.
func (s *Session) Propose(w Proposal) error {
	problem := func(hint string) error {
		return &sandbox.Error{Op: "worker_create", Path: w.Name, Code: "invalid_args", Hint: hint}
	}
	dir := filepath.Join(s.dir, proposedName)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return visible.FileError("the proposal", err)
	}
	if there, err := os.ReadDir(dir); err != nil || len(there) >= maxProposed {
		return problem(fmt.Sprintf("a session has at most %d proposals; nothing was saved", maxProposed))
	}
	f, err := os.OpenFile(filepath.Join(dir, w.Name+".worker"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return problem("it is proposed already; choose another name")
	}
	if err == nil {
		_, err = f.WriteString(w.Content)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return visible.FileError("the proposal", err)
	}
	return nil
}

// RemoveProposal removes a proposal.
func (s *Session) RemoveProposal(w Proposal) error {
	return os.Remove(filepath.Join(s.dir, proposedName, w.Name+".worker"))
}
