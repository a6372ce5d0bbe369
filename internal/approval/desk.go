package approval

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/sandbox"
)

// Mode is how questions are answered. The zero value asks.
type Mode string

// The modes.
const (
	Interactive Mode = "interactive" // somebody is asked
	ApproveAll  Mode = "approve_all" // yes to all that is not blocked
	AutoDeny    Mode = "auto_deny"   // no to all that would be asked
)

// An Asker puts a question to somebody who is there.
type Asker interface {
	// Ask returns the answer, and what of it should be remembered. When ctx ends
	// the answer is no.
	Ask(ctx context.Context, r tool.Request) Reply
}

// A Beside puts a question to somebody while it waits: it may be answered elsewhere
// meanwhile, and the first answer counts.
type Beside interface {
	// AskBeside returns the answer, or that Nobody has given one. Who is asked is told
	// by which id the request waits; answered reports whether somebody has answered it, or it
	// waits no longer.
	AskBeside(ctx context.Context, r tool.Request, id string, answered func() bool) Reply
}

// A Reply is what somebody said. The zero Reply is a no.
type Reply struct {
	tool.Answer
	// Remember is the rule that the user chose, with its scope and expiry, where
	// the answer is a yes.
	Remember *Rule
	// Rendered are the items of the request that were on screen completely: see
	// tool.Request.Items. A front reports them as they are, whatever the answer is.
	Rendered []string
	// Named is the beginning of the request's digest that the person typed, at least
	// MinNamed digits; "" for none.
	Named string
}

// A Desk is the approver of one program. Its fields are set before it is used.
type Desk struct {
	Mode    Mode
	Flag    bool // the mode is the user's own word for this call
	Reads   bool // the user lets everything be read that asks
	Store   *Store
	Asker   Asker  // nil where nobody can be asked here
	Beside  Beside // asks in place of the asker, where set
	Policy  string // the hash of what says what the program may do
	Session string // of files, in which an answer counts; "" for all
	Now     func() time.Time

	mu  sync.Mutex
	run []Rule // remembered for this run
}

// Approve implements tool.Approver. What is let happen waits no longer, wherever the yes
// came from: to ask about it again would be to ask about something that is done.
func (d *Desk) Approve(ctx context.Context, r tool.Request) tool.Answer {
	a := d.answer(ctx, r)
	if a.Verdict == tool.Yes && d.Store != nil {
		d.Store.settle(r, d.place())
	}
	return a
}

func (d *Desk) answer(ctx context.Context, r tool.Request) tool.Answer {
	switch {
	case d.Mode == ApproveAll && r.Guessed != "":
		return tool.Answer{By: "approve_all", Note: r.Guessed}
	case d.Mode == ApproveAll && (!r.Clears && r.Taint == "" || d.Flag):
		return tool.Answer{Verdict: tool.Yes, By: "approve_all", Unseen: true}
	case d.Mode == AutoDeny:
		return tool.Answer{By: "auto_deny", Note: "nothing that needs consent is done in this mode", Nobody: true}
	case d.Mode != Interactive && d.Mode != "" && d.Mode != ApproveAll:
		return tool.Answer{By: "nobody", Note: "no such approval mode"}
	case d.Reads && r.Taint == "" && onlyReads(r):
		return tool.Answer{Verdict: tool.Yes, By: "--approve-reads", Unseen: true}
	}
	if rule, ok := d.remembered(r); ok && !r.Clears {
		return tool.Answer{Verdict: tool.Yes, By: "rule " + rule.ID}
	}
	if a, ok, err := d.Store.use(r, d.place(), d.Now()); err != nil {
		return tool.Answer{By: "nobody", Note: "what was answered before cannot be read"}
	} else if ok {
		return a
	}
	if d.Beside != nil {
		return d.beside(ctx, r)
	}
	if d.Asker == nil {
		return d.wait(r)
	}
	reply := d.Asker.Ask(ctx, r)
	if reply.Verdict != tool.Yes && reply.Nobody {
		return d.wait(r)
	}
	if ctx.Err() != nil && reply.Verdict == tool.Yes {
		return tool.Answer{By: "nobody", Note: "the answer came too late"}
	}
	a, err := reply.judged(r)
	if err != nil {
		return tool.Answer{By: "nobody", Note: err.Error()}
	}
	if a.Verdict == tool.Yes && reply.Remember != nil && !r.Clears && !a.Unseen {
		rule, err := d.fill(*reply.Remember, r)
		if err != nil {
			return tool.Answer{By: "nobody", Note: err.Error()}
		}
		a.Note = "remembered as rule " + rule.ID + ": " + rule.String()
		a.Keep = func() error { return d.remember(rule) }
	}
	return a
}

