package gate

import (
	"context"
	"fmt"
	"slices"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/sandbox"
)

// The codes of errors in a [Result], besides those of package sandbox.
const (
	ErrUnknownTool = sandbox.Code("unknown_tool")
	ErrArguments   = sandbox.Code("invalid_args")
	ErrManualOnly  = sandbox.Code("manual_only")
	ErrBlocked     = sandbox.Code("blocked")
	ErrDeclined    = sandbox.Code("declined")
	ErrUnseen      = tool.ErrUnseen
	ErrUsed        = sandbox.Code("used")
	ErrSeal        = sandbox.Code("seal")
)

// A Gate holds everything that decides about the calls of one worker. It is a value, and many
// goroutines may use it at once.
type Gate struct {
	Tools    []Tool
	Files    *sandbox.Sandbox // the files that tools can reach at most
	Grant    Grant
	Rules    []Rule
	Approver Approver // nil declines every call that needs approval
	Journal  Journal

	// Before and After, if set, look at the calls of models and peers: before anybody is asked,
	// and after the call was made. An error of Before refuses the call, and one of After
	// withholds its result. They cannot approve anything.
	Before func(ctx context.Context, c Call) error
	After  func(ctx context.Context, c Call, r Result) error

	// Worker names who makes the calls, in requests and in the journal; "" for "worker".
	Worker string
	// Key seals what is stored: see [Gate.OpenPending] and [Gate.OpenSeen]. It has at least 16
	// bytes, and stays the same as long as decisions may come. Without a key, a request must
	// be decided in the process that made it.
	Key []byte

	base *tool.Gate // of a workspace; its parts replace those of the gate
}

// Over returns a gate with the tools, files, grant and journal of another one. It is for
// package golem: no other program can make its argument.
func Over(base tool.Gate, a Approver, key []byte) Gate {
	return Gate{Approver: a, Key: key, base: &base}
}

// Grant is what the worker may use. The zero Grant allows nothing.
type Grant struct {
	// Tools are names of tools, or "*" for all.
	Tools []string
	// Files limit the access to the gate's files. No other files can be reached.
	Files []sandbox.Limit
	// Hosts are the hosts that a tool may name in a [Connect] effect: names, "*.example.com",
	// or "*" for all.
	Hosts []string
}

// GrantAll returns a Grant of all tools and files of a gate, without the network. Rules still
// decide which calls need approval.
func GrantAll() Grant {
	return Grant{Tools: []string{"*"}, Files: []sandbox.Limit{{Path: "/", Access: sandbox.ReadWrite}}}
}

// Do makes one call. It runs what the tool has planned at most once, and only after the
// decision is in the journal.
func (g Gate) Do(ctx context.Context, origin Origin, call Call) Result {
	return g.do(ctx, origin, call, &asking{gate: g}, "")
}

// Offer returns the tools that a caller can use at all, for the prompt of a model.
func (g Gate) Offer(origin Origin) []Tool {
	inner, err := g.inner(nil, "")
	if err != nil {
		return nil
	}
	var list []Tool
	for _, offered := range inner.ToolsFor(policy.Origin(origin)) {
		for _, t := range g.Tools {
			if t.Name == offered.Name {
				list = append(list, t)
				break
			}
		}
	}
	return list
}

// do makes a call whose approver is given. The journal names the pending request that the call
// resumes, "" for none.
func (g Gate) do(ctx context.Context, origin Origin, call Call, by *asking, resumes string) Result {
	inner, err := g.inner(by, resumes)
	if err != nil {
		return failure(call.Tool, err)
	}
	done := inner.Do(ctx, policy.Origin(origin), tool.Call{Tool: call.Tool, Args: call.Args})
	r := resultOf(done)
	if done.Pending != nil && by.later != nil {
		r.Pending = &Pending{request: *by.later, origin: origin, call: call}
		r.Err = &sandbox.Error{Op: call.Tool, Code: ErrDeclined, Hint: "nothing was done yet: it waits for a decision as " + by.later.id + "; do not make the call again"}
		r.Text = "Error: " + r.Err.Error()
	}
	return r
}

// inner returns the gate as package tool has it.
func (g Gate) inner(by *asking, resumes string) (tool.Gate, error) {
	if g.base != nil {
		inner := *g.base
		inner.Approver = by.orNil(g)
		return inner, nil
	}
	switch {
	case g.Files == nil:
		return tool.Gate{}, &sandbox.Error{Op: "call", Code: ErrBlocked, Hint: "the gate has no files; set Gate.Files"}
	case g.Journal == nil:
		return tool.Gate{}, &sandbox.Error{Op: "call", Code: ErrBlocked, Hint: "the gate has no journal; set Gate.Journal"}
	case len(g.Key) > 0 && len(g.Key) < minKey:
		return tool.Gate{}, &sandbox.Error{Op: "call", Code: ErrSeal, Hint: "Gate.Key has fewer than 16 bytes"}
	}
	limits := policy.AllFiles().With(g.Grant.Files...)
	files, err := limits.Apply(g.Files)
	if err != nil {
		return tool.Gate{}, err
	}
	grant := policy.Grant{Files: limits, Tools: policy.SetOf(g.Grant.Tools...), Hosts: policy.HostsOf(g.Grant.Hosts...)}
	if slices.Contains(g.Grant.Tools, "*") {
		grant.Tools = policy.All()
	}
	if slices.Contains(g.Grant.Hosts, "*") {
		grant.Hosts = policy.AllHosts()
	}
	rules, err := rulesOf(g.Rules)
	if err != nil {
		return tool.Gate{}, err
	}
	grant.Approvals = grant.Approvals.With(rules...)
	worker := g.Worker
	if worker == "" {
		worker = "worker"
	}
	inner := tool.Gate{Grant: grant, Files: files, Journal: &recorder{journal: g.Journal, resumes: resumes}, Workers: []string{worker}, ShowReads: true}
	for _, t := range g.Tools {
		if made, ok := t.made(); ok {
			inner.Tools = append(inner.Tools, made)
		}
	}
	inner.Approver = by.orNil(g)
	if g.Before != nil || g.After != nil {
		inner.Hooks = hooks{g}
	}
	return inner, nil
}

