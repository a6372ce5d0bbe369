package changes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"

	"github.com/golem-forge/golem/internal/approval"
	"github.com/golem-forge/golem/internal/overlay"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/internal/transaction"
	"github.com/golem-forge/golem/internal/visible"
	"github.com/golem-forge/golem/sandbox"
)

type discardArgs struct {
	Paths []string `json:"paths" jsonschema:"files and directories; / means all changes"`
}

// discardTool returns the tool that discards changes of a session.
func discardTool(k Keeper) tool.Tool {
	const name = "discard_changes"
	about := tool.Tool{Name: name, Toolset: "changes", Mode: policy.Manual, AlwaysAsk: true,
		Description: "Discard the changes of a session at and below some paths. The session then shows the real directories again. It always asks."}
	return tool.New(about, func(_ context.Context, names tool.Names, a discardArgs) (tool.Plan, error) {
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
			count, err := a.count(list)
			if err != nil {
				return tool.Preparation{}, err
			}
			seen := fingerprint(list)
			return tool.NewPreparation(func(context.Context, *sandbox.Sandbox) (tool.Result, error) {
				err := k.Discard(a.Paths, func(now []transaction.SessionChange) error {
					if fingerprint(now) != seen {
						return &sandbox.Error{Op: name, Code: sandbox.ErrConflict, Hint: "the session has changed since this was shown; nothing was discarded; look at the diff and discard again"}
					}
					return nil
				})
				if err != nil {
					return tool.Result{}, wrapError(name, err)
				}
				return tool.Result{Text: "discarded: " + visible.Count(count, "change"), Brief: true}, nil
			}, reversals(k, list, unfit)...), nil
		}
		return tool.NewChangePlan(prepare), nil // it has no effects: nothing in a real directory changes
	})
}

// count returns how many changes are discarded. A new directory and its content count as
// one.
func (a discardArgs) count(list []transaction.SessionChange) (n int, err error) {
	for _, given := range a.Paths {
		found := given == "/"
		for _, c := range list {
			if !within(given, c.Name()) {
				continue
			}
			found = true
			if c.NewDir == "" || !within(given, path.Join(c.Target, c.NewDir)) {
				n++
			}
		}
		if !found {
			return 0, &sandbox.Error{Op: "discard_changes", Path: given, Code: sandbox.ErrNotFound, Hint: "the session has not changed it; golem diff --stat lists its changes"}
		}
	}
	return n, nil
}

// reversals returns the changes that a discard deletes, as a prompt shows them: from the
// content of the session to that of the directory.
func reversals(k Contents, list []transaction.SessionChange, unfit string) []tool.Change {
	rows := approval.NewReversalList()
	for _, c := range list {
		own, real, err := k.States(c)
		r := approval.Reversal{Name: c.Name(), Now: own, Then: real, Sum: c.Digest, Unread: err != nil, Kept: own.Kind == overlay.Nothing}
		if r.Kept {
			r.About = "your directory still has it"
		}
		rows.Add(r)
	}
	changes := rows.Changes()
	if unfit != "" {
		changes = append(changes, tool.Change{Path: "/", Op: tool.Update, About: unfit, Omitted: "names that cannot be shown"})
	}
	return changes
}

// fingerprint returns a digest of the changes of a session.
func fingerprint(list []transaction.SessionChange) string {
	sum := sha256.New()
	for _, c := range list {
		fmt.Fprintf(sum, "%q %s %s %o %q %d %s\n", c.Name(), c.Op, c.Kind, c.Mode, c.LinkTarget, c.Size, c.Digest)
	}
	return hex.EncodeToString(sum.Sum(nil))
}
