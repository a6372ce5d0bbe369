package approval

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/sandbox"
)

// Mode says how requests are answered. The zero value is Interactive.
type Mode string

// The modes.
const (
	Interactive Mode = "interactive" // ask a person
	ApproveAll  Mode = "approve_all" // approve everything that is not blocked
	AutoDeny    Mode = "auto_deny"   // decline everything that needs approval
)

// An Asker asks a person who is present.
type Asker interface {
	// Ask returns the reply. When ctx ends, the reply is to decline.
	Ask(ctx context.Context, r tool.Request) Reply
}

// A PendingAsker asks a person about a request that is pending at the same time. It may
// be answered elsewhere meanwhile, and the first answer counts.
type PendingAsker interface {
	// AskWhilePending returns the reply, or one with Unattended if there is none. The
	// request is pending as id. Answered reports whether somebody has answered it, or it
	// is no longer pending.
	AskWhilePending(ctx context.Context, r tool.Request, id string, answered func() bool) Reply
}

// A Reply is what a person answered. The zero Reply declines.
type Reply struct {
	tool.Answer
	// Remember is the rule that the user chose with an approval, with its scope and
	// expiry; nil for none.
	Remember *Rule
	// Rendered are the items of the request that were on screen completely: see
	// tool.Request.Items. A front reports them whatever the answer is.
	Rendered []string
	// Display is the request as the person saw it, if its paths were shown differently; nil
	// if it was shown as it is.
	Display *tool.Request
	// DigestPrefix is the beginning of the request's digest that the person typed, at
	// least tool.MinDigestPrefix digits; "" for none.
	DigestPrefix string
}

// Keeps reports whether golem remembers the rule of a reply that became an answer: only an
// approval of what was shown can permit, and only a refusal can refuse.
func (reply Reply) Keeps(a tool.Answer) bool {
	if reply.Remember == nil {
		return false
	}
	if a.Verdict == tool.Approved {
		return len(reply.Remember.Refused) == 0 && !a.Seen.IsUnseen()
	}
	return len(reply.Remember.Refused) > 0
}

// An Approver answers the requests of one program: by its mode, by remembered rules, by
// answers from other processes, or by asking a person. Its fields are set before it is
// used.
type Approver struct {
	Mode         Mode
	ModeIsFlag   bool // the user gave the mode as a flag of this command
	ApproveReads bool // approve every request that only reads
	Store        *Requests
	Asker        Asker        // nil if nobody can be asked here
	PendingAsker PendingAsker // used in place of Asker, if set
	Policy       string       // the hash of the program's policy
	Session      string       // the session in which an answer counts; "" for none
	// HostSession is the session in which golem remembers declined hosts, "" for that of
	// Session.
	HostSession string
	// SessionLabel is the name of that session, for commands that the user types.
	SessionLabel string
	UnseenOff    string // the line of a policy that does not allow approving changes that golem did not show; "" for none
	Now          func() time.Time

	mu       sync.Mutex
	runRules []Rule // remembered for this run
}

// Approve implements tool.Approver. If the request is approved in any way, it is no
// longer pending: nobody should be asked about a call that has run.
func (d *Approver) Approve(ctx context.Context, r tool.Request) tool.Answer {
	a := d.answer(ctx, r)
	if a.Verdict == tool.Approved && a.Seen.IsUnseen() && d.UnseenOff != "" {
		a = tool.Answer{By: "policy", Note: tool.UnseenOffNote(d.UnseenOff)}
	}
	if a.Verdict == tool.Approved && d.Store != nil {
		d.Store.removeAnswered(r, d.scope())
	}
	return a
}

// WithAsker returns an approver that asks elsewhere. If the asker is nil, it asks nobody
// here: a request waits for golem approve. An asker that is a PendingAsker too is used as one.
// It is for a terminal that another program uses.
func (d *Approver) WithAsker(a Asker) *Approver {
	pending, _ := a.(PendingAsker)
	return &Approver{Mode: d.Mode, ModeIsFlag: d.ModeIsFlag, Store: d.Store, Asker: a, PendingAsker: pending, Policy: d.Policy, Session: d.Session, HostSession: d.HostSession, SessionLabel: d.SessionLabel, UnseenOff: d.UnseenOff, Now: d.Now}
}

