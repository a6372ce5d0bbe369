package tool

import (
	"slices"

	"github.com/golem-forge/golem/internal/policy"
)

// An Exposure notes what a worker takes in. See internal/taint.
type Exposure interface {
	Sees(effects []policy.Effect) // what a call is let see
	Takes(bytes int64)            // what it is handed
	Taint(from string)            // what is not trusted, "" for nothing
	From() string                 // the first untrusted place that was read, "" for none
	// Rules are one more layer of consent for a tool, where something was taken in that
	// is not trusted.
	Rules(t Tool) []policy.Rule
}

// steered reports whether what is read may steer who calls. What the user does by hand
// steers nobody.
func (p *pass) steered() bool { return p.Exposure != nil && p.origin != policy.User }

// shown returns the effects by which a call shows anything.
func (p Plan) shown() []policy.Effect {
	if p.Shows != nil {
		return p.Shows
	}
	return p.Effects
}

// exposed notes what a worker gets to see.
func (p *pass) exposed(effects []policy.Effect) {
	if p.steered() {
		p.Exposure.Sees(effects)
	}
}

// foresee notes, before it is decided about, what a call takes in that does more than
// look: a copy hands on what it reads, and what a command lands and whom it reaches is
// decided while it runs. What is changed where it stands is handed to nobody.
func (p *pass) foresee() {
	if p.reads() {
		return
	}
	var seen []policy.Effect
	for _, e := range p.plan.shown() {
		stays := slices.Contains(p.plan.Effects, policy.Effect{Verb: policy.Write, Target: e.Target, Tree: e.Tree})
		if e.Verb == policy.Run || e.Verb == policy.Read && !stays {
			seen = append(seen, e)
		}
	}
	p.exposed(seen)
}

// hears notes that a worker is told what was made by who had read what is not trusted,
// and what some files hold.
func (p *pass) hears(from string, files []string) {
	if !p.steered() {
		return
	}
	p.Exposure.Taint(from)
	for _, name := range files {
		p.Exposure.Sees([]policy.Effect{{Verb: policy.Read, Target: name}})
	}
}

// taken notes what a worker is handed.
func (p *pass) taken(r Result) Result {
	if p.steered() {
		p.Exposure.Takes(int64(len(r.Text)))
	}
	return r
}

// taint has a worker that has read what is not trusted asked about all that reaches
// beyond its layer.
func (p *pass) taint() {
	if !p.steered() {
		return
	}
	if rules := p.Exposure.Rules(p.tool); len(rules) > 0 {
		p.Grant.Consent = p.Grant.Consent.With(rules...)
	}
}
