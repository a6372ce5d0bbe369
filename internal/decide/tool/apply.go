package tool

import (
	"context"
	"fmt"

	"github.com/golem-forge/golem/internal/decide/policy"
)

// DeferredChanges are changes that a call has made in a copy of the files. Their effects
// were not known before it ran. The gate decides about them as about a plan, and then
// calls either Apply or Discard, once.
type DeferredChanges struct {
	Effects []policy.Effect // the effects of every change
	Listed  []policy.Effect // the same for a reader: directories in place of their content
	// Changes returns the changes as the approver sees them, and what to look at first in
	// all of them.
	Changes func() (list []Change, warnings []string)
	Refusal error // why the changes cannot be approved; nil if they can
	Apply   func(onProgress func(part float64)) error
	Discard func() error
	Done    *Done  // describes the applied changes
	Final   string // why they cannot be undone once they are applied, "" if they can
}

// applyDeferred decides about the changes that a result has deferred, and applies them. If
// they are not applied, the result keeps its text, which says what was tried.
func (in *invocation) applyDeferred(ctx context.Context, plan callPlan, r Result) Result {
	changes := r.Deferred
	if changes == nil {
		return r
	}
	r.Deferred = nil
	if r.Err != nil { // the call was not finished
		if err := changes.Discard(); err != nil {
			r.Notes = append(r.Notes, "golem could not delete its changes")
		}
		return r
	}
	next := newInvocation(in.Gate, in.origin, plan.tool.currentName())
	next.record.Effects, next.record.Note = effectTexts(changes.Listed), "applies the changes of "+in.record.Call
	applied, err := next.apply(ctx, callPlan{Plan: Plan{Effects: changes.Listed}, tool: plan.tool, args: plan.args, applies: true}, changes)
	r.Notes = append(r.Notes, applied.Notes...)
	if err == nil && applied.Err == nil {
		r.Changes, r.Final = append(r.Changes, applied.Changes...), changes.Final
		r.Done = changes.Done
		return r
	}
	if err := changes.Discard(); err != nil {
		r.Notes = append(r.Notes, "golem did not apply its changes, and could not delete them")
	}
	if err != nil {
		applied = next.refuse(err)
		r.Notes = append(r.Notes, applied.Notes...)
	}
	r.Err, r.Pending, r.Unattended, r.Stop = applied.Err, applied.Pending, applied.Unattended, applied.Stop
	return r
}

// apply takes the steps of Gate.Do that concern effects, and applies the changes. It
// returns an error if it did nothing, which the journal does not have yet.
func (in *invocation) apply(ctx context.Context, plan callPlan, changes *DeferredChanges) (Result, error) {
	if changes.Refusal != nil {
		return Result{}, changes.Refusal
	}
	in.Grant = in.addTaintRules(in.Grant, plan.tool)
	decision, err := in.enforce(plan, in.Decide(changes.Effects...))
	if err != nil {
		return Result{}, err
	}
	if err := in.waitForTurn(ctx, plan, decision); err != nil {
		return Result{}, err
	}
	var prepared preparedCall
	prepared.Changes, prepared.Warnings = changes.Changes()
	approval, err := in.approve(ctx, plan, prepared, decision)
	if err != nil {
		return Result{}, err
	}
	ctx = approval.markSeen(ctx)
	if err := in.recordIntent(ctx, plan, prepared, approval); err != nil {
		return Result{}, err
	}
	r := Result{Changes: shortenChanges(prepared.Changes)}
	if err := changes.Apply(progressOf(ctx)); err != nil {
		r = failed(plan.tool.currentName(), err)
	}
	return in.recordOutcome(plan, r), nil
}

// shortenChanges returns changes as a result has them: at most maxBrief, each with at most
// maxDiff bytes of its diff.
func shortenChanges(all []Change) []Change {
	list := make([]Change, 0, min(len(all), maxBrief+1))
	for i, c := range all {
		if i == maxBrief {
			return append(list, Change{Path: "/", Op: Update, About: fmt.Sprintf("and %d more changes", len(all)-i)})
		}
		c.Diff, c.Tree = shorten(c.Diff, maxDiff), nil
		list = append(list, c)
	}
	return list
}
