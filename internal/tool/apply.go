package tool

import (
	"context"
	"fmt"
	"strings"

	"github.com/golem-forge/golem/internal/policy"
)

// A Landing is changes that a call has made in a copy of the files. Their effects were not
// known before it ran. The gate decides about them as about a plan, and then calls either
// Land or Drop, once.
type Landing struct {
	Effects []policy.Effect // each of them
	Listed  []policy.Effect // the same for a reader: directories in place of their content
	Changes func() []Change // as the approver sees them
	Refused error           // why nobody can approve them; nil if somebody can
	Land    func(context.Context) error
	Drop    func() error
	Done    string // says what was applied
}

// applyDeferred decides about the changes that a result has deferred, and applies them. If
// they are not applied, the result keeps its text, which says what was tried.
func (in *invocation) applyDeferred(ctx context.Context, plan callPlan, r Result) Result {
	changes := r.Landing
	if changes == nil {
		return r
	}
	r.Landing = nil
	if r.Err != nil { // the call was not finished
		if err := changes.Drop(); err != nil {
			r.Notes = append(r.Notes, "what it had changed could not be removed from where it is kept")
		}
		return r
	}
	next := newInvocation(in.Gate, in.origin, plan.tool.Name)
	next.record.Effects, next.record.Note = effectTexts(changes.Listed), "lands what "+in.record.Call+" has made"
	applied, err := next.apply(ctx, callPlan{Plan: Plan{Effects: changes.Listed}, tool: plan.tool, args: plan.args, applies: true}, changes)
	if err == nil && applied.Err == nil {
		r.Changes = append(r.Changes, applied.Changes...)
		r.Text = strings.TrimPrefix(strings.TrimSuffix(r.Text, "\n")+"\nlanded: "+changes.Done, "\n")
		return r
	}
	if err := changes.Drop(); err != nil {
		r.Notes = append(r.Notes, "its changes did not land, and could not be removed from where they are kept")
	}
	if err != nil {
		applied = next.refuse(err)
		r.Notes = append(r.Notes, applied.Notes...)
	}
	r.Err, r.Pending, r.Nobody, r.Stop = applied.Err, applied.Pending, applied.Nobody, applied.Stop
	return r
}

// apply takes the steps of Gate.Do that concern effects, and applies the changes. It
// returns an error if it did nothing, which the journal does not have yet.
func (in *invocation) apply(ctx context.Context, plan callPlan, changes *Landing) (Result, error) {
	if changes.Refused != nil {
		return Result{}, changes.Refused
	}
	in.Grant = in.addTaintRules(in.Grant, plan.tool)
	decision, err := in.enforce(plan, in.Judge(changes.Effects...))
	if err != nil {
		return Result{}, err
	}
	prepared := preparation{Prepared: Prepared{Changes: changes.Changes()}}
	approval, err := in.approve(ctx, plan, prepared, decision)
	if err != nil {
		return Result{}, err
	}
	ctx = approval.markSeen(ctx)
	if err := in.recordIntent(ctx, plan, prepared, approval); err != nil {
		return Result{}, err
	}
	r := Result{Changes: shortenChanges(prepared.Changes)}
	if err := changes.Land(ctx); err != nil {
		r = failed(plan.tool.Name, err)
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
		c.Diff, c.Tree = cut(c.Diff, maxDiff), nil
		list = append(list, c)
	}
	return list
}
