package tool

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
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

// A Journal keeps what happened. See audit.Journal.
type Journal interface {
	Write(r audit.Record, wait audit.Wait) error
}

// A Gate is the door for one worker: what tools there are, what it may do, whom
// to ask, and where it is written down. A Gate is a value; it may be used by
// many goroutines at once. One with a field missing lets nothing through.
type Gate struct {
	Tools    []Tool
	Grant    policy.Grant
	Files    *sandbox.Sandbox // the worker's own
	Approver Approver
	Journal  Journal
	Workers  []string // the chain that leads to the worker, the entry worker first
	Exposure Exposure // what the worker has taken in, nil where nobody cares

	// Enter, where set, is called before a call looks at files, and again before it
	// runs; what it returns is called afterwards. Where much may have happened since
	// the last time, the files are to be seen fresh.
	Enter func(fresh, changes bool) (leave func() error, err error)
}

// Do makes one call: the only way to run what a tool has planned. It does so at
// most once, and whatever it does or refuses is in the journal.
func (g Gate) Do(ctx context.Context, origin policy.Origin, call Call) Result {
	p := pass{Gate: g, ctx: ctx, origin: origin, id: newID()}
	r := p.do(call)
	if r.Err != nil && !p.begun {
		r.Notes = append(r.Notes, p.refused(r)...)
	}
	return r
}

// Effects returns what a call would do, as far as that is known before it is decided;
// none for one that is refused.
func (g Gate) Effects(ctx context.Context, origin policy.Origin, call Call) []policy.Effect {
	p := pass{Gate: g, ctx: ctx, origin: origin}
	if p.lookUp(call) != nil || p.admit(call) != nil {
		return nil
	}
	leave, err := p.enter(true, false)
	if err != nil {
		return nil
	}
	defer leave()
	if p.planned(call) != nil {
		return nil
	}
	return p.plan.Effects
}

// A pass is one call on its way through the gate.
type pass struct {
	Gate
	ctx    context.Context
	origin policy.Origin
	id     string
	begun  bool // the intent is in the journal

	tool     Tool
	args     any
	plan     Plan
	prepared Prepared
	problem  error // why it could not be prepared
	late     bool  // it is prepared only when that was allowed
	decision policy.Decision
	record   audit.Record
	left     []string     // what is left out for want of consent
	lands    bool         // it is about what a call has made
	asked    bool         // somebody was asked, which takes time
	keep     func() error // remembers the answer, once it is in the journal
}

// do takes the steps in their order.
func (p *pass) do(call Call) Result {
	p.record = audit.Record{Call: p.id, Origin: p.origin.String(), Workers: p.Workers, Tool: call.Tool}
	for _, step := range []func(Call) error{p.lookUp, p.admit, p.looks} {
		if err := step(call); err != nil {
			return failed(call.Tool, err)
		}
	}
	if r := p.consent(); r.Err != nil {
		return r
	}
	if p.problem != nil {
		return failed(call.Tool, p.problem)
	}
	if err := p.ctx.Err(); err != nil {
		return failed(call.Tool, ended(call.Tool, err))
	}
	if err := p.begin(); err != nil {
		return failed(call.Tool, err)
	}
	if p.keep != nil {
		if err := p.keep(); err != nil {
			p.record.Note = "the rule could not be kept"
		}
	}
	p.exposed(p.plan.shown())
	p.hears(p.plan.Untrusted, p.plan.Tells)
	return p.taken(p.landed(p.end(p.runs())))
}

// looks takes the steps that look at files.
func (p *pass) looks(call Call) (err error) {
	leave, err := p.enter(true, false)
	if err != nil {
		return err
	}
	defer leave()
	for _, step := range []func(Call) error{p.planned, p.decide, p.prepares} {
		if err := step(call); err != nil {
			return err
		}
	}
	return nil
}

