package tool

import (
	"context"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// Do makes one call. It is the only way to run what a tool has planned, and it runs that
// at most once. The journal gets the intent and the outcome of the call, or its refusal.
func (g Gate) Do(ctx context.Context, origin policy.Origin, call Call) Result {
	in := newInvocation(g, origin, call.Tool)
	plan, prepared, decision, err := in.consider(ctx, call)
	if err != nil {
		return in.refuse(err)
	}
	if err := in.waitForTurn(ctx, plan, decision); err != nil {
		return in.refuse(err)
	}
	notes, err := in.runBefore(ctx, plan)
	if err != nil {
		return in.refuse(err)
	}
	approval, err := in.approve(ctx, plan, prepared, decision)
	if err != nil {
		return in.refuse(err)
	}
	ctx = approval.markSeen(ctx)
	if err := in.recordIntent(ctx, plan, prepared, approval); err != nil {
		return in.refuse(err)
	}
	in.recordInput(plan)
	r := in.execute(ctx, plan, prepared, approval)
	r.Allow = in.allow(r.Settings)
	r = in.recordOutcome(plan, r)
	r = in.applyDeferred(ctx, plan, r)
	r = in.runAfter(ctx, plan, r, notes)
	in.recordSize(r)
	return r
}

// consider takes the steps of Do before the approval. It changes nothing.
func (in *invocation) consider(ctx context.Context, call Call) (plan callPlan, prepared preparedCall, decision policy.Decision, err error) {
	tool, err := in.lookUp(call.Tool)
	if err != nil {
		return plan, prepared, decision, err
	}
	in.record.Tool = tool.currentName()
	if err := in.admit(tool); err != nil {
		return plan, prepared, decision, err
	}
	err = in.lookAtFiles(func() error {
		if plan, err = in.plan(ctx, tool, call.Args); err != nil {
			return err
		}
		in.Grant = in.addRules(plan)
		if decision, err = in.decide(plan); err != nil {
			return err
		}
		if prepared, err = in.prepare(ctx, plan); err != nil {
			return err
		}
		if decision, err = in.decideEmptied(plan, prepared, decision); err == nil && decision.Approval < policy.PreApproved {
			prepared.reads, err = describeReads(ctx, in.Gate, plan, prepared)
		}
		return err
	})
	return plan, prepared, decision, err
}

// lookUp returns the tool with a name, or with the current form of an older name.
func (in *invocation) lookUp(name string) (Tool, error) {
	for _, spelling := range []string{name, policy.CurrentToolName(name)} {
		for _, t := range in.Tools {
			if t.Name == spelling && in.has(t, in.origin) {
				return t, nil
			}
		}
	}
	var names []string
	for _, t := range in.ToolsFor(in.origin) {
		names = append(names, t.Name)
	}
	hint := "there are " + strings.Join(names, ", ")
	if near := sandbox.Nearest(name, names); len(near) > 0 {
		hint = "did you mean " + near[0] + "? " + hint
	}
	if len(names) == 0 {
		hint = "this worker has no tools"
	}
	return Tool{}, &sandbox.Error{Op: "call", Path: name, Code: errUnknown, Hint: hint}
}

// admit refuses a caller that the mode of the tool does not admit. No approval changes
// this.
func (in *invocation) admit(t Tool) error {
	switch {
	case t.Mode.Admits(in.origin):
		return nil
	case t.Mode == policy.Manual:
		return &sandbox.Error{Op: t.Name, Code: errManual, Hint: "it is not available to the model; the user can run: golem tool " + t.Name}
	}
	return &sandbox.Error{Op: t.Name, Code: errBlocked, Hint: "the " + in.origin.String() + " cannot call it; golem tools lists who can"}
}

// allow returns what the user types so that the program has some settings, KEY=VALUE.
func (g Gate) allow(settings []string) (list []string) {
	var hosts, flags []string
	for _, set := range settings {
		key, value, _ := strings.Cut(set, "=")
		switch {
		case !g.NoFile:
			list = append(list, visible.CommandLine("golem", "config", "set", "--project", key, value))
		case key == "network.allow":
			hosts = append(hosts, "+"+strings.TrimPrefix(value, "+"))
		default:
			flags = append(flags, "--set", set)
		}
	}
	if len(hosts) > 0 {
		flags = append(flags, "--net", strings.Join(hosts, ","))
	}
	if len(flags) > 0 {
		list = append(list, "start golem with "+visible.CommandLine(flags...))
	}
	return list
}