// failure returns the result of a call that the gate could not even consider.
func failure(op string, err error) Result {
	known, ok := err.(*sandbox.Error)
	if !ok {
		known = &sandbox.Error{Op: op, Code: sandbox.CodeOf(err), Hint: err.Error()}
	}
	return Result{Text: "Error: " + known.Error(), Err: known}
}

// OpenPending returns a Pending that was stored, if this gate's key has sealed it: [ErrSeal].
func (g Gate) OpenPending(data []byte) (Pending, error) {
	var s sealedPending
	if err := disclose(g.Key, "pending", data, &s); err != nil {
		return Pending{}, err
	}
	return Pending{request: Request{inner: s.Request, id: s.ID, key: g.Key}, origin: s.Origin, call: s.Call}, s.Request.CheckDigests()
}

// OpenSeen returns a Seen that was stored, if this gate's key has sealed it: [ErrSeal].
func (g Gate) OpenSeen(data []byte) (Seen, error) {
	s := Seen{key: g.Key}
	return s, disclose(g.Key, "seen", data, &s.sealed)
}

// Resume makes a call that has waited, with the decision about it. If the call would do
// something else now, because files have changed, it is declined. A call is resumed at most
// once, even by several processes: the journal sees to that.
func (g Gate) Resume(ctx context.Context, p Pending, d Decision) Result {
	if p.request.id == "" {
		return failure("resume", &sandbox.Error{Op: "resume", Code: sandbox.ErrInvalid, Hint: "this is no pending call; take it from Result.Pending or Gate.OpenPending"})
	}
	if d.verdict == tool.Undecided {
		return failure(p.call.Tool, &sandbox.Error{Op: p.call.Tool, Code: ErrDeclined, Hint: "there is no decision yet; nothing was done"})
	}
	return g.do(ctx, p.origin, p.call, &asking{gate: g, decision: &d, pending: &p}, p.request.id)
}

// asking is the approver of one call, as package tool has it.
type asking struct {
	gate     Gate
	decision *Decision // if it is there, nobody is asked
	pending  *Pending  // what the decision is about
	later    *Request  // the request, if it was not decided
}

// Approve implements tool.Approver.
func (a *asking) Approve(ctx context.Context, inner tool.Request) tool.Answer {
	r := Wrap(inner, "", a.gate.Key)
	var d Decision
	if a.decision == nil {
		d = a.gate.Approver.Approve(ctx, r)
	} else {
		if inner.Digest != a.pending.request.inner.Digest {
			return tool.Answer{By: "gate", Note: "the call would do something else now than what was decided about; make it again, and look at it again"}
		}
		d, r.id = *a.decision, a.pending.request.id
	}
	if ctx.Err() != nil {
		return tool.Answer{By: "gate", Note: "the decision came too late"}
	}
	answer, _, _, err := Unwrap(d, r)
	if err != nil {
		return tool.Answer{By: "gate", Note: err.Error()}
	}
	if answer.Verdict == tool.Undecided {
		a.later = &r
	}
	return answer
}

// orNil returns the approver of a call, nil if nobody can be asked.
func (a *asking) orNil(g Gate) tool.Approver {
	if a == nil || g.Approver == nil && a.decision == nil {
		return nil
	}
	return a
}

// hooks are the functions Before and After of a gate, as package tool has them.
type hooks struct{ gate Gate }

// Before implements tool.Hooks. A function that panics refuses the call.
func (h hooks) Before(ctx context.Context, c tool.HookCall) (_ []string, err error) {
	defer caught(&err)
	if h.gate.Before != nil {
		err = h.gate.Before(ctx, Call{Tool: c.Tool, Args: c.Args})
	}
	return nil, err
}

// After implements tool.Hooks. A function that panics withholds the result.
func (h hooks) After(ctx context.Context, c tool.HookCall, r tool.Result) (_ []string, err error) {
	defer caught(&err)
	if h.gate.After != nil {
		err = h.gate.After(ctx, Call{Tool: c.Tool, Args: c.Args}, resultOf(r))
	}
	return nil, err
}

// caught turns a panic into an error.
func caught(err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("it broke: %v", v)
	}
}

// resultOf returns a result of package tool.
func resultOf(done tool.Result) Result {
	r := Result{Text: done.Words(), Data: done.Data, Changes: changesOf(done.Changes), Notes: done.Notes, Err: done.Err}
	if done.Err != nil {
		r.Text = done.String()
	}
	return r
}
