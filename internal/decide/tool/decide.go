package tool

import (
	"errors"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/sandbox"
)

// addRules returns the grant with the rules that hold for this call: those of the tool,
// those of the plan, and those for a worker that has read untrusted content. For the last
// it records first what the call will pass on.
func (in *invocation) addRules(plan callPlan) policy.Grant {
	in.recordPassedOn(plan)
	gate := in.withRules(slices.Concat(plan.tool.Rules, plan.Rules))
	return in.addTaintRules(gate.Grant, plan.tool)
}

// decide asks the grant about the effects of a plan, and about the tool itself.
func (in *invocation) decide(plan callPlan) (policy.Decision, error) {
	d := in.Decide(plan.effectsBefore()...)
	if level, rule := in.approvalForUse(plan.tool); level < d.Approval {
		d = policy.Decision{Approval: level, Effect: plan.use(), Rule: rule}
	}
	return in.enforce(plan, d)
}

// decideEmptied decides about the files that the call would leave empty. To empty a file
// is to delete its content, so it needs the approval that deleting the file needs.
func (in *invocation) decideEmptied(plan callPlan, prepared preparedCall, d policy.Decision) (policy.Decision, error) {
	if len(prepared.emptied) == 0 {
		return d, nil
	}
	for _, e := range prepared.emptied {
		if deletion := in.Decide(e); deletion.Approval < d.Approval {
			d = deletion
		}
	}
	in.record.Effects = effectTexts(prepared.effects(plan))
	d, err := in.enforce(plan, d)
	var known *sandbox.Error
	if errors.As(err, &known) {
		known.Hint = "emptying a file counts as deleting it; " + known.Hint
	}
	return d, err
}

// enforce lowers a decision to Ask if the plan must ask, and fails if the decision is that
// the call is blocked. Nobody can approve a blocked call.
func (in *invocation) enforce(plan callPlan, d policy.Decision) (policy.Decision, error) {
	if plan.mustAsk() && d.Approval > policy.Ask {
		d = policy.Decision{Approval: policy.Ask, Effect: plan.use()}
	}
	if d.Approval != policy.Ask { // then approve records the decision
		in.record.Decision = d.Approval.String()
	}
	in.record.By = d.Rule.From
	if d.Approval > policy.Blocked {
		return d, nil
	}
	e := d.Effect
	if d.Why != "" {
		return d, &sandbox.Error{Op: e.Verb.String(), Path: e.Target, Code: errBlocked, Hint: d.Why}
	}
	rule := "a rule"
	if d.Rule.From != "" {
		rule += " (" + d.Rule.From + ")"
	}
	return d, &sandbox.Error{Op: e.Verb.String(), Path: e.Target, Code: errBlocked,
		Hint: rule + " blocks it, and no approval changes that; " + in.listAllowed(e.Verb)}
}

// listAllowed returns a hint that names where a verb is not blocked.
func (g Gate) listAllowed(verb policy.Verb) string {
	var names []string
	for _, name := range g.ruleTargets(verb) {
		if g.Decide(policy.Effect{Verb: verb, Target: name}).Approval > policy.Blocked {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "it is blocked everywhere"
	}
	return "allowed: " + verb.String() + " " + strings.Join(names, ", ")
}

// Decide asks the grant about effects, under every name that the files have: if the
// directories of two mounts overlap, no name of a file allows what another name of it
// blocks. The strictest decision holds.
func (g Gate) Decide(effects ...policy.Effect) policy.Decision {
	least := g.Grant.Decide(effects...)
	for _, e := range effects {
		for _, alias := range g.aliases(e) {
			// A name that the worker was not granted decides nothing about one that it
			// was.
			if g.Grant.Files.Access(alias) == sandbox.None {
				continue
			}
			also := policy.Effect{Verb: e.Verb, Target: alias}
			if d := g.Grant.Decide(also); d.Approval < least.Approval {
				d.Effect = e
				least = d
			}
		}
	}
	return least
}

func (g Gate) aliases(e policy.Effect) []string {
	if !isFileVerb(e.Verb) || g.Files == nil {
		return nil
	}
	return g.Files.Aliases(e.Target)
}

func isFileVerb(v policy.Verb) bool { return v >= policy.Read && v <= policy.Attach }

// ruleTargets returns the names at which the decision about a verb may change.
func (g Gate) ruleTargets(verb policy.Verb) []string {
	var names []string
	for _, root := range g.Grant.Files.Roots() {
		names = append(names, root.Path)
	}
	for _, r := range g.Grant.Approvals.Rules() {
		if r.Verb == verb || verb == policy.Attach && r.Verb == policy.Read {
			names = append(names, r.Target)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