// answerAlone answers a request that needs no person: by the mode, a flag or a remembered
// rule.
func (d *Approver) answerAlone(r tool.Request) (a tool.Answer, ok bool) {
	if rule, ok := d.findRule(r, Rule.refuses); ok {
		return tool.Answer{By: "rule " + rule.ID, Note: rule.String()}, true
	}
	switch {
	case d.Mode == ApproveAll && r.Guess != "":
		return tool.Answer{By: "approve_all", Note: r.Guess}, true
	case d.Mode == ApproveAll && (!r.OnlyUser && r.Taint == "" || d.ModeIsFlag):
		return tool.Answer{Verdict: tool.Approved, By: "approve_all", Seen: r.SeeNothing()}, true
	case d.Mode == AutoDeny:
		return tool.Answer{By: "auto_deny", Note: "in this mode golem declines every call that needs approval", Unattended: true}, true
	case d.Mode != Interactive && d.Mode != "" && d.Mode != ApproveAll:
		return tool.Answer{By: "nobody", Note: "no such approval mode"}, true
	case d.ApproveReads && d.UnseenOff == "" && r.Taint == "" && onlyReads(r):
		return tool.Answer{Verdict: tool.Approved, By: "--approve-reads", Seen: r.SeeNothing()}, true
	}
	rule, ok := d.findRule(r, Rule.permits)
	return tool.Answer{Verdict: tool.Approved, By: "rule " + rule.ID, Seen: r.FollowRule()}, ok && !r.OnlyUser
}

