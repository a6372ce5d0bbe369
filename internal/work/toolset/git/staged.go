package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

type noArgs struct{}

// ListArgs are the arguments of git_list_staged.
type ListArgs struct{}

// ToolName implements tool.Arguments.
func (ListArgs) ToolName() string { return "git_list_staged" }

// DiscardArgs are the arguments of git_discard.
type DiscardArgs struct {
	CommitID string `json:"commitId" jsonschema:"the id, or the beginning of it"`
}

// ToolName implements tool.Arguments.
func (DiscardArgs) ToolName() string { return "git_discard" }

// A waiting is a staged commit in JSON.
type waiting struct {
	ID        string       `json:"id"`
	Message   string       `json:"message"`
	Target    string       `json:"target"`
	Branch    string       `json:"branch"`
	Files     []stagedFile `json:"files"`
	CreatedAt time.Time    `json:"createdAt"`
	Workers   []string     `json:"workers"`
	Session   string       `json:"session,omitempty"`
}

func (s Set) waiting(c *clearance.StagedCommit) waiting {
	return waiting{c.ID, c.Message, c.Target, c.Branch, s.files(c), c.CreatedAt, c.Workers, c.Session}
}

// describe describes a waiting commit in one line.
func (s Set) describe(c *clearance.StagedCommit) string {
	return fmt.Sprintf("%s  %s  %s  → %s, %s", shortID(c.ID), visible.Text(strconv.Quote(firstLine(c.Message))), strings.Join(c.Workers, " → "), s.describeDestination(c), visible.Count(len(c.Files), "file"))
}

// effectsOfClosed returns the effects of reading those files of a staged commit that the caller
// may read only with approval.
func (s Set) effectsOfClosed(names tool.Names, c *clearance.StagedCommit) []policy.Effect {
	return names.ReadsToApprove(s.names(c)...)
}

// names returns the virtual names of the files of a staged commit.
func (s Set) names(c *clearance.StagedCommit) []string {
	list := make([]string, len(c.Files))
	for i, f := range c.Files {
		list[i] = s.targetOf(c).virtualName(f.Path)
	}
	return list
}

// findByID returns the commit of an ID. For a caller who may not read all of its files, the
// commit does not exist. Its error does not list other IDs.
func (s Set) findByID(op string, commits *clearance.Commits, names tool.Names, id string) (*clearance.StagedCommit, error) {
	c, err := commits.Get(id)
	if err == nil && !names.AnyHidden(s.names(c)...) {
		return c, nil
	}
	if names.IsUserCall() {
		return c, err
	}
	return nil, &sandbox.Error{Op: op, Path: id, Code: sandbox.ErrNotFound, Hint: "nothing is staged under this id; git_list_staged lists what is"}
}

// listReadable returns the waiting commits that the caller may read.
func (s Set) listReadable(ctx context.Context, op string, names tool.Names) ([]waiting, string, error) {
	commits, err := s.openCommits(ctx, op)
	if err != nil {
		return nil, "", err
	}
	list, err := commits.List()
	if err != nil {
		return nil, "", err
	}
	all := []waiting{}
	text, others := "", 0
	for _, c := range list {
		if len(s.effectsOfClosed(names, c)) > 0 {
			others++
			continue
		}
		all = append(all, s.waiting(c))
		text += s.describe(c) + "\n"
	}
	if others > 0 {
		text += fmt.Sprintf("and %d with files that may not be read here\n", others)
	}
	if len(list) == 0 {
		return all, "nothing is staged\n", nil
	}
	return all, visible.Count(len(list), "commit") + " staged\n" + text, nil
}

// planListing returns a plan that reveals the waiting commits.
func (s Set) planListing(ctx context.Context, op string, names tool.Names, run tool.Run) (tool.Plan, error) {
	plan := tool.NewReadPlan(run)
	commits, err := s.openCommits(ctx, op)
	if err != nil {
		return plan, nil // the run reports the error
	}
	list, err := commits.List()
	for _, c := range list {
		if len(s.effectsOfClosed(names, c)) > 0 {
			continue // it is not listed
		}
		plan.TaintedBy = cmp.Or(plan.TaintedBy, c.Untrusted) // a message may come from untrusted input,
		plan.Reveals = append(plan.Reveals, s.names(c)...)   // and names are revealed
	}
	return plan, err
}

