package tool

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/sandbox"
)

// decide asks the grant. What it blocks nobody can allow.
func (p *pass) decide() error {
	p.Gate = p.following(slices.Concat(p.tool.Rules, p.plan.Rules))
	p.foresee()
	p.taint()
	p.decision = p.Judge(p.plan.now()...)
	if consent, rule := p.use(p.tool); consent < p.decision.Consent {
		p.decision = policy.Decision{Consent: consent, Effect: p.itself(), Rule: rule}
	}
	return p.judged()
}

// judged holds against a decision what nobody can change about it: what is always asked
// about, and what is blocked.
func (p *pass) judged() error {
	if p.asks() && p.decision.Consent > policy.Ask {
		p.decision = policy.Decision{Consent: policy.Ask, Effect: p.itself()}
	}
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

// asks reports whether nobody's rule lets it pass: of what is only known later, when
// it is.
func (p *pass) asks() bool { return p.plan.Asks || p.tool.Asks && !p.plan.Later }

// itself is the effect that rules about the tool itself are for.
func (p *pass) itself() policy.Effect { return policy.Effect{Verb: policy.Use, Target: p.tool.Name} }

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
		p.record.Decision, p.record.Seen, p.keep = "yes", a.Seen(), a.Keep
		if !a.Unseen && a.Items > 0 {
			p.ctx = context.WithValue(p.ctx, seenKey{}, true)
		}
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
	r := Request{Origin: p.origin, Workers: p.Workers, Tool: p.tool.Name, Args: args, Effects: p.effects(),
		Rule: p.decision.Rule.From, Why: p.plan.Why, Changes: p.prepared.Changes, Wish: p.prepared.Wish, Warnings: p.prepared.Warnings, MoreWarnings: p.prepared.MoreWarnings, Clears: p.tool.Asks, Guessed: p.plan.Guessed}
	for _, e := range p.effects() {
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
	if p.steered() {
		r.Taint = p.Exposure.From()
	}
	switch {
	case p.problem != nil:
		r.Problem = p.problem.Error()
	case p.late:
		r.Problem, r.Unknown = "golem finds it out from the other machine, and contacts that only after your approval", true
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
