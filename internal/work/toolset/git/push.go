package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// PushArgs are the arguments of git_push.
type PushArgs struct {
	CommitID string   `json:"commitId,omitempty" jsonschema:"the id, or the beginning of it; not needed if only one commit waits"`
	Commit   string   `json:"commit,omitempty" jsonschema:"the same as commitId"`
	Target   string   `json:"target,omitempty" jsonschema:"the name of a configured repository"`
	Remote   string   `json:"remote,omitempty" jsonschema:"the same as target"`
	Branch   string   `json:"branch,omitempty" jsonschema:"the branch that it was staged for"`
	Override []string `json:"override,omitempty" jsonschema:"push a file that a scanner holds back: PATH=REASON; the journal records the reason"`
	Unseen   bool     `json:"unseen,omitempty" jsonschema:"also push files that are too large to show"`
}

// ToolName implements tool.Arguments.
func (PushArgs) ToolName() string { return "git_push" }

// push returns the tool with which the user pushes a staged commit.
func (s Set) push() tool.Tool {
	const op = "git_push"
	about := tool.Tool{Name: op, Toolset: "git", Mode: policy.Manual, AlwaysAsk: true, Label: "Push to Remote", Category: "Git Operations",
		Description: "Push a staged commit, exactly as it was reviewed, to the repository it was staged for. It always asks and never forces. If the branch has moved, that is a conflict, and the commit still waits."}
	return tool.New(about, func(ctx context.Context, _ tool.Names, a PushArgs) (tool.Plan, error) {
		if a.Commit != "" && a.CommitID != "" && a.Commit != a.CommitID {
			return tool.Plan{}, &sandbox.Error{Op: op, Code: "invalid_args", Hint: "commit and commitId are two names for one argument; write one of them"}
		}
		a.CommitID = cmp.Or(a.CommitID, a.Commit)
		commits, err := s.openCommits(ctx, op)
		if err != nil {
			return tool.Plan{}, err
		}
		c, err := s.findCommit(commits, a)
		if err != nil {
			return tool.Plan{}, err
		}
		prepare := func(ctx context.Context, _ *sandbox.Sandbox) (tool.Preparation, error) {
			if err := commits.Ready(ctx, c); err != nil {
				return tool.Preparation{}, s.targetOf(c).hidePath(err)
			}
			hooks, err := commits.Hooks(ctx, c)
			if err != nil {
				return tool.Preparation{}, err
			}
			l, err := s.examine(ctx, commits, c)
			if err != nil {
				return tool.Preparation{}, err
			}
			if err := l.checkOverrides(a.Override); err != nil {
				return tool.Preparation{}, err
			}
			changes, err := l.changesToShow(a)
			if err != nil {
				return tool.Preparation{}, err
			}
			run := func(ctx context.Context, _ *sandbox.Sandbox) (tool.Result, error) {
				shown, err := commits.WasShown(c.ID)
				if err != nil {
					return tool.Result{}, err
				}
				done, err := commits.Push(ctx, c.ID, c.Branch)
				if errors.Is(err, sandbox.ErrConflict) && s.targetOf(c).isRemote() {
					err = s.restageMoved(ctx, commits, c, err)
				}
				if err != nil {
					return tool.Result{}, s.targetOf(c).hidePath(err)
				}
				text := fmt.Sprintf("pushed %s to %s as %s", shortID(c.ID), s.describeDestination(c), done.CommitSHA)
				if shown || tool.WasSeen(ctx) {
					text += "; golem pushed exactly what you reviewed"
				} else {
					text += "; golem has not shown you all of it"
				}
				return tool.Result{Text: text, Brief: true, Data: done, Record: "pushed " + shortID(c.ID) + " to " + c.Target + " " + c.Branch + " as " + done.CommitSHA + describeOverrides(a.Override)}, nil
			}
			ready := tool.NewPreparation(run, changes...)
			ready.Summary = fmt.Sprintf("push %q (%s) to %s", firstLine(c.Message), visible.Count(len(c.Files), "file"), s.describeDestination(c))
			if len(hooks) > 0 {
				ready.Summary += ", and run the hooks of that repository (" + strings.Join(hooks, ", ") + ") as you, outside the jail"
			}
			ready.Warnings, ready.MoreWarnings = l.warnings()
			return ready, nil
		}
		plan := tool.NewChangePlan(prepare)
		if len(a.CommitID) < len(shortID(c.ID)) {
			plan.Guess = "without a question, a push names its commit with at least " + strconv.Itoa(len(shortID(c.ID))) + " digits; golem review shows it; then give --commit ID"
		}
		args := a
		args.CommitID, args.Commit, args.Target, args.Remote, args.Branch = c.ID, "", c.Target, "", c.Branch
		plan.Args = args
		return plan, nil
	})
}

