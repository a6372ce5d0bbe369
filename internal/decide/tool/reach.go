package tool

import (
	"context"
	"slices"

	"github.com/golem-forge/golem/internal/decide/policy"
)

// A Reach is the files that a call may read and write: names of files, and of directories
// with everything below them.
type Reach struct{ Reads, Writes []string }

// Meets reports whether one of two calls may write what the other one reads or writes.
func (r Reach) Meets(o Reach) bool {
	return overlap(r.Writes, o.Writes) || overlap(r.Writes, o.Reads) || overlap(r.Reads, o.Writes)
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(one string) bool {
		return slices.ContainsFunc(b, func(other string) bool { return policy.AtOrBelow(one, other) || policy.AtOrBelow(other, one) })
	})
}

// Reach returns which files a call may read and write, if it can run at the same time as
// calls that it does not meet. It reports false for every other call: one that asks for
// approval, cannot be planned, or has other effects. Reach makes no call and records
// nothing.
func (g Gate) Reach(ctx context.Context, origin policy.Origin, call Call) (reach Reach, ok bool) {
	if g.Taint != nil {
		g.Taint = readOnlyTaint{g.Taint}
	}
	in := newInvocation(g, origin, call.Tool)
	tool, err := in.lookUp(call.Tool)
	if err != nil || in.admit(tool) != nil {
		return reach, false
	}
	err = in.lookAtFiles(func() error {
		plan, err := in.plan(ctx, tool, call.Args)
		if err != nil {
			return err
		}
		in.Grant = in.addRules(plan)
		if d, err := in.decide(plan); err != nil || d.Approval != policy.PreApproved {
			return err
		}
		switch {
		case plan.Reach != nil:
			reach, ok = plan.Reach()
		case plan.changesNothing():
			for _, e := range plan.Effects {
				reach.Reads = append(reach.Reads, e.Target)
			}
			ok = true
		}
		return nil
	})
	if len(reach.Writes) > 0 && slices.ContainsFunc(g.Files.Anchors(), func(name string) bool { return len(g.Files.Aliases(name)) > 0 }) {
		ok = false // two names may be the same file
	}
	return reach, ok && err == nil
}

// waitForTurn calls Turn, if the call asks for approval or changes something, or hooks look
// at it, which may do anything.
func (in *invocation) waitForTurn(ctx context.Context, plan callPlan, d policy.Decision) error {
	alone := d.Approval != policy.PreApproved || plan.applies || in.hasHooks()
	if in.Turn == nil || !alone && plan.changesNothing() {
		return nil
	}
	return in.Turn(ctx, alone)
}
