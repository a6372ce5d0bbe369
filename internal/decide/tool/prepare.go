package tool

import (
	"context"
	"errors"
	"slices"

	"github.com/golem-forge/golem/internal/decide/policy"
)

// A preparedCall holds the facts about a call before the approval.
type preparedCall struct {
	Preparation
	emptied []policy.Effect // the files that the call would leave empty, as deletions
	problem error           // why the changes are not known; approve returns it
	later   bool            // the changes are worked out only after the approval
	reads   []Change        // the files that the call reads or attaches, if the user is asked
}

// effects returns the effects that the gate decides about before the call runs.
func (p preparedCall) effects(plan callPlan) []policy.Effect {
	return slices.Concat(plan.effectsBefore(), p.emptied)
}

// prepare works out the changes. An error of this may reveal content. If the content may
// not be read without approval, the error waits for the approval.
func (in *invocation) prepare(ctx context.Context, plan callPlan) (p preparedCall, err error) {
	defer in.recoverPanic(&err)
	if plan.reading != nil {
		p.run = plan.reading
		return p, nil
	}
	if level, _ := in.approvalForUse(plan.tool); plan.NetworkToPrepare && level < policy.PreApproved {
		p.later = true
		return p, nil
	}
	if p.Preparation, err = in.workOutChanges(ctx, plan); err != nil {
		in.recordSeen(plan.Effects) // the error may quote the file, as the error of an edit does
		if in.canRead(plan.Effects) {
			return p, err
		}
		p.problem = err
	}
	for _, c := range p.Changes {
		if c.Empties {
			p.emptied = append(p.emptied, policy.Effect{Verb: policy.Delete, Target: c.Path})
		}
	}
	return p, nil
}

// workOutChanges lets the plan work out its changes, with files that it cannot change.
func (in *invocation) workOutChanges(ctx context.Context, plan callPlan) (Preparation, error) {
	needs, _ := in.sandboxLimits(plan.Effects, true)
	files, err := in.Files.Restrict(needs...)
	if err != nil {
		return Preparation{}, err
	}
	p, err := plan.prepare(ctx, files)
	if err == nil && p.run == nil {
		err = errors.New("nothing to run")
	}
	return p, in.nameStop(ctx, err)
}

// canRead reports whether the files of effects may be read without approval.
func (g Gate) canRead(effects []policy.Effect) bool {
	for _, e := range effects {
		switch e.Verb {
		case policy.Read, policy.Write, policy.Delete, policy.Attach:
			if g.Decide(policy.Effect{Verb: policy.Read, Target: e.Target}).Approval < policy.PreApproved {
				return false
			}
		}
	}
	return true
}
