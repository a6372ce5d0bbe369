package gate

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/records/audit"
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

	base  *tool.Gate                 // of a workspace; its parts replace those of the gate
	place string                     // names the workspace
	use   func(request string) error // uses up a request of the workspace
}

// Over returns a gate with the tools, files, grant and journal of another one. The place says
// where its requests count, and use fails for a request that was used before. Over is for
// package golem.
func Over(base tool.Gate, a Approver, key []byte, place string, use func(request string) error) Gate {
	return Gate{Approver: a, Key: key, base: &base, place: place, use: use}
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
	return g.do(ctx, origin, call, &asking{gate: g})
}

// Offer returns the tools that a caller can use at all, for the prompt of a model.
func (g Gate) Offer(origin Origin) []Tool {
	inner, err := g.inner(&asking{gate: g})
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

// do makes a call whose approver is given.
func (g Gate) do(ctx context.Context, origin Origin, call Call, by *asking) Result {
	if ctx == nil {
		ctx = context.Background()
	}
	inner, err := g.inner(by)
	if err != nil {
		return failure(call.Tool, err)
	}
	if len(bytes.TrimSpace(call.Args)) == 0 {
		call.Args = nil
	}
	done := inner.Do(ctx, policy.Origin(origin), tool.Call{Tool: call.Tool, Args: call.Args})
	if by.used != nil && done.Err != nil {
		return failure(call.Tool, by.used)
	}
	r := resultOf(done)
	if done.Pending != nil && by.later != nil {
		r.Pending = &Pending{request: *by.later, origin: origin, call: call, place: g.where()}
		r.Err = &sandbox.Error{Op: call.Tool, Code: ErrDeclined, Hint: "nothing was done yet: it waits for a decision as " + by.later.id + "; do not make the call again"}
		r.Text = "Error: " + r.Err.Error()
	}
	return r
}

// inner returns the gate as package tool has it.
func (g Gate) inner(by *asking) (tool.Gate, error) {
	if g.base != nil {
		inner := *g.base
		inner.Approver, inner.Journal = by.orNil(), &onceJournal{inner.Journal, by}
		inner.Tools = by.alwaysAsked(inner.Tools)
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
	if err := g.checkJournal(); err != nil {
		return tool.Gate{}, err
	}
	for _, l := range g.Grant.Files {
		if l.Access > sandbox.ReadWrite {
			return tool.Gate{}, &sandbox.Error{Op: "call", Path: l.Path, Code: ErrBlocked, Hint: "Grant.Files has an unknown access"}
		}
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
	inner := tool.Gate{Grant: grant, Files: files, Journal: &recorder{g.Journal, by}, Workers: []string{worker}, ShowReads: true}
	for _, t := range g.Tools {
		if made, ok := t.made(); ok {
			inner.Tools = append(inner.Tools, made)
		}
	}
	inner.Approver, inner.Tools = by.orNil(), by.alwaysAsked(inner.Tools)
	inner.Hooks = Hooks(g.Before, g.After)
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
	return Pending{request: Request{inner: s.Request, id: s.ID, key: g.Key, keyed: true}, origin: s.Origin, call: s.Call, place: s.Place}, s.Request.CheckDigests()
}

// OpenSeen returns a Seen that was stored, if this gate's key has sealed it: [ErrSeal].
func (g Gate) OpenSeen(data []byte) (Seen, error) {
	s := Seen{key: g.Key}
	return s, disclose(g.Key, "seen", data, &s.sealed)
}

// Resume makes a call that has waited, with the decision about it, at the gate at which it was
// made. If the call would do something else now, because files have changed, it is declined. A
// call is resumed at most once, even by several processes: the journal sees to that. The first
// decision counts, also if it declines.
func (g Gate) Resume(ctx context.Context, p Pending, d Decision) Result {
	if p.request.id == "" {
		return failure("resume", &sandbox.Error{Op: "resume", Code: sandbox.ErrInvalid, Hint: "this is no pending call; take it from Result.Pending or Gate.OpenPending"})
	}
	if d.verdict == tool.Undecided || d.id == "" { // the zero Decision, too
		return failure(p.call.Tool, &sandbox.Error{Op: p.call.Tool, Code: ErrDeclined, Hint: "there is no decision yet; nothing was done"})
	}
	if p.place != g.where() {
		return failure(p.call.Tool, &sandbox.Error{Op: p.call.Tool, Code: ErrDeclined, Hint: "the call was made at another gate: with other files, another journal or another worker; nothing was done"})
	}
	if _, _, _, err := Unwrap(d, p.request); err != nil {
		return failure(p.call.Tool, err)
	}
	by := &asking{gate: g, decision: &d, pending: &p}
	r := g.do(ctx, p.origin, p.call, by)
	if r.Err == nil && !by.asked {
		return failure(p.call.Tool, &sandbox.Error{Op: p.call.Tool, Code: ErrDeclined, Hint: "there is nothing left to do, or the call would do something else now; nothing was done"})
	}
	return r
}

// where names the gate for the requests that it makes: its worker, its files and its journal.
func (g Gate) where() string {
	words := []string{g.place, g.Worker}
	if g.Files != nil {
		for _, m := range g.Files.Mounts() {
			words = append(words, m.Target, string(m.Source), string(m.Base))
		}
	}
	if j, ok := g.Journal.(*FileJournal); ok && j != nil {
		words = append(words, j.path)
	}
	return hex.EncodeToString(seal(nil, words...))
}

// checkJournal refuses a journal among the files of the gate: a tool could read its key, and
// remove what it has used up.
func (g Gate) checkJournal() error {
	j, ok := g.Journal.(*FileJournal)
	if !ok || j == nil {
		return nil
	}
	for _, m := range g.Files.Mounts() {
		if m.Source == "" {
			continue
		}
		source, err := filepath.Abs(filepath.Join(string(m.Base), string(m.Source)))
		if filepath.IsAbs(string(m.Source)) {
			source, err = string(m.Source), nil
		}
		if real, wrong := filepath.EvalSymlinks(source); wrong == nil {
			source = real
		}
		if rel, wrong := filepath.Rel(source, j.path); err == nil && wrong == nil && filepath.IsLocal(rel) {
			return &sandbox.Error{Op: "call", Path: m.Target, Code: ErrBlocked, Hint: "the journal is in a directory that tools can reach; keep it elsewhere"}
		}
	}
	return nil
}

// asking is the approver of one call, as package tool has it.
type asking struct {
	gate     Gate
	decision *Decision // if it is there, nobody is asked
	pending  *Pending  // what the decision is about
	later    *Request  // the request, if it was not decided
	asked    bool
	begun    bool  // the request was used up for this call
	used     error // that of a request which was used before
}

// Approve implements tool.Approver.
func (a *asking) Approve(ctx context.Context, inner tool.Request) tool.Answer {
	a.asked = true
	r := Wrap(inner, "", a.gate.Key)
	var d Decision
	if a.decision == nil {
		d = a.gate.Approver.Approve(ctx, r)
	} else {
		if inner.Digest != a.pending.request.inner.Digest {
			return tool.Answer{By: "gate", Note: "the call would do something else now than what was decided about; make it again, and look at it again"}
		}
		d, r = *a.decision, a.pending.request // with the same digest, and the items that were rendered
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
func (a *asking) orNil() tool.Approver {
	if a.gate.Approver == nil && a.decision == nil {
		return nil
	}
	return a
}

// alwaysAsked returns the tools of a call that is resumed: the decision counts, whatever the rules
// say now.
func (a *asking) alwaysAsked(tools []tool.Tool) []tool.Tool {
	if a.pending == nil {
		return tools
	}
	tools = slices.Clone(tools)
	for i := range tools {
		tools[i].AlwaysAsk = true
	}
	return tools
}

// resumes returns the request that the call resumes, "" for none.
func (a *asking) resumes() string {
	if a.pending == nil {
		return ""
	}
	return a.pending.request.id
}

// onceJournal is the journal of a workspace. It uses up the request that a call resumes.
type onceJournal struct {
	tool.Journal
	by *asking
}

// Write implements tool.Journal.
func (j *onceJournal) Write(r audit.Record, wait audit.Wait) error {
	if id := j.by.resumes(); id != "" && !j.by.begun && (r.Kind == audit.Intent || r.Kind == audit.Refusal && r.Decision == "no") {
		j.by.begun = true // a call may have several records
		if err := j.by.gate.use(id); err != nil {
			j.by.used = err
			return err
		}
	}
	return j.Journal.Write(r, wait)
}

// Hooks returns functions as [Gate] has them in Before and After, for package tool. It is for
// package golem, as Over is.
func Hooks(before func(context.Context, Call) error, after func(context.Context, Call, Result) error) tool.Hooks {
	if before == nil && after == nil {
		return nil
	}
	return hooks{before, after}
}

type hooks struct {
	before func(context.Context, Call) error
	after  func(context.Context, Call, Result) error
}

// Before implements tool.Hooks. A function that panics refuses the call.
func (h hooks) Before(ctx context.Context, c tool.HookCall) (_ []string, err error) {
	defer caught(&err)
	if h.before != nil {
		err = h.before(ctx, Call{Tool: c.Tool, Args: c.Args})
	}
	return nil, err
}

// After implements tool.Hooks. A function that panics withholds the result.
func (h hooks) After(ctx context.Context, c tool.HookCall, r tool.Result) (_ []string, err error) {
	defer caught(&err)
	if h.after != nil {
		err = h.after(ctx, Call{Tool: c.Tool, Args: c.Args}, resultOf(r))
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
