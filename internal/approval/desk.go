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
type PendingAsker interface {
	// AskBeside returns the answer, or that Nobody has given one. Who is asked is told
	// by which id the request waits; answered reports whether somebody has answered it, or it
	// waits no longer.
	AskWhilePending(ctx context.Context, r tool.Request, id string, answered func() bool) Reply
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
	DigestPrefix string
}

// A Desk is the approver of one program. Its fields are set before it is used.
type Approver struct {
	Mode         Mode
	ModeIsFlag   bool // the mode is the user's own word for this call
	ApproveReads bool // the user lets everything be read that asks
	Store        *Store
	Asker        Asker        // nil where nobody can be asked here
	PendingAsker PendingAsker // asks in place of the asker, where set
	Policy       string       // the hash of what says what the program may do
	Session      string       // of files, in which an answer counts; "" for all
	Now          func() time.Time

	mu       sync.Mutex
	runRules []Rule // remembered for this run
}

// Approve implements tool.Approver. What is let happen waits no longer, wherever the yes
// came from: to ask about it again would be to ask about something that is done.
func (d *Approver) Approve(ctx context.Context, r tool.Request) tool.Answer {
	a := d.answer(ctx, r)
	if a.Verdict == tool.Approved && d.Store != nil {
		d.Store.removeAnswered(r, d.scope())
	}
	return a
}

func (d *Approver) answer(ctx context.Context, r tool.Request) tool.Answer {
	switch {
	case d.Mode == ApproveAll && r.Guess != "":
		return tool.Answer{By: "approve_all", Note: r.Guess}
	case d.Mode == ApproveAll && (!r.OnlyUser && r.Taint == "" || d.ModeIsFlag):
		return tool.Answer{Verdict: tool.Approved, By: "approve_all", Unseen: true}
	case d.Mode == AutoDeny:
		return tool.Answer{By: "auto_deny", Note: "nothing that needs consent is done in this mode", Unattended: true}
	case d.Mode != Interactive && d.Mode != "" && d.Mode != ApproveAll:
		return tool.Answer{By: "nobody", Note: "no such approval mode"}
	case d.ApproveReads && r.Taint == "" && onlyReads(r):
		return tool.Answer{Verdict: tool.Approved, By: "--approve-reads", Unseen: true}
	}
	if rule, ok := d.findRule(r); ok && !r.OnlyUser {
		return tool.Answer{Verdict: tool.Approved, By: "rule " + rule.ID}
	}
	if a, ok, err := d.Store.takeAnswer(r, d.scope(), d.Now()); err != nil {
		return tool.Answer{By: "nobody", Note: "what was answered before cannot be read"}
	} else if ok {
		return a
	}
	if d.PendingAsker != nil {
		return d.askWhilePending(ctx, r)
	}
	if d.Asker == nil {
		return d.addPending(r)
	}
	reply := d.Asker.Ask(ctx, r)
	if reply.Verdict != tool.Approved && reply.Unattended {
		return d.addPending(r)
	}
	if ctx.Err() != nil && reply.Verdict == tool.Approved {
		return tool.Answer{By: "nobody", Note: "the answer came too late"}
	}
	a, err := reply.toAnswer(r)
	if err != nil {
		return tool.Answer{By: "nobody", Note: err.Error()}
	}
	if a.Verdict == tool.Approved && reply.Remember != nil && !r.OnlyUser && !a.Unseen {
		rule, err := d.completeRule(*reply.Remember, r)
		if err != nil {
			return tool.Answer{By: "nobody", Note: err.Error()}
		}
		a.Note = "remembered as rule " + rule.ID + ": " + rule.String()
		a.Keep = func() error { return d.addRule(rule) }
	}
	return a
}

// scope is where the desk stands.
func (d *Approver) scope() requestScope { return requestScope{d.Policy, d.Session} }

// onlyReads reports whether all that is asked is to read.
func onlyReads(r tool.Request) bool {
	return len(r.ToApprove) > 0 && !slices.ContainsFunc(r.ToApprove, func(e policy.Effect) bool { return e.Verb != policy.Read }) &&
		!slices.ContainsFunc(r.Effects, func(e policy.Effect) bool { return e.Verb != policy.Read })
}

// addPending keeps the request until somebody answers it elsewhere.
func (d *Approver) addPending(r tool.Request) tool.Answer {
	id, err := d.Store.addPending(r, d.scope(), d.Now())
	if err != nil {
		return tool.Answer{By: "nobody", Note: "nobody can be asked here, and the request could not be kept: " + err.Error(), Unattended: true}
	}
	return tool.Answer{Verdict: tool.Undecided, By: "nobody", ID: id, Unattended: true}
}

// maxLooks is how often it is looked for an answer before it is looked whether the request
// still waits, which takes longer: another call may have used the answer, or the user taken
// it back.
const looksPerCheck = 10

// askWhilePending keeps the request, and asks about it at the same time. Whoever answers, the
// answer is that which the store has.
func (d *Approver) askWhilePending(ctx context.Context, r tool.Request) tool.Answer {
	waits := d.addPending(r)
	if waits.Verdict != tool.Undecided {
		return waits
	}
	looked := 0
	answered := func() bool {
		given, err := d.Store.readAnswer(waits.ID)
		looked++
		return err != nil || given != nil || looked%looksPerCheck == 0 && !d.Store.isPending(waits.ID)
	}
	reply := d.PendingAsker.AskWhilePending(ctx, r, waits.ID, answered)
	no := func(note string) tool.Answer { return tool.Answer{By: "nobody", Note: note, ID: waits.ID} }
	if ctx.Err() != nil {
		return no("the call was ended before there was an answer")
	}
	if !reply.Unattended {
		switch err := d.Store.Answer(waits.ID, reply, d.Now()); {
		case err == nil, sandbox.CodeOf(err) == sandbox.ErrExists:
		case sandbox.CodeOf(err) == errUnseen: // it is no answer
			reply.Unattended = true
		default:
			return no("the request is not there any more; an answer is used once")
		}
	}
	a, ok, err := d.Store.takeAnswer(r, d.scope(), d.Now())
	if err != nil {
		return no("what was answered cannot be read")
	}
	if ok {
		return a
	}
	if _, err := d.Store.FindPending(waits.ID); err != nil || !reply.Unattended {
		return no("the request is not there any more; an answer is used once")
	}
	return waits
}

// findRule returns the rule that lets a request happen, if there is one.
func (d *Approver) findRule(r tool.Request) (Rule, bool) {
	d.mu.Lock()
	rules := slices.Clone(d.runRules)
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

// completeRule completes a rule that the user chose for a request. One that does not
// speak of the request was not made for it, and is refused.
func (d *Approver) completeRule(rule Rule, r tool.Request) (Rule, error) {
	rule.ID, rule.Policy, rule.Session, rule.Made = newID(), d.Policy, d.Session, d.Now()
	known := rule.Scope == Run || rule.Scope == Project || rule.Scope == Session && d.Session != ""
	if !known || !rule.permits(r) {
		return rule, errOtherCall
	}
	return rule, nil
}

// addRule keeps a rule.
func (d *Approver) addRule(rule Rule) error {
	if rule.Scope != Run {
		return d.Store.addRule(rule)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.runRules = append(d.runRules, rule)
	return nil
}