func (d *Approver) answer(ctx context.Context, r tool.Request) tool.Answer {
	if a, ok := d.answerAlone(r); ok {
		return a
	}
	r.UnseenOff, r.SessionLabel = d.UnseenOff, cmp.Or(d.SessionLabel, d.hostSession())
	r.Earlier = d.Store.explainEarlier(r, d.scope(), d.Now())
	if a, ok, err := d.Store.takeAnswer(r, d.scope(), d.Now()); err != nil {
		return tool.Answer{By: "nobody", Note: "golem cannot read the earlier answers"}
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
	if a.Front != "" {
		a.Text = d.Store.KeepShown(r, reply)
	}
	if err := d.remember(r, reply, &a); err != nil {
		return tool.Answer{By: "nobody", Note: err.Error()}
	}
	return a
}

// remember gives an answer the rule that golem remembers with it: the one that the person
// chose, or that of a declined host.
func (d *Approver) remember(r tool.Request, reply Reply, a *tool.Answer) error {
	var rule Rule
	var err error
	refusal, declined := d.refusalFor(r, reply)
	switch {
	case a.Verdict != tool.Approved && declined:
		rule, err = refusal.complete(r, requestScope{d.Policy, d.hostSession()}, d.Now())
	case a.Verdict == tool.Approved && reply.Keeps(*a) && !r.OnlyUser:
		rule, err = reply.Remember.complete(r, d.scope(), d.Now())
	default:
		return nil
	}
	if err != nil {
		return err
	}
	if a.Verdict == tool.Approved || rule.Scope == Project {
		a.Note = rule.Note()
	}
	a.Keep = func() error { return d.addRule(rule) }
	return nil
}

// Keep implements tool.Keeper. It keeps only requests that a person would be asked about.
func (d *Approver) Keep(r tool.Request) tool.Answer {
	if a, ok := d.answerAlone(r); ok {
		return tool.Answer{By: a.By}
	}
	return d.addPending(r)
}

func (d *Approver) scope() requestScope { return requestScope{d.Policy, d.Session} }

// onlyReads reports whether all effects of a request are reads.
func onlyReads(r tool.Request) bool {
	return len(r.ToApprove) > 0 && !slices.ContainsFunc(r.ToApprove, func(e policy.Effect) bool { return e.Verb != policy.Read }) &&
		!slices.ContainsFunc(r.Effects, func(e policy.Effect) bool { return e.Verb != policy.Read })
}

// addPending stores the request until somebody answers it elsewhere.
func (d *Approver) addPending(r tool.Request) tool.Answer {
	id, err := d.Store.addPending(r, d.scope(), d.Now())
	if err != nil {
		return tool.Answer{By: "nobody", Note: "golem cannot ask here, and could not store the request: " + err.Error(), Unattended: true}
	}
	return tool.Answer{Verdict: tool.Undecided, By: "nobody", ID: id, Note: r.Earlier, Unattended: true}
}

// looksPerCheck is how many times askWhilePending looks for an answer before it checks
// that the request is still pending. That takes longer. Another call may have used the
// answer, or the user may have revoked the request.
const looksPerCheck = 10

// askWhilePending stores the request, and asks about it at the same time. It returns the
// answer in the store, which another process may have given.
func (d *Approver) askWhilePending(ctx context.Context, r tool.Request) tool.Answer {
	pending := d.addPending(r)
	if pending.Verdict != tool.Undecided {
		return pending
	}
	looked := 0
	answered := func() bool {
		given, err := d.Store.readAnswer(pending.ID)
		looked++
		return err != nil || given != nil || looked%looksPerCheck == 0 && !d.Store.isPending(pending.ID)
	}
	reply := d.PendingAsker.AskWhilePending(ctx, r, pending.ID, answered)
	no := func(note string) tool.Answer { return tool.Answer{By: "nobody", Note: note, ID: pending.ID} }
	if ctx.Err() != nil {
		return no("the call was ended before there was an answer")
	}
	own := false // whether the answer is this reply
	if !reply.Unattended {
		reply.Text = d.Store.KeepShown(r, reply)
		stored := reply
		stored.Remember = nil // remembered below, with the decision about the call
		switch err := d.Store.Answer(pending.ID, stored, d.Now()); {
		case err == nil:
			own = true
		case sandbox.CodeOf(err) == sandbox.ErrExists:
		case sandbox.CodeOf(err) == tool.ErrUnseen, sandbox.CodeOf(err) == "blocked": // the request is still pending
			reply.Unattended = true
		default:
			return no("the request does not wait any more; an answer counts once")
		}
	}
	a, ok, err := d.Store.takeAnswer(r, d.scope(), d.Now())
	if err != nil {
		return no("golem cannot read the answer")
	}
	if ok && own {
		if err := d.remember(r, reply, &a); err != nil {
			return no(err.Error())
		}
	}
	if ok {
		return a
	}
	if _, err := d.Store.FindPending(pending.ID); err != nil || !reply.Unattended {
		return no("the request does not wait any more; an answer counts once")
	}
	return pending
}

// findRule returns the remembered rule that decides about a request, if there is one.
func (d *Approver) findRule(r tool.Request, decides func(Rule, tool.Request) bool) (Rule, bool) {
	d.mu.Lock()
	rules := slices.Clone(d.runRules)
	d.mu.Unlock()
	kept, err := d.Store.Rules()
	if err != nil {
		return Rule{}, false // then a person is asked
	}
	now := d.Now()
	for _, rule := range append(rules, kept...) {
		if rule.Policy != d.Policy || !rule.Expires.IsZero() && !now.Before(rule.Expires) {
			continue
		}
		session := d.Session
		if len(rule.Refused) > 0 {
			session = d.hostSession()
		}
		if rule.Scope == Session && (rule.Session != session || session == "") {
			continue
		}
		if decides(rule, r) {
			return rule, true
		}
	}
	return Rule{}, false
}

// refusalFor returns the rule by which golem remembers that a person declined a host: the
// rule that they chose, or else one for the session.
func (d *Approver) refusalFor(r tool.Request, reply Reply) (Rule, bool) {
	if reply.By != "user" || reply.Stop {
		return Rule{}, false
	}
	if reply.Remember != nil && len(reply.Remember.Refused) > 0 {
		return *reply.Remember, true
	}
	scope := Session
	if d.hostSession() == "" {
		scope = Run
	}
	return RefusalRule(r, scope)
}

// hostSession returns the session in which golem remembers declined hosts.
func (d *Approver) hostSession() string { return cmp.Or(d.HostSession, d.Session) }

// addRule remembers a rule.
func (d *Approver) addRule(rule Rule) error {
	if rule.Scope != Run {
		return d.Store.addRule(rule)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.runRules = append(d.runRules, rule)
	return nil
}
