package tool

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/sandbox"
)

// execute runs the call between Enter and leave, after undo has saved what it replaces. If the
// call is refused because a file changed meanwhile, undo removes that again. A call of another
// worker does not enter: the calls that the worker makes do so themselves.
func (in *invocation) execute(ctx context.Context, plan callPlan, prepared preparedCall, approval approval) (r Result) {
	if in.saved != nil {
		if err := in.saved(); err != nil {
			return failed(plan.tool.currentName(), undoError(plan.tool.currentName(), err))
		}
		defer func() {
			if r.Err != nil && r.Err.Code == sandbox.ErrConflict {
				in.Undo.RemoveFailed(in.record.Call) // if this fails, the user can still forget it
			}
		}()
	}
	if plan.callsWorker() {
		return in.runRestricted(ctx, plan, prepared)
	}
	leave, err := in.enter(approval.asked, !plan.changesNothing())
	if err != nil {
		return failed(plan.tool.currentName(), err)
	}
	r = in.runRestricted(ctx, plan, prepared)
	if leave() != nil {
		r.Notes = append(r.Notes, sayDone(r)+"golem could not record which content of your directory its changes are based on")
	}
	if in.Changed != nil && !plan.changesNothing() {
		in.files = in.Changed()
	}
	return r
}

// runRestricted runs the call with a sandbox that allows the declared effects and no others.
func (in *invocation) runRestricted(ctx context.Context, plan callPlan, prepared preparedCall) (r Result) {
	var err error
	defer func() {
		if err != nil {
			r = failed(plan.tool.currentName(), err)
		}
	}()
	defer in.recoverPanic(&err)
	if prepared.later {
		if prepared.Preparation, err = in.workOutChanges(ctx, plan); err != nil {
			return r
		}
	}
	needs, skipped := in.sandboxLimits(plan.Effects, false)
	files, err := in.Files.Restrict(needs...)
	if err != nil {
		return r
	}
	if plan.Words != nil {
		if err = checkReads(ctx, in.Gate, plan, prepared); err != nil {
			return r
		}
	}
	if r, err = prepared.run(ctx, files); err != nil {
		err = in.addNearNames(plan, in.nameStop(ctx, err))
		return r
	}
	if plan.reading != nil {
		if err = checkReads(ctx, in.Gate, plan, prepared); err != nil {
			return Result{}
		}
	}
	r = in.addChanges(r, plan, prepared.Changes)
	r.Notes = append(r.Notes, in.noteSkipped(plan, slices.Concat(plan.skipped, skipped))...)
	return r
}

// addChanges adds the changes to a result, as far as the caller may know them.
func (in *invocation) addChanges(r Result, plan callPlan, changes []Change) Result {
	if len(changes) > 0 && !in.canRead(plan.Effects) {
		// Sizes and counts reveal something about the content, too.
		r.withhold()
		r.Text = "done: " + strings.Join(effectTexts(plan.Effects), ", ")
	}
	for _, c := range changes {
		// A caller that may not read a file does not learn from a change what was in it.
		if !in.canRead([]policy.Effect{{Verb: policy.Write, Target: c.Path}}) {
			c = Change{Path: c.Path, Op: c.Op, To: c.To}
			if c.Op == Create { // nor whether there was one
				c.Op = Update
			}
		}
		if c.To != "" { // a copy does not show the text
			c.Diff = ""
		}
		if r.Brief {
			c.added, c.removed = filecontent.CountDiffLines(c.Diff)
		}
		c.Diff, c.Tree = shorten(c.Diff, maxDiff), nil // the approver has seen all of it
		r.Changes = append(r.Changes, c)
	}
	if r.Done != nil {
		r.Done = r.Done.name(r.Changes)
	}
	return r
}

// noteSkipped returns a note for each name below a target that the call did not reach.
func (in *invocation) noteSkipped(plan callPlan, names []string) (notes []string) {
	for _, name := range names {
		why := ", which needs your approval; name it, and golem asks for it"
		if in.Decide(policy.Effect{Verb: plan.Effects[0].Verb, Target: name}).Approval == policy.Blocked {
			why = ", which is blocked"
		}
		if plan.Effects[0].Verb == policy.Run {
			why = ", because commands see only files that need no approval to read"
		}
		notes = append(notes, "skipped: "+sandbox.Shown(name)+why)
	}
	return notes
}

// addNearNames gives a "not found" error the hint of the worker's own sandbox, which can
// name similar files, if the directory may be read without approval.
func (in *invocation) addNearNames(plan callPlan, err error) error {
	var known *sandbox.Error
	if !errors.As(err, &known) || known.Code != sandbox.ErrNotFound || !plan.changesNothing() || !in.canRead(plan.Effects) {
		return err
	}
	directory := policy.Effect{Verb: policy.Read, Target: path.Dir(known.Path)}
	if in.Decide(directory).Approval < policy.PreApproved {
		return err
	}
	var better *sandbox.Error
	if _, there := in.Files.Stat(known.Path); errors.As(there, &better) && better.Code == known.Code {
		return &sandbox.Error{Op: known.Op, Path: known.Path, Code: known.Code, Hint: better.Hint}
	}
	return err
}

// sayDone returns how a note about trouble after the run begins: it says that the call was
// done, unless the result is an error.
func sayDone(r Result) string {
	if r.Err != nil {
		return ""
	}
	return "the call was done, but "
}