// IDs returns the IDs in a result of git_list_staged.
func IDs(r tool.Result) []string {
	var ids []string
	if data, ok := r.Data.(map[string]any); ok {
		list, _ := data["staged"].([]waiting)
		for _, w := range list {
			ids = append(ids, w.ID)
		}
	}
	return ids
}

// listStaged returns the tool that lists waiting commits.
func (s Set) listStaged() tool.Tool {
	const op = "git_list_staged"
	return tool.New(newReadTool(op, "List the staged commits that wait for the user."), func(ctx context.Context, names tool.Names, _ ListArgs) (tool.Plan, error) {
		return s.planListing(ctx, op, names, func(ctx context.Context, _ *sandbox.Sandbox) (tool.Result, error) {
			list, text, err := s.listReadable(ctx, op, names)
			return tool.Result{Text: text, Data: map[string]any{"staged": list}}, err
		})
	})
}

// status returns the tool that describes what waits, and for which target.
func (s Set) status() tool.Tool {
	const op = "git_status"
	t := newReadTool(op, "List what is staged, the files that differ from the branch and are not staged, and the repositories that results can be staged for.")
	return tool.New(t, func(ctx context.Context, names tool.Names, _ noArgs) (tool.Plan, error) {
		meant, _ := s.findTarget(op, "")
		plan, err := s.planListing(ctx, op, names, func(ctx context.Context, files *sandbox.Sandbox) (tool.Result, error) {
			list, text, err := s.listReadable(ctx, op, names)
			if err != nil {
				return tool.Result{}, err
			}
			unstaged := s.unstaged(ctx, meant, files, comparison{at: meant.At, skip: s.Untrusted})
			if unstaged.err != nil {
				return tool.Result{}, unstaged.err
			}
			text += unstaged.list()
			for _, t := range s.Targets {
				text += fmt.Sprintf("target %s: %s, branch %s, its root is %s", t.Name, t.Type, t.Branch, t.At)
				if t.Name == meant.Name {
					text += ", the default"
				}
				text += "\n"
			}
			return tool.Result{Text: text, Data: map[string]any{"staged": list, "unstaged": unstaged.Files, "targets": s.Targets}, Notes: unstaged.notes}, nil
		})
		// It compares only files that need no approval, and shows only names. It skips
		// untrusted directories, so that a look at the status does not taint the worker.
		plan.Effects, plan.Visible = effectsOfOpen(names, meant.At), []policy.Effect{}
		return plan, err
	})
}

// discard returns the tool that discards a staged commit.
func (s Set) discard() tool.Tool {
	const op = "git_discard"
	t := newTool(op, "Discard a staged commit without pushing it. The files stay as they are.")
	t.ChangesState = true
	return tool.New(t, func(ctx context.Context, names tool.Names, a DiscardArgs) (tool.Plan, error) {
		commits, err := s.openCommits(ctx, op)
		if err != nil {
			return tool.Plan{}, err
		}
		if a.CommitID == "" {
			return tool.Plan{}, &sandbox.Error{Op: op, Code: "invalid_args", Hint: "commitId: name the commit to discard; git_list_staged lists them"}
		}
		c, err := s.findByID(op, commits, names, a.CommitID)
		if err != nil {
			return tool.Plan{}, err
		}
		run := func(ctx context.Context, _ *sandbox.Sandbox) (tool.Result, error) {
			r := tool.Result{Text: "discarded " + shortID(c.ID), Data: map[string]any{"discarded": c.ID}, Record: "discarded " + shortID(c.ID)}
			err := commits.Discard(ctx, c.ID)
			var known *sandbox.Error
			if errors.As(err, &known) && known.Code == clearance.ErrUncertain {
				r.Notes, err = []string{known.Hint}, nil
			}
			return r, err
		}
		plan := tool.NewReadPlan(run, s.effectsOfClosed(names, c)...)
		plan.Args = DiscardArgs{c.ID}
		return plan, nil
	})
}
