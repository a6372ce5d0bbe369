package settle

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// DiscardArgs are the arguments of discard_changes.
type DiscardArgs struct {
	Paths []string `json:"paths" jsonschema:"files and directories; / means all changes"`
}

// ToolName implements tool.Arguments.
func (DiscardArgs) ToolName() string { return "discard_changes" }

// discardTool returns the tool that discards changes of a session.
func discardTool(k Keeper) tool.Tool {
	const name = "discard_changes"
	about := tool.Tool{Name: name, Toolset: "changes", Mode: policy.Manual, AlwaysAsk: true,
		Description: "Discard the changes of a session at and below some paths. The session then shows the real directories again. It always asks."}
	return tool.New(about, func(_ context.Context, names tool.Names, a DiscardArgs) (tool.Plan, error) {
		if k == nil {
			return tool.Plan{}, noSession(name)
		}
		for i := range a.Paths {
			canonical, err := names.Canonical(a.Paths[i])
			if err != nil {
				return tool.Plan{}, err
			}
			a.Paths[i] = canonical
		}
		prepare := func(context.Context, *sandbox.Sandbox) (tool.Preparation, error) {
			list, unfit, err := k.PlanDiscard(a.Paths)
			if err != nil {
				return tool.Preparation{}, wrapError(name, err)
			}
			if err := a.checkFound(list); err != nil {
				return tool.Preparation{}, err
			}
			seen, own, ofGit := fingerprint(list), countChanges(list), countGit(list)
			p := tool.NewPreparation(func(context.Context, *sandbox.Sandbox) (tool.Result, error) {
				err := k.Discard(a.Paths, func(now []changes.Change) error {
					if fingerprint(now) != seen {
						return &sandbox.Error{Op: name, Code: sandbox.ErrConflict, Hint: "the session has changed since this was shown; nothing was discarded; look at the diff and discard again"}
					}
					return nil
				})
				if err != nil {
					return tool.Result{}, wrapError(name, err)
				}
				return tool.Result{Text: "discarded: " + withUnfit(describeCounts(own, ofGit), own+ofGit, unfit), Brief: true}, nil
			}, reversals(k, list, unfit)...)
			p.Deletes = FilesOf(list, func(c changes.Change) string { return c.Digest })
			if unfit != "" {
				p.Deletes.Unlisted = "names that golem cannot apply, such as " + unfit
			}
			if len(list) > 1 && len(list) != own {
				p.Summary = "discard " + describeCounts(own, ofGit)
			}
			return p, nil
		}
		return tool.NewChangePlan(prepare), nil // it has no effects: nothing in a real directory changes
	})
}

// checkFound returns an error if the session has no change at a path.
func (a DiscardArgs) checkFound(list []changes.Change) error {
	for _, given := range a.Paths {
		if given != "/" && !slices.ContainsFunc(list, func(c changes.Change) bool { return Within(given, c.Name()) }) {
			return &sandbox.Error{Op: "discard_changes", Path: given, Code: sandbox.ErrNotFound, Hint: "the session has not changed it; golem diff --stat lists its changes"}
		}
	}
	return nil
}

// repositoryOf returns the name of the .git that a name is at or below, "" for none.
func repositoryOf(name string) string {
	parts := strings.Split(name, "/")
	if i := slices.Index(parts, ".git"); i >= 0 {
		return strings.Join(parts[:i+1], "/")
	}
	return ""
}

// countChanges counts the changes outside .git as golem status does: a new directory with
// files in it does not count.
func countChanges(list []changes.Change) (n int) {
	filled := make(map[string]bool)
	for _, c := range list {
		filled[path.Dir(c.Name())] = true
	}
	for _, c := range list {
		if isNewDir := c.Kind == overlay.Dir && c.Op == overlay.Create; repositoryOf(c.Name()) == "" && !(isNewDir && filled[c.Name()]) {
			n++
		}
	}
	return n
}

// countGit counts the changed files in .git.
func countGit(list []changes.Change) (n int) {
	for _, c := range list {
		if repositoryOf(c.Name()) != "" && c.Kind != overlay.Dir {
			n++
		}
	}
	return n
}

// describeCounts says how much a discard deletes.
func describeCounts(own, ofGit int) string {
	switch {
	case ofGit == 0:
		return visible.Count(own, "change")
	case own == 0:
		return visible.Count(ofGit, "file") + " in .git"
	}
	return visible.Count(own, "change") + " and " + visible.Count(ofGit, "file") + " in .git"
}

// withUnfit adds the names that are no text to a description of so many other changes.
func withUnfit(text string, others int, unfit string) string {
	switch {
	case unfit == "":
		return text
	case others == 0:
		return "names that golem cannot apply"
	}
	return text + ", and names that golem cannot apply"
}

// foldRepository returns the row that stands for all changes in one .git. golem never
// applies them. The approval is bound to them by their digest.
func foldRepository(repository string, list []changes.Change) tool.Change {
	var in []changes.Change
	for _, c := range list {
		if repositoryOf(c.Name()) == repository {
			in = append(in, c)
		}
	}
	row := tool.Change{Path: repository, Op: tool.Update, Base: fingerprint(in),
		About: visible.Count(countGit(in), "file") + " that golem never applies, not shown; golem diff --commits shows the commits"}
	if slices.ContainsFunc(in, func(c changes.Change) bool { return c.Kind == overlay.File && c.Digest == "" }) {
		row.Base = "unread " + rand.Text() // no approval can match it
	}
	return row
}

// reversals returns the changes that a discard deletes, as a prompt shows them: from the
// content of the session to that of the directory. Each .git is one row.
func reversals(k Contents, list []changes.Change, unfit string) []tool.Change {
	rows := approval.NewReversalList()
	var repositories []string
	for _, c := range list {
		if repository := repositoryOf(c.Name()); repository != "" {
			if !slices.Contains(repositories, repository) {
				repositories = append(repositories, repository)
			}
			continue
		}
		own, real, err := k.States(c)
		r := approval.Reversal{Name: c.Name(), Now: own, Then: real, Sum: c.Digest, Unread: err != nil, Kept: own.Kind == overlay.Nothing, OnlySession: true}
		if r.Kept {
			r.About = "your directory still has it"
		}
		rows.Add(r)
	}
	changes := rows.Changes()
	for _, repository := range repositories {
		changes = append(changes, foldRepository(repository, list))
	}
	if unfit != "" {
		changes = append(changes, tool.Change{Path: "/", Op: tool.Update, About: unfit, Omitted: "names that cannot be shown"})
	}
	return changes
}

// fingerprint returns a digest of the changes of a session.
func fingerprint(list []changes.Change) string {
	sum := sha256.New()
	for _, c := range list {
		fmt.Fprintf(sum, "%q %s %s %o %q %d %s\n", c.Name(), c.Op, c.Kind, c.Mode, c.LinkTarget, c.Size, c.Digest)
	}
	return hex.EncodeToString(sum.Sum(nil))
}
