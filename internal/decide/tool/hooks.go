package tool

import (
	"context"
	"encoding/json"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/sandbox"
)

// Hooks are programs that look at calls before and after they are made. They can refuse a
// call and add notes to its result. They cannot approve one.
type Hooks interface {
	// Before looks at a call that the grant permits, before anybody is asked for approval.
	// An error refuses the call.
	Before(ctx context.Context, c HookCall) (notes []string, err error)
	// After looks at a call that was made. An error withholds its result.
	After(ctx context.Context, c HookCall, r Result) (notes []string, err error)
}

// A HookCall is a call as a hook sees it.
type HookCall struct {
	Origin  policy.Origin
	Workers []string // from the entry worker to the caller
	Tool    string
	Names   []string        // under which a hook may name the tool: those of rules
	Args    json.RawMessage // with defaults
}

// hasHooks reports whether hooks look at the call. They do not look at what the user does by
// hand.
func (in *invocation) hasHooks() bool { return in.Hooks != nil && in.origin != policy.User }

func (in *invocation) hookCall(plan callPlan) HookCall {
	args, _ := json.Marshal(plan.args) // they were decoded from JSON
	return HookCall{Origin: in.origin, Workers: in.Workers, Tool: plan.tool.currentName(), Names: plan.tool.RuleNames(), Args: args}
}

// runBefore lets the hooks look at a call before the approval.
func (in *invocation) runBefore(ctx context.Context, plan callPlan) (notes []string, err error) {
	if !in.hasHooks() {
		return nil, nil
	}
	notes, err = in.Hooks.Before(ctx, in.hookCall(plan))
	if err != nil {
		return nil, &sandbox.Error{Op: plan.tool.currentName(), Code: errRefused, Hint: err.Error() + "; nothing was done; do not repeat the call as it is"}
	}
	return notes, nil
}

// runAfter lets the hooks look at the result of a call, and adds their notes and those of
// runBefore.
func (in *invocation) runAfter(ctx context.Context, plan callPlan, r Result, notes []string) Result {
	if !in.hasHooks() {
		return r
	}
	more, err := in.Hooks.After(ctx, in.hookCall(plan), r)
	if err != nil {
		r.withhold()
		r.Media, r.Changes = nil, nil
		r.Err = &sandbox.Error{Op: plan.tool.currentName(), Code: errRefused, Hint: err.Error() + "; the call was made, and its result is withheld"}
	}
	r.Notes = append(append(r.Notes, notes...), more...)
	return r
}
