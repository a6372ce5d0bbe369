package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/sandbox"
)

// An approval is the outcome of approve: the call may run.
type approval struct {
	asked bool         // a person was asked, which takes time
	seen  bool         // a person was shown all of the call, and approved it
	keep  func() error // remembers the answer for later calls; may be nil
}

// approve asks the approver, if the decision says so. If the call is not approved, or its
// changes could not be prepared, it returns an error.
func (in *invocation) approve(ctx context.Context, plan callPlan, prepared preparedCall, d policy.Decision) (approval, error) {
	preApproved := d.Approval == policy.PreApproved
	if preApproved && plan.changesNothing() { // there is no digest to record
		return approval{}, prepared.problem
	}
	r := in.request(plan, prepared, d)
	if err := r.setDigests(); err != nil {
		return approval{}, err
	}
	in.record.Digest = r.Digest
	if preApproved {
		return approval{}, prepared.problem
	}
	a := in.ask(ctx, r)
	in.record.By, in.record.Note, in.record.Request = a.By, a.Note, a.ID
	in.record.Front, in.record.Shown, in.record.Text = a.Front, a.Shown, a.Text
	if a.Verdict == Approved && !a.Approves(r) {
		a.Verdict, a.Note = Declined, "the approval is not for what this call does"
		in.record.Note = a.Note
	}
	switch a.Verdict {
	case Approved:
		in.record.Decision, in.record.Seen = "yes", a.Seen.String()
		return approval{asked: true, seen: a.Seen.IsComplete(), keep: a.Keep}, prepared.problem
	case Undecided:
		in.record.Decision = "pending"
	default:
		in.record.Decision = "no"
	}
	return approval{}, in.notApproved(plan, r, a)
}

// request returns the call as an approver sees it, without its digests.
func (in *invocation) request(plan callPlan, prepared preparedCall, d policy.Decision) Request {
	args, _ := json.Marshal(plan.args) // they were decoded from JSON
	effects := prepared.effects(plan)
	r := Request{Origin: in.origin, Workers: in.Workers, Tool: plan.tool.currentName(), Args: args, Effects: effects,
		Rule: d.Rule.From, Why: plan.Why, Changes: slices.Concat(prepared.Changes, prepared.reads), Summary: prepared.Summary, Warnings: prepared.Warnings,
		MoreWarnings: prepared.MoreWarnings, OnlyUser: plan.tool.AlwaysAsk, Guess: plan.Guess, Network: in.HasNetwork(), Hosts: in.Hosts().Patterns()}
	for _, e := range effects {
		if plan.mustAsk() && e.Verb != policy.Read || in.Decide(e).Approval < policy.PreApproved {
			r.ToApprove = append(r.ToApprove, e)
		}
	}
	r.Effects, r.ToApprove = slices.Concat(r.Effects, plan.connection()), slices.Concat(r.ToApprove, plan.connection())
	if level, _ := in.approvalForUse(plan.tool); level < policy.PreApproved || plan.mustAsk() && len(r.ToApprove) == 0 {
		r.ToApprove = append(r.ToApprove, plan.use())
	}
	if len(r.Effects) == 0 {
		r.Effects = r.ToApprove
	}
	if in.canBeSteered() {
		r.Taint = in.Taint.Source()
	}
	switch {
	case prepared.problem != nil:
		r.Problem = prepared.problem.Error()
	case prepared.later:
		r.Problem, r.Unknown = "golem must ask the other machine, and contacts it only after your approval", true
	}
	return r
}

// ask asks the approver. An approver that panics has declined.
func (in *invocation) ask(ctx context.Context, r Request) (a Answer) {
	defer func() {
		if recover() != nil {
			a = Answer{By: "nobody", Note: "the question could not be asked"}
		}
	}()
	if in.Approver == nil {
		return Answer{By: "nobody", Note: "golem cannot ask anyone here", Unattended: true}
	}
	return in.Approver.Approve(ctx, r)
}

// A refusal is the error of a call that was not approved.
type refusal struct{ result Result }

func (r refusal) Error() string { return r.result.Err.Error() }

// notApproved returns the refusal that an answer means.
func (in *invocation) notApproved(plan callPlan, r Request, a Answer) error {
	nothing := "nothing was done"
	if plan.applies {
		nothing = "nothing was applied"
	}
	if a.Verdict == Undecided {
		whose, next := "the user's", "make the same call again"
		if in.origin == policy.User {
			whose, next = "your", cmp.Or(in.Again, "run the same golem command again")
		}
		earlier := ""
		if a.Note != "" {
			earlier = "; " + a.Note
		}
		return refusal{Result{Unattended: a.Unattended, Pending: &Pending{a.ID, r.Digest, a.Note}, Err: &sandbox.Error{Op: r.Tool, Code: errDeclined,
			Hint: nothing + ": it waits for " + whose + " approval as " + a.ID + earlier + "; after golem approve " + a.ID + " " + next}}}
	}
	hint := "the user declined"
	if in.origin == policy.User {
		hint = "you declined"
	}
	if a.By != "user" && a.By != "" {
		hint = "no (" + a.By + ")"
	}
	if a.Note != "" {
		hint += ": " + strings.Join(strings.Fields(a.Note), " ")
	}
	hint += "; " + nothing
	if in.origin != policy.User && !a.Stop {
		hint += "; do not repeat the call as it is"
	}
	return refusal{Result{Unattended: a.Unattended, Stop: a.Stop, Err: &sandbox.Error{Op: r.Tool, Code: errDeclined, Hint: hint}}}
}

// seenKey is the key of what WasSeen reports.
type seenKey struct{}

// markSeen returns the context in which WasSeen reports what the approval says.
func (a approval) markSeen(ctx context.Context) context.Context {
	if a.seen {
		return context.WithValue(ctx, seenKey{}, true)
	}
	return ctx
}

// WasSeen reports whether a person was shown all of the call that runs in a context, and
// has approved it.
func WasSeen(ctx context.Context) bool { return ctx.Value(seenKey{}) != nil }
