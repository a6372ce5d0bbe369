package git

import (
	"context"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/sandbox"
)

// This file holds the tools of the TypeScript version that name a repository, such as
// user/reports, in place of a target. Other older names need no tool of their own: see
// policy.CurrentToolName.

// oldTools returns the tools.
func (s Set) oldTools() []tool.Tool {
	type pullOld struct {
		Repo   string   `json:"repo,omitempty" jsonschema:"the repository, such as user/reports, or the name of a target"`
		Paths  []string `json:"paths" jsonschema:"files and directories of the repository"`
		Branch string   `json:"branch,omitempty" jsonschema:"the branch; otherwise the one of the configuration"`
	}
	type stageOld struct {
		Files   []string `json:"files" jsonschema:"files, and directories with their contents; missing files are staged as deleted"`
		Repo    string   `json:"repo,omitempty" jsonschema:"the repository, such as user/reports, or the name of a target"`
		Branch  string   `json:"branch,omitempty" jsonschema:"the branch; otherwise the one of the configuration"`
		Message string   `json:"message" jsonschema:"what was done, and why"`
	}
	var list []tool.Tool
	for _, name := range []string{"pullFromGit", "gitPull"} {
		t := newTool(name, "An older form of git_pull.")
		t.Verbs, t.UsesNetwork = []policy.Verb{policy.Write}, true
		list = append(list, tool.New(t, func(ctx context.Context, names tool.Names, a pullOld) (tool.Plan, error) {
			target, err := s.findRepository("git_pull", a.Repo)
			if err != nil {
				return tool.Plan{}, err
			}
			return s.planPull(ctx, names, pullArgs{Paths: a.Paths, Target: target, Branch: a.Branch})
		}).Alias("git_pull"))
	}
	for _, name := range []string{"stageForPush", "gitStage"} {
		t := newTool(name, "An older form of git_stage.")
		t.Verbs, t.ChangesState = []policy.Verb{policy.Read}, true
		list = append(list, tool.New(t, func(ctx context.Context, names tool.Names, a stageOld) (tool.Plan, error) {
			target, err := s.findRepository("git_stage", a.Repo)
			if err != nil {
				return tool.Plan{}, err
			}
			return s.planStage(ctx, names, stageArgs{Files: a.Files, Message: a.Message, Target: target, Branch: a.Branch})
		}).Alias("git_stage"))
	}
	return list
}

// findRepository returns the name of the target for a repository: the target of that
// name, or the only one with that repository. An empty repository is an empty name.
func (s Set) findRepository(op, repo string) (string, error) {
	if repo == "" || slices.ContainsFunc(s.Targets, func(t Target) bool { return t.Name == repo }) {
		return repo, nil
	}
	var found, known []string
	for _, t := range s.Targets {
		if address := strings.TrimSuffix(t.Address, ".git"); strings.HasSuffix(address, "/"+repo) || strings.HasSuffix(address, ":"+repo) {
			found = append(found, t.Name)
		}
		name := t.Name
		if t.Address != "" {
			name += " (" + t.Address + ")"
		}
		known = append(known, name)
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", &sandbox.Error{Op: op, Path: repo, Code: sandbox.ErrNotFound, Hint: "no target has this repository; the targets are " + strings.Join(known, ", ") + "; name one of them as repo"}
	}
	return "", &sandbox.Error{Op: op, Path: repo, Code: sandbox.ErrInvalid, Hint: "several targets have this repository: " + strings.Join(found, ", ") + "; name one of them as repo"}
}
