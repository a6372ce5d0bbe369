package tool

import (
	"context"
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
	Undo     Undo     // keeps what a call is about to change, nil where nobody does

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
	left     []string        // what is left out for want of consent
	emptied  []policy.Effect // the files that it leaves empty, as deletions
	lands    bool            // it is about what a call has made
	asked    bool            // somebody was asked, which takes time
	keep     func() error    // remembers the answer, once it is in the journal
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
	if err := p.begin(); err != nil {
		return failed(call.Tool, err)
	}
	p.exposed(p.plan.shown())
	p.hears(p.plan.Untrusted, p.plan.Tells)
	return p.taken(p.landed(p.end(p.runs())))
}

// looks takes the steps that look at files.
func (p *pass) looks(call Call) error {
	leave, err := p.enter(true, false)
	if err != nil {
		return err
	}
	defer leave()
	if err := p.planned(call); err != nil {
		return err
	}
	if err := p.decide(); err != nil {
		return err
	}
	if err := p.prepares(); err != nil {
		return err
	}
	return p.emptying()
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
		done := "the call was done, but "
		if r.Err != nil {
			done = ""
		}
		r.Notes = append(r.Notes, done+"golem could not record which content of your directory its changes are based on")
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

// prepares works out the changes. A problem with them may tell of a content, so
// it is told at once only where that content may be read without consent.
func (p *pass) prepares() (err error) {
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
	return p.stopped(err)
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
		err = p.nearer(p.stopped(err))
		return r
	}
	p.changed(&r)
	r.Notes = append(r.Notes, p.leftOut(slices.Concat(p.left, left))...)
	return r
}

// changed puts into a result what was changed, as far as who calls may know it.
func (p *pass) changed(r *Result) {
	if len(p.prepared.Changes) > 0 && !p.readable(p.plan.Effects) {
		// Sizes and counts tell of what is there, too.
		r.Text, r.Data = "done: "+strings.Join(spelled(p.plan.Effects), ", "), nil
	}
	for _, c := range p.prepared.Changes {
		// Who may not read a file does not learn from a change what was in it.
		if !p.readable([]policy.Effect{{Verb: policy.Write, Target: c.Path}}) {
			c = Change{Path: c.Path, Op: c.Op, To: c.To}
			if c.Op == Create { // nor whether there was one
				c.Op = Update
			}
		}
		if c.To != "" { // a copy hands nobody the text
			c.Diff = ""
		}
		if r.Brief {
			c.added, c.removed = Lines(c.Diff)
		}
		c.Diff, c.Tree = cut(c.Diff, maxDiff), nil // who decided has seen it all
		r.Changes = append(r.Changes, c)
	}
}

// leftOut says of names below a target why it did not reach them.
func (p *pass) leftOut(names []string) (notes []string) {
	for _, name := range names {
		why := ", which needs your consent; name it to ask for it"
		if p.Judge(policy.Effect{Verb: p.plan.Effects[0].Verb, Target: name}).Consent == policy.Blocked {
			why = ", which is blocked"
		}
		if p.plan.Effects[0].Verb == policy.Run {
			why = ", for commands see only what may be read unasked"
		}
		notes = append(notes, "left out: "+sandbox.Shown(name)+why)
	}
	return notes
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

// stopped says that a call was stopped, in place of what came of that in the midst of it
// and has no words of its own.
func (p *pass) stopped(err error) error {
	var known *sandbox.Error
	if err == nil || p.ctx.Err() == nil || errors.As(err, &known) {
		return err
	}
	return &sandbox.Error{Op: p.tool.Name, Code: "timeout", Hint: "it was stopped before it was done"}
}

// broken turns a panic of a tool into an error of this one call.
func (p *pass) broken(err *error) {
	if v := recover(); v != nil {
		p.record.Note = cut(fmt.Sprint("panic: ", v), 512)
		*err = &sandbox.Error{Op: p.tool.Name, Code: sandbox.ErrInternal, Hint: "the tool broke; this call failed, others will work"}
	}
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