// runs runs it, with what must be done around it. Who calls a worker has looked at the
// files that are attached; from here on the worker's own calls look.
func (p *pass) runs() Result {
	if slices.ContainsFunc(p.plan.Effects, func(e policy.Effect) bool { return e.Verb == policy.Call }) {
		return p.run()
	}
	leave, err := p.enter(p.asked, !p.reads())
	if err != nil {
		return failed(p.tool.Name, err)
	}
	r := p.run()
	if leave() != nil {
		r.Notes = append(r.Notes, "what the session's layer was changed from could not be noted")
	}
	return r
}

func (p *pass) enter(fresh, changes bool) (leave func() error, err error) {
	if p.Enter == nil {
		return func() error { return nil }, nil
	}
	if leave, err = p.Enter(fresh, changes); err != nil {
		err = &sandbox.Error{Op: p.tool.Name, Code: sandbox.ErrConflict, Hint: "the session's layer cannot be used now: " + cause(err) + "; nothing was done; try again in a moment"}
	}
	return leave, err
}

// has reports whether there is a tool for somebody. What is the user's own a worker need
// not have asked for.
func (g Gate) has(t Tool, o policy.Origin) bool {
	return t.Mode == policy.Manual || t.Yours && o == policy.User || g.Grant.Tools.Has(t.Toolset)
}

// lookUp finds the tool.
func (p *pass) lookUp(call Call) error {
	for _, t := range p.Tools {
		if t.Name == call.Tool && p.has(t, p.origin) {
			p.tool = t
			return nil
		}
	}
	var names []string
	for _, t := range p.Offered(p.origin) {
		names = append(names, t.Name)
	}
	hint := "there are " + strings.Join(names, ", ")
	if near := sandbox.Nearest(call.Tool, names); len(near) > 0 {
		hint = "did you mean " + near[0] + "? " + hint
	}
	if len(names) == 0 {
		hint = "this worker has no tools"
	}
	return &sandbox.Error{Op: "call", Path: call.Tool, Code: errUnknown, Hint: hint}
}

// admit holds the caller against the tool's mode. No approval changes this.
func (p *pass) admit(call Call) error {
	switch {
	case p.tool.Mode.Admits(p.origin):
		return nil
	case p.tool.Mode == policy.Manual:
		return &sandbox.Error{Op: call.Tool, Code: errManual, Hint: "it is not available to the model; the user can run: golem tool " + call.Tool}
	}
	return &sandbox.Error{Op: call.Tool, Code: errBlocked, Hint: "it is not for the " + p.origin.String() + " to call"}
}

// planned decodes the arguments and lets the tool say what it would do.
func (p *pass) planned(call Call) (err error) {
	defer p.broken(&err)
	if p.Files == nil || p.Journal == nil {
		return errors.New("a gate without files or journal")
	}
	args, plan, err := p.tool.plan(p.ctx, Names{p.Gate, &p.left, p.origin}, call.Args)
	if plan.Args != nil {
		var bad error
		if args, bad = filledIn(plan.Args); bad != nil {
			return bad
		}
	}
	p.args, p.record.Args = args.typed, p.tool.kept(args.keys)
	var known *sandbox.Error
	if errors.As(err, &known) { // it may tell what is beside a name, or what there is to choose from
		p.exposed([]policy.Effect{{Verb: policy.Read, Target: known.Path}})
		p.hears(plan.Untrusted, plan.Tells)
	}
	if err == nil && plan.prepare == nil && plan.reading == nil {
		err = errors.New("a plan that does nothing")
	}
	p.plan = plan
	p.record.Effects = spelled(plan.now())
	return err
}

// decide asks the grant. What it blocks nobody can allow.
func (p *pass) decide(call Call) error {
	p.Gate = p.following(slices.Concat(p.tool.Rules, p.plan.Rules))
	if slices.ContainsFunc(p.plan.Effects, func(e policy.Effect) bool { return e.Verb == policy.Run }) {
		p.exposed(p.plan.Effects) // what it lands and whom it reaches is decided while it runs
	}
	p.taint()
	p.decision = p.Judge(p.plan.now()...)
	if consent, rule := p.use(p.tool); consent < p.decision.Consent {
		p.decision = policy.Decision{Consent: consent, Effect: p.itself(), Rule: rule}
	}
	if p.asks() && p.decision.Consent > policy.Ask {
		p.decision = policy.Decision{Consent: policy.Ask, Effect: p.itself()}
	}
	return p.judged()
}

