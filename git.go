package golem

import (
	"context"
	"encoding/json"

	"github.com/golem-forge/golem/gate"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/sandbox"
)

// A GitBackend moves files between a program's files and repositories. [Runtime.Git] returns the
// one that golem has. A program may have another, for tests.
type GitBackend interface {
	// Pull copies files of a repository into the program's files.
	Pull(ctx context.Context, target string, paths ...string) error
	// Stage keeps files as a commit, exactly as they are now, for a review.
	Stage(ctx context.Context, target, message string, files ...string) (StagedCommit, error)
	// Staged lists the commits that wait.
	Staged(ctx context.Context) ([]StagedCommit, error)
	// Discard removes a commit that waits.
	Discard(ctx context.Context, id string) error
	// Push sends a commit to its repository, and returns the hash that it has there.
	Push(ctx context.Context, id string) (hash string, err error)
}

// A StagedCommit is a commit that waits for a review.
type StagedCommit struct {
	ID      string `json:"id"`
	Target  string `json:"target"` // the name of a configured repository
	Branch  string `json:"branch"`
	Message string `json:"message"`
	Files   []struct {
		Path      string `json:"path"`
		Operation string `json:"operation"` // create, update or delete
	} `json:"files"`
}

// Git returns the repositories of the program, as its user sees them. The approver is asked about
// every change. Only a person pushes: workers have no tool for it.
func (r *Runtime) Git(a gate.Approver) GitBackend { return userGit{r, a} }

// userGit calls the git tools of the entry worker for the user.
type userGit struct {
	runtime  *Runtime
	approver gate.Approver
}

// Pull implements GitBackend.
func (g userGit) Pull(ctx context.Context, target string, paths ...string) error {
	return g.call(ctx, "git_pull", map[string]any{"target": target, "paths": paths}, nil)
}

// Stage implements GitBackend.
func (g userGit) Stage(ctx context.Context, target, message string, files ...string) (StagedCommit, error) {
	var staged struct {
		CommitID string `json:"commitId"`
		StagedCommit
	}
	err := g.call(ctx, "git_stage", map[string]any{"target": target, "message": message, "files": files}, &staged)
	staged.ID, staged.Message = staged.CommitID, message
	return staged.StagedCommit, err
}

// Staged implements GitBackend.
func (g userGit) Staged(ctx context.Context) ([]StagedCommit, error) {
	var all struct{ Staged []StagedCommit }
	err := g.call(ctx, "git_list_staged", map[string]any{}, &all)
	return all.Staged, err
}

// Discard implements GitBackend.
func (g userGit) Discard(ctx context.Context, id string) error {
	return g.call(ctx, "git_discard", map[string]any{"commitId": id}, nil)
}

// Push implements GitBackend.
func (g userGit) Push(ctx context.Context, id string) (string, error) {
	var pushed struct {
		Hash string `json:"commitSha"`
	}
	err := g.call(ctx, "git_push", map[string]any{"commitId": id}, &pushed)
	return pushed.Hash, err
}

// call makes a call for the user, and reads its data.
func (g userGit) call(ctx context.Context, name string, args map[string]any, into any) (err error) {
	defer code(name, &err)
	if err := g.runtime.check(); err != nil {
		return err
	}
	for key, value := range args {
		if value == "" {
			delete(args, key)
		}
	}
	text, err := json.Marshal(args)
	if err != nil {
		return err
	}
	opened, err := g.runtime.program.OpenWorker(program.WorkerOptions{SingleCall: true, Tools: []string{name}})
	if err != nil {
		return err
	}
	r := gate.Over(opened.Gate, g.approver, g.runtime.options.Key, string(g.runtime.program.Root()), g.runtime.options.use).Do(ctx, gate.User, gate.Call{Tool: name, Args: text})
	if err := opened.Close(); err != nil {
		return err
	}
	if r.Err != nil {
		return r.Err
	}
	if into == nil {
		return nil
	}
	data, err := json.Marshal(r.Data)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return &sandbox.Error{Op: name, Code: sandbox.ErrInternal, Hint: "the result has another form: " + err.Error()}
	}
	return nil
}
