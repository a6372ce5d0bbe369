package changes

import (
	"context"
	"path"

	"github.com/golem-forge/golem/internal/landing"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/sandbox"
)

type discardArgs struct {
	Paths []string `json:"paths" jsonschema:"files and folders; / is all"`
}

// discardTool returns the tool by which the user gives changes of a session up.
func discardTool(k Keeper) tool.Tool {
	const name = "discard_changes"
	about := tool.Tool{Name: name, Toolset: "changes", Mode: policy.Manual, Asks: true,
		Description: "Give up what a session has changed at and below some paths: the real folders show through again. It always asks."}
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
		prepare := func(context.Context, *sandbox.Sandbox) (tool.Prepared, error) {
			list, _, err := k.Changes()
			if err != nil {
				return tool.Prepared{}, failed(name, err)
			}
			var lost []tool.Change
			count := 0
			for _, given := range a.Paths {
				found := given == "/"
				for _, c := range list {
					if !within(given, c.Name()) {
						continue
					}
					found = true
					if c.In == "" || !within(given, path.Join(c.Target, c.In)) {
						count++ // otherwise it goes with its directory
					}
					lost = append(lost, tool.Change{Path: c.Name(), Op: tool.Update, About: "what the session made of it is given up"})
				}
				if !found {
					return tool.Prepared{}, &sandbox.Error{Op: name, Path: given, Code: sandbox.ErrNotFound, Hint: "the session has not changed it; golem changes lists what it has"}
				}
			}
			lost = landing.Carried(lost)
			return tool.Ready(func(context.Context, *sandbox.Sandbox) (tool.Result, error) {
				if err := k.Discard(a.Paths); err != nil {
					return tool.Result{}, failed(name, err)
				}
				return tool.Result{Text: "discarded: " + landing.Count(count, "change")}, nil
			}, lost...), nil
		}
		return tool.Changing(prepare), nil // nothing that is in a folder changes
	})
}