// judged holds against a decision what nobody can change about it.
func (p *pass) judged() error {
	if p.decision.Consent != policy.Ask { // who is asked says it
		p.record.Decision = p.decision.Consent.String()
	}
	p.record.By = p.decision.Rule.From
	if p.decision.Consent > policy.Blocked {
		return nil
	}
	e := p.decision.Effect
	if p.decision.Why != "" {
		return &sandbox.Error{Op: e.Verb.String(), Path: e.Target, Code: errBlocked, Hint: p.decision.Why}
	}
	rule := "a rule"
	if from := p.decision.Rule.From; from != "" {
		rule += " (" + from + ")"
	}
	return &sandbox.Error{Op: e.Verb.String(), Path: e.Target, Code: errBlocked,
		Hint: rule + " blocks it, and no approval changes that; " + p.open(e.Verb)}
}

// asks reports whether nobody's rule lets it pass: of what is only known later, when
// it is.
func (p *pass) asks() bool { return p.plan.Asks || p.tool.Asks && !p.plan.Later }

// itself is the effect that rules about the tool itself are for.
func (p *pass) itself() policy.Effect { return policy.Effect{Verb: policy.Use, Target: p.tool.Name} }

// open says where a verb is not blocked.
func (p *pass) open(verb policy.Verb) string {
	var names []string
	for _, name := range p.candidates(verb) {
		if p.Judge(policy.Effect{Verb: verb, Target: name}).Consent > policy.Blocked {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "it is blocked everywhere"
	}
	return "allowed: " + verb.String() + " " + strings.Join(names, ", ")
}

// prepares works out the changes. A problem with them may tell of a content, so
// it is told at once only where that content may be read without consent.
func (p *pass) prepares(call Call) (err error) {
	defer p.broken(&err)
	if p.plan.reading != nil {
		p.prepared.run = p.plan.reading
		return nil
	}
	if consent, _ := p.use(p.tool); p.plan.Reaches && consent < policy.PreApproved {
		p.late = true
		return nil
	}
	if err = p.prepare(); err != nil {
		p.exposed(p.plan.Effects) // an error may tell what is there, as that of an edit does
	}
	if err != nil && !p.readable(p.plan.Effects) {
		p.problem, err = err, nil
	}
	return err
}

// prepare works out the changes with files that cannot be changed.
func (p *pass) prepare() error {
	needs, _ := p.limits(p.plan.Effects, true)
	files, err := p.Files.Restrict(needs...)
	if err != nil {
		return err
	}
	p.prepared, err = p.plan.prepare(p.ctx, files)
	if err == nil && p.prepared.run == nil {
		err = errors.New("nothing to run")
	}
	return err
}

// readable reports whether the files of effects may be read without consent.
func (p *pass) readable(effects []policy.Effect) bool {
	for _, e := range effects {
		switch e.Verb {
		case policy.Read, policy.Write, policy.Delete, policy.Attach:
			if p.Judge(policy.Effect{Verb: policy.Read, Target: e.Target}).Consent < policy.PreApproved {
				return false
			}
		}
	}
	return true
}

// consent asks the approver, where the grant says so.
func (p *pass) consent() Result {
	open := p.decision.Consent == policy.PreApproved
	if open && p.reads() {
		return Result{} // nothing was shown, and nothing changes
	}
	r := p.request()
	if err := r.digests(); err != nil {
		return failed(p.tool.Name, err)
	}
	p.record.Digest = r.Digest
	if open {
		return Result{}
	}
	p.asked = true
	a := p.ask(r)
	p.record.By, p.record.Note, p.record.Request = a.By, a.Note, a.ID
	switch a.Verdict {
	case Yes:
		p.record.Decision, p.keep = "yes", a.Keep
		return Result{}
	case Waits:
		p.record.Decision = "pending"
		return Result{Nobody: a.Nobody, Pending: &Pending{a.ID, r.Digest}, Err: &sandbox.Error{Op: p.tool.Name, Code: errDeclined,
			Hint: p.nothing() + ": it waits for the user's consent as " + a.ID + "; after golem approve " + a.ID + " make the same call again"}}
	}
	p.record.Decision = "no"
	hint := "the user said no"
	if a.By != "user" && a.By != "" {
		hint = "no (" + a.By + ")"
	}
	if a.Note != "" {
		hint += ": " + strings.Join(strings.Fields(a.Note), " ")
	}
	hint += "; " + p.nothing()
	if p.origin != policy.User {
		hint += "; do not repeat the call as it is"
	}
	return Result{Nobody: a.Nobody, Stop: a.Stop, Err: &sandbox.Error{Op: p.tool.Name, Code: errDeclined, Hint: hint}}
}

// nothing says that a call was without effect.
func (p *pass) nothing() string {
	if p.lands {
		return "nothing of it has landed"
	}
	return "nothing was done"
}

// request is the call as an approver sees it.
func (p *pass) request() Request {
	args, _ := json.Marshal(p.args) // they have been JSON
	r := Request{Origin: p.origin, Workers: p.Workers, Tool: p.tool.Name, Args: args, Effects: p.plan.now(),
		Rule: p.decision.Rule.From, Why: p.plan.Why, Changes: p.prepared.Changes, Wish: p.prepared.Wish, Warnings: p.prepared.Warnings, Clears: p.tool.Asks}
	for _, e := range p.plan.now() {
		if p.asks() && e.Verb != policy.Read || p.Judge(e).Consent < policy.PreApproved {
			r.Asks = append(r.Asks, e)
		}
	}
	if consent, _ := p.use(p.tool); consent < policy.PreApproved || p.asks() && len(r.Asks) == 0 {
		r.Asks = append(r.Asks, p.itself())
	}
	if len(r.Effects) == 0 {
		r.Effects = r.Asks
	}
	switch {
	case p.problem != nil:
		r.Problem = p.problem.Error()
	case p.late:
		r.Problem = "to find out is to reach beyond this machine, which is what is asked"
	}
	return r
}

// ask asks the approver. One that breaks has said no.
func (p *pass) ask(r Request) (a Answer) {
	defer func() {
		if recover() != nil {
			a = Answer{By: "nobody", Note: "the question could not be asked"}
		}
	}()
	if p.Approver == nil {
		return Answer{By: "nobody", Note: "there is nobody to ask", Nobody: true}
	}
	return p.Approver.Approve(p.ctx, r)
}

// begin writes down what is about to happen. Without that nothing does. What
// changes nothing need not wait for it: its outcome does.
func (p *pass) begin() error {
	p.record.Kind = audit.Intent
	wait := audit.Durable
	if p.reads() {
		wait = audit.Queued
	}
	if err := p.Journal.Write(p.record, wait); err != nil {
		return unwritten(p.tool.Name, err)
	}
	p.begun = true
	return nil
}

// reads reports whether nothing is changed.
func (p *pass) reads() bool {
	return !p.asks() && !p.tool.Keeps && !slices.ContainsFunc(p.plan.Effects, func(e policy.Effect) bool { return e.Verb != policy.Read })
}

// run does it, with a sandbox that allows the declared effects and no others.
func (p *pass) run() (r Result) {
	var err error
	defer func() {
		if err != nil {
			r = failed(p.tool.Name, err)
		}
	}()
	defer p.broken(&err)
	if p.late {
		if err = p.prepare(); err != nil {
			return r
		}
	}
	needs, left := p.limits(p.plan.Effects, false)
	files, err := p.Files.Restrict(needs...)
	if err != nil {
		return r
	}
	if r, err = p.prepared.run(p.ctx, files); err != nil {
		err = p.nearer(err)
		return r
	}
	if len(p.prepared.Changes) > 0 && !p.readable(p.plan.Effects) {
		// Sizes and counts tell of what is there, too.
		r.Text, r.Data = "done: "+strings.Join(spelled(p.plan.Effects), ", "), nil
	}
	for _, c := range p.prepared.Changes {
		// Who may not read a file does not learn from a change what was in it.
		if !p.readable([]policy.Effect{{Verb: policy.Write, Target: c.Path}}) {
			c = Change{Path: c.Path, Op: c.Op, To: c.To}
		}
		if r.Brief {
			c.added, c.removed = Lines(c.Diff)
		}
		c.Diff = cut(c.Diff, maxDiff) // who decided has seen it all
		r.Changes = append(r.Changes, c)
	}
	for _, name := range append(p.left, left...) {
		why := ", which needs your consent; name it to ask for it"
		if p.Judge(policy.Effect{Verb: p.plan.Effects[0].Verb, Target: name}).Consent == policy.Blocked {
			why = ", which is blocked"
		}
		if p.plan.Effects[0].Verb == policy.Run {
			why = ", for commands see only what may be read unasked"
		}
		r.Notes = append(r.Notes, "left out: "+sandbox.Shown(name)+why)
	}
	return r
}

// nearer gives an error about a name that is not there the hint of the worker's
// own sandbox, which knows the names beside it, if these may be read unasked.
func (p *pass) nearer(err error) error {
	var known *sandbox.Error
	if !errors.As(err, &known) || known.Code != sandbox.ErrNotFound || !p.reads() || !p.readable(p.plan.Effects) {
		return err
	}
	folder := policy.Effect{Verb: policy.Read, Target: path.Dir(known.Path)}
	if p.Judge(folder).Consent < policy.PreApproved {
		return err
	}
	var better *sandbox.Error
	if _, there := p.Files.Stat(known.Path); errors.As(there, &better) && better.Code == known.Code {
		return &sandbox.Error{Op: known.Op, Path: known.Path, Code: known.Code, Hint: better.Hint}
	}
	return err
}

// end writes down what came of it. What was read is handed out only if that
// could be written.
func (p *pass) end(r Result) Result {
	out := audit.Record{Kind: audit.Outcome, Call: p.id, Origin: p.record.Origin, Workers: p.Workers, Tool: p.tool.Name, Note: p.record.Note}
	if r.Record != "" {
		out.Note = r.Record
	}
	if r.Err != nil {
		out.Code = string(r.Err.Code)
	}
	if err := p.Journal.Write(out, audit.Written); err != nil {
		if p.reads() {
			return failed(p.tool.Name, unwritten(p.tool.Name, err))
		}
		r.Notes = append(r.Notes, "the journal could not take the outcome; that it was begun is in it")
	}
	return r
}

// refused writes down that nothing was done. It is refused whether or not this
// can be kept.
func (p *pass) refused(r Result) (notes []string) {
	if p.Journal == nil {
		return nil
	}
	p.record.Kind, p.record.Code = audit.Refusal, string(r.Err.Code)
	if p.Journal.Write(p.record, audit.Written) != nil {
		notes = append(notes, "the journal could not take this refusal")
	}
	return notes
}

// broken turns a panic of a tool into an error of this one call.
func (p *pass) broken(err *error) {
	if v := recover(); v != nil {
		p.record.Note = cut(fmt.Sprint("panic: ", v), 512)
		*err = &sandbox.Error{Op: p.tool.Name, Code: sandbox.ErrInternal, Hint: "the tool broke; this call failed, others will work"}
	}
}

func unwritten(op string, err error) error {
	return &sandbox.Error{Op: op, Code: sandbox.ErrInternal,
		Hint: "nothing was done, because the journal cannot be written (" + cause(err) + "); the user can see to it with golem audit verify"}
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

func ended(op string, err error) error {
	hint := "it was stopped before anything was done"
	if errors.Is(err, context.DeadlineExceeded) {
		hint = "the time was over before anything was done"
	}
	return &sandbox.Error{Op: op, Code: "timeout", Hint: hint}
}

func spelled(effects []policy.Effect) []string {
	var list []string
	for _, e := range effects {
		list = append(list, e.String())
	}
	return list
}

// newID returns the name of a call: it ties an outcome to its intent.
func newID() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