// place is where the desk stands.
func (d *Desk) place() place { return place{d.Policy, d.Session} }

// onlyReads reports whether all that is asked is to read.
func onlyReads(r tool.Request) bool {
	return len(r.Asks) > 0 && !slices.ContainsFunc(r.Asks, func(e policy.Effect) bool { return e.Verb != policy.Read }) &&
		!slices.ContainsFunc(r.Effects, func(e policy.Effect) bool { return e.Verb != policy.Read })
}

// wait keeps the request until somebody answers it elsewhere.
func (d *Desk) wait(r tool.Request) tool.Answer {
	id, err := d.Store.keep(r, d.place(), d.Now())
	if err != nil {
		return tool.Answer{By: "nobody", Note: "nobody can be asked here, and the request could not be kept: " + err.Error(), Nobody: true}
	}
	return tool.Answer{Verdict: tool.Waits, By: "nobody", ID: id, Nobody: true}
}

// maxLooks is how often it is looked for an answer before it is looked whether the request
// still waits, which takes longer: another call may have used the answer, or the user taken
// it back.
const maxLooks = 10

// beside keeps the request, and asks about it at the same time. Whoever answers, the
// answer is that which the store has.
func (d *Desk) beside(ctx context.Context, r tool.Request) tool.Answer {
	waits := d.wait(r)
	if waits.Verdict != tool.Waits {
		return waits
	}
	looked := 0
	answered := func() bool {
		given, err := d.Store.given(waits.ID)
		looked++
		return err != nil || given != nil || looked%maxLooks == 0 && !d.Store.waits(waits.ID)
	}
	reply := d.Beside.AskBeside(ctx, r, waits.ID, answered)
	no := func(note string) tool.Answer { return tool.Answer{By: "nobody", Note: note, ID: waits.ID} }
	if ctx.Err() != nil {
		return no("the call was ended before there was an answer")
	}
	if !reply.Nobody {
		switch err := d.Store.Answer(waits.ID, reply, d.Now()); {
		case err == nil, sandbox.CodeOf(err) == sandbox.ErrExists:
		case sandbox.CodeOf(err) == errUnseen: // it is no answer
			reply.Nobody = true
		default:
			return no("the request is not there any more; an answer is used once")
		}
	}
	a, ok, err := d.Store.use(r, d.place(), d.Now())
	if err != nil {
		return no("what was answered cannot be read")
	}
	if ok {
		return a
	}
	if _, err := d.Store.Waiting(waits.ID); err != nil || !reply.Nobody {
		return no("the request is not there any more; an answer is used once")
	}
	return waits
}

// remembered returns the rule that lets a request happen, if there is one.
func (d *Desk) remembered(r tool.Request) (Rule, bool) {
	d.mu.Lock()
	rules := slices.Clone(d.run)
	d.mu.Unlock()
	kept, err := d.Store.Rules()
	if err != nil {
		return Rule{}, false // then it is asked
	}
	now := d.Now()
	for _, rule := range append(rules, kept...) {
		if rule.Policy != d.Policy || !rule.Expires.IsZero() && !now.Before(rule.Expires) {
			continue
		}
		if rule.Scope == Session && (rule.Session != d.Session || d.Session == "") {
			continue
		}
		if rule.permits(r) {
			return rule, true
		}
	}
	return Rule{}, false
}

// fill completes a rule that the user chose for a request. One that does not
// speak of the request was not made for it, and is refused.
func (d *Desk) fill(rule Rule, r tool.Request) (Rule, error) {
	rule.ID, rule.Policy, rule.Session, rule.Made = newID(), d.Policy, d.Session, d.Now()
	known := rule.Scope == Run || rule.Scope == Project || rule.Scope == Session && d.Session != ""
	if !known || !rule.permits(r) {
		return rule, errOther
	}
	return rule, nil
}

// remember keeps a rule.
func (d *Desk) remember(rule Rule) error {
	if rule.Scope != Run {
		return d.Store.addRule(rule)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.run = append(d.run, rule)
	return nil
}
