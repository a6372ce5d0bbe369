package tool

import (
	"slices"

	"github.com/golem-forge/golem/internal/decide/policy"
)

// A Taint records what a worker has read, and gives the rules for a tainted worker. See
// internal/decide/taint.
type Taint interface {
	RecordSeen(effects []policy.Effect) // the effects that let the worker see content
	AddBytes(bytes int64)               // the size of a result
	MarkTainted(from string)            // untrusted content from a path; "" for none
	Source() string                     // the first untrusted path that was read, "" for none
	// Rules returns one more layer of rules for a tool, if the worker is tainted.
	Rules(t Tool) []policy.Rule
}

// canBeSteered reports whether content that the call reads may steer its caller. It does
// not steer the user, who makes calls by hand.
func (in *invocation) canBeSteered() bool { return in.Taint != nil && in.origin != policy.User }

// visible returns the effects whose targets the call shows.
func (p Plan) visible() []policy.Effect {
	if p.Visible != nil {
		return p.Visible
	}
	return p.Effects
}

// recordInput records for taint what the worker sees by the call: from here on the worker
// is tainted if any of it is untrusted.
func (in *invocation) recordInput(plan callPlan) {
	in.recordSeen(plan.visible())
	in.recordHearsay(plan.TaintedBy, plan.Reveals)
}

// recordSeen records what effects let the worker see.
func (in *invocation) recordSeen(effects []policy.Effect) {
	if in.canBeSteered() {
		in.Taint.RecordSeen(effects)
	}
}

// recordPassedOn records, before the decision, the content that a call reads and passes
// on. A copy writes the content that it reads. A command decides while it runs which
// files it changes and which hosts it connects to. A change of a file in its place passes
// nothing on.
func (in *invocation) recordPassedOn(plan callPlan) {
	if plan.changesNothing() {
		return
	}
	var seen []policy.Effect
	for _, e := range plan.visible() {
		inPlace := slices.Contains(plan.Effects, policy.Effect{Verb: policy.Write, Target: e.Target, Tree: e.Tree})
		if e.Verb == policy.Run || e.Verb == policy.Read && !inPlace {
			seen = append(seen, e)
		}
	}
	in.recordSeen(seen)
}

// recordHearsay records that the worker learns of content without reading it: of work whose
// author had read the untrusted mount from, and of the content of files.
func (in *invocation) recordHearsay(from string, files []string) {
	if !in.canBeSteered() {
		return
	}
	in.Taint.MarkTainted(from)
	for _, name := range files {
		in.Taint.RecordSeen([]policy.Effect{{Verb: policy.Read, Target: name}})
	}
}

// recordSize records for taint how many bytes of results the worker has got.
func (in *invocation) recordSize(r Result) {
	if in.canBeSteered() {
		n := len(r.Words())
		for _, m := range r.Media {
			n += len(m.Data)
		}
		in.Taint.AddBytes(int64(n))
	}
}

// addTaintRules returns a grant with the rules for a worker that has read untrusted
// content, if it has.
func (in *invocation) addTaintRules(grant policy.Grant, t Tool) policy.Grant {
	if !in.canBeSteered() {
		return grant
	}
	if rules := in.Taint.Rules(t); len(rules) > 0 {
		grant.Approvals = grant.Approvals.With(rules...)
	}
	return grant
}