// hidePath replaces the path of a file in an error by its virtual name. With these two
// codes the path is that of a file.
func (t Target) hidePath(err error) error {
	var wrong *sandbox.Error
	if !errors.As(err, &wrong) || wrong.Path == "" || wrong.Code != git.ErrDirty && wrong.Code != sandbox.ErrInternal {
		return err
	}
	named := *wrong
	named.Path = t.virtualName(wrong.Path)
	return &named
}

// restageMoved stages a commit again if its branch has moved, and returns the error that says
// so. The reviewed commit cannot be pushed, and the new one was not reviewed.
func (s Set) restageMoved(ctx context.Context, commits *clearance.Commits, c *clearance.StagedCommit, conflict error) error {
	r, err := s.Request(ctx)
	if err != nil {
		return err
	}
	again, err := commits.Again(ctx, c.ID, r)
	switch {
	case errors.Is(err, clearance.ErrUnmoved):
		return conflict // the conflict has another reason
	case err != nil:
		return err
	}
	what := "the branch has moved since this was staged"
	if c.Base == "" && c.From == "" {
		what = "it was never pulled, and it already has files"
	}
	id := shortID(again.ID)
	return &sandbox.Error{Op: "push", Path: c.Branch, Code: sandbox.ErrConflict, Hint: what + "; nothing was pushed; the same files are staged on it now, as " + id +
		" in place of " + shortID(c.ID) + ": look at them as they stand there with golem review " + id + ", then push that: golem review --accept " + id}
}

// findCommit returns the staged commit that the arguments name, or the only one for the
// target.
func (s Set) findCommit(commits *clearance.Commits, a PushArgs) (*clearance.StagedCommit, error) {
	const op = "git_push"
	if err := checkBranch(op, a.Branch); err != nil {
		return nil, err
	}
	target := ""
	if a.Target != "" || a.Remote != "" {
		t, err := s.findNamed(op, a.Target, a.Remote)
		if err != nil {
			return nil, err
		}
		target = t.Name
	}
	var c *clearance.StagedCommit
	var err error
	if a.CommitID != "" {
		c, err = commits.Get(a.CommitID)
	} else {
		c, err = s.findOnly(op, commits, target, a.Branch, nil)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case target != "" && target != c.Target:
		return nil, &sandbox.Error{Op: op, Path: target, Code: sandbox.ErrConflict, Hint: "this was staged for " + s.describeDestination(c) + "; push it there, or stage it for the other"}
	case a.Branch != "" && a.Branch != c.Branch:
		return nil, &sandbox.Error{Op: op, Path: a.Branch, Code: sandbox.ErrConflict, Hint: "this was staged for the branch " + sandbox.Shown(c.Branch) + "; push it there, or stage it for the other"}
	}
	return c, nil
}

// findOnly returns the only waiting commit for a target, "" for any. The function fits can
// exclude commits, and nil excludes none. If several remain, the branch decides.
func (s Set) findOnly(op string, commits *clearance.Commits, target, branch string, fits func(*clearance.StagedCommit) bool) (*clearance.StagedCommit, error) {
	list, err := commits.List()
	if err != nil {
		return nil, err
	}
	others := len(list)
	fit := slices.DeleteFunc(list, func(c *clearance.StagedCommit) bool {
		return target != "" && c.Target != target || fits != nil && !fits(c)
	})
	if on := slices.DeleteFunc(slices.Clone(fit), func(c *clearance.StagedCommit) bool { return c.Branch != branch }); len(on) == 1 {
		fit = on
	}
	switch len(fit) {
	case 0:
		hint := "nothing is staged; git_stage stages files for review"
		if others > 0 {
			hint = "nothing is staged for it; golem review lists what is"
		}
		return nil, &sandbox.Error{Op: op, Path: target, Code: sandbox.ErrNotFound, Hint: hint}
	case 1:
		return fit[0], nil
	}
	var lines []string
	for _, c := range fit {
		lines = append(lines, fmt.Sprintf("%s %q for %s", shortID(c.ID), firstLine(c.Message), s.describeDestination(c)))
	}
	const most = 20
	cut := ""
	if len(lines) > most {
		cut = countMore(len(lines) - most)
		lines = lines[:most]
	}
	return nil, &sandbox.Error{Op: op, Path: target, Code: "invalid_args", Hint: visible.Count(len(fit), "commit") + " wait; name one by its id, as commitId: " + strings.Join(lines, ", ") + cut}
}

// describeOverrides returns the text for the journal: what scanners held back, and why the user
// let it pass.
func describeOverrides(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return "; overridden: " + strings.Join(list, "; ")
}
