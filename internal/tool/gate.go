package tool

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/golem-forge/golem/internal/audit"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/sandbox"
)

// A Call asks for a tool.
type Call struct {
	Tool string
	Args []byte // JSON
}

// A Gate holds everything that decides about the calls of one worker. It is a value, and
// many goroutines may use it at once. A Gate without Files or Journal refuses every call,
// and one without an Approver every call that needs approval.
type Gate struct {
	Tools    []Tool
	Grant    policy.Grant
	Files    *sandbox.Sandbox // the worker's own
	Approver Approver
	Journal  Journal
	Workers  []string // from the entry worker to this one
	Taint    Taint    // records untrusted input; may be nil
	Undo     Undo     // saves what a call is about to change; may be nil

	// Enter, if set, is called before a call looks at files, and again before it runs.
	// The call invokes leave when it is done with the files. With fresh, the call must see
	// the changes that others have made to the files since the last time.
	Enter func(fresh, changes bool) (leave func() error, err error)
}

// Do makes one call. It is the only way to run what a tool has planned, and it runs that
// at most once. The journal gets the intent and the outcome of the call, or its refusal.
func (g Gate) Do(ctx context.Context, origin policy.Origin, call Call) Result {
	in := newInvocation(g, origin, call.Tool)
	tool, err := in.lookUp(call.Tool)
	if err != nil {
		return in.refuse(err)
	}
	if err := in.admit(tool); err != nil {
		return in.refuse(err)
	}
	var plan callPlan
	var decision policy.Decision
	var prepared preparedCall
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
		decision, err = in.decideEmptied(plan, prepared, decision)
		return err
	})
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
	r = in.recordOutcome(plan, r)
	r = in.applyDeferred(ctx, plan, r)
	in.recordSize(r)
	return r
}

// An invocation is one call on its way through the gate.
type invocation struct {
	Gate   // from addRules on, its Grant has the rules for this call
	origin policy.Origin
	record audit.Record // everything that the journal learns about the call
}

func newInvocation(g Gate, origin policy.Origin, tool string) *invocation {
	return &invocation{Gate: g, origin: origin,
		record: audit.Record{Call: newID(), Origin: origin.String(), Workers: g.Workers, Tool: tool}}
}

// lookUp returns the tool with a name.
func (in *invocation) lookUp(name string) (Tool, error) {
	for _, t := range in.Tools {
		if t.Name == name && in.has(t, in.origin) {
			return t, nil
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
	return &sandbox.Error{Op: t.Name, Code: errBlocked, Hint: "it is not for the " + in.origin.String() + " to call"}
}

// lookAtFiles calls look, which does not change files, between Enter and leave.
func (in *invocation) lookAtFiles(look func() error) error {
	leave, err := in.enter(true, false)
	if err != nil {
		return err
	}
	defer leave()
	return look()
}

// enter calls Enter, if it is set.
func (in *invocation) enter(fresh, changes bool) (leave func() error, err error) {
	if in.Enter == nil {
		return func() error { return nil }, nil
	}
	if leave, err = in.Enter(fresh, changes); err != nil {
		err = &sandbox.Error{Op: in.record.Tool, Code: sandbox.ErrConflict, Hint: "the session's layer cannot be used now: " + cause(err) + "; nothing was done; try again in a moment"}
	}
	return leave, err
}

// recoverPanic turns a panic of a tool into an error of this call.
func (in *invocation) recoverPanic(err *error) {
	if v := recover(); v != nil {
		in.record.Note = shorten(fmt.Sprint("panic: ", v), 512)
		*err = &sandbox.Error{Op: in.record.Tool, Code: sandbox.ErrInternal, Hint: "the tool broke; this call failed, others will work"}
	}
}

// nameStop replaces an error without a text for the caller by one that says that the call
// was stopped, if it was.
func (in *invocation) nameStop(ctx context.Context, err error) error {
	var known *sandbox.Error
	if err == nil || ctx.Err() == nil || errors.As(err, &known) {
		return err
	}
	return &sandbox.Error{Op: in.record.Tool, Code: "timeout", Hint: "it was stopped before it was done"}
}

// cause returns the last part of an error's text, without the paths before it.
func cause(err error) string {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	text := err.Error()
	if strings.Contains(text, "/") {
		return "see the user's terminal"
	}
	return text
}
