package command

import (
	"slices"

	"github.com/golem-forge/golem/internal/policy"
)

// Rules are those of a grant, ready to judge command lines by.
type Rules struct{ layers []layer }

// A layer is the rules of one who had a say.
type layer struct {
	rules []rule
	sets  []policy.ShellRule
	rest  *policy.ShellRule // for what no other rule speaks of, nil where there is none
}

type rule struct {
	policy.ShellRule
	pattern Pattern
}

// NewRules returns rules to judge by. A rule that cannot be meant holds
// everything back that it could be about.
func NewRules(s policy.Shell) Rules {
	var r Rules
	for _, from := range s.Layers {
		var l layer
		if !from.NoDefault {
			l.rest = &policy.ShellRule{Pattern: "default", Approval: from.Default, From: from.From}
		}
		for _, is := range from.Rules {
			if is.Use != "" {
				l.sets = append(l.sets, is)
				continue
			}
			pattern, why := NewPattern(is.Pattern, false)
			switch {
			case why != "":
				is.Approval = policy.Blocked
				l.rest = &is
			case pattern.everything():
				l.rest = least(l.rest, is)
			default:
				l.rules = append(l.rules, rule{is, pattern})
			}
		}
		r.layers = append(r.layers, l)
	}
	return r
}

// least returns the rule for everything: what is written as one counts before
// the default, and the stricter of two.
func least(is *policy.ShellRule, other policy.ShellRule) *policy.ShellRule {
	if is != nil && is.Pattern == "*" && is.Approval <= other.Approval {
		return is
	}
	return &other
}

// A Judgement says what rules make of a command line.
type Judgement struct {
	Line
	Verdicts []Verdict // of the parts, in their order
	Ruled    bool      // there are rules
}

// A Verdict is what rules say of a part.
type Verdict struct {
	// Said is false where no rule speaks of it: then the default of commands holds.
	Said    bool
	Consent policy.Approval
	Rule    policy.ShellRule // the one that decides
	// Unsure is true where the rule blocks what the part could be: its words do not say.
	Unsure bool
	Why    string // what keeps a rule that is near from letting it pass
}

// Judge judges a command line. In each layer the longest rule that matches
// decides about a part, a rule of one's own before a ready-made set; among
// layers the least consent does.
func (r Rules) Judge(line string) Judgement {
	j := Judgement{Line: Parse(line), Ruled: len(r.layers) > 0}
	alone := !slices.ContainsFunc(j.Parts, func(p Part) bool { return !p.Plain && !p.Runs })
	for _, p := range j.Parts {
		v := Verdict{Consent: policy.PreApproved}
		for _, l := range r.layers {
			said := l.judge(p, alone)
			switch {
			case said.Said && (!v.Said || said.Consent < v.Consent || said.Consent == v.Consent && v.Unsure && !said.Unsure):
				if !v.Said {
					said.Why = or(said.Why, v.Why)
				}
				v = said
			case v.Why == "":
				v.Why = said.Why
			}
		}
		if v.Why == "" {
			v.Why = p.Unknown
		}
		j.Verdicts = append(j.Verdicts, v)
	}
	return j
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// judge says what a layer makes of a part. What runs no program of its own needs
// no rule, unless there is nothing else in the line.
func (l layer) judge(p Part, alone bool) Verdict {
	best := Verdict{Consent: policy.PreApproved}
	rank := -1
	if !p.Plain {
		best, rank = l.longest(p)
	}
	if !best.Said && !(p.Plain || p.Runs) && p.Unknown == "" {
		for _, s := range l.sets {
			ok, why := allows(s.Use, p)
			if ok {
				best = Verdict{Said: true, Consent: s.Approval, Rule: s}
				break
			}
			best.Why = or(best.Why, why)
		}
	}
	if !best.Said && l.rest != nil && (alone || !p.Plain && !p.Runs) {
		best = Verdict{Said: true, Consent: l.rest.Approval, Rule: *l.rest, Why: best.Why}
	}
	if !p.Plain && best.Consent > policy.Blocked {
		best = l.could(p, best, rank)
	}
	return best
}

// longest returns what the longest rule says that matches a part for certain.
func (l layer) longest(p Part) (Verdict, int) {
	best, rank := Verdict{Consent: policy.PreApproved}, -1
	for _, r := range l.rules {
		now := r.pattern.rank()
		ok, why := false, ""
		switch {
		case r.Approval < policy.PreApproved:
			ok, _ = r.pattern.holds(p)
		case p.Runs || p.Unknown != "":
		default:
			ok, why = r.pattern.passes(p)
		}
		switch {
		case ok && (now > rank || now == rank && r.Approval < best.Consent):
			best, rank = Verdict{Said: true, Consent: r.Approval, Rule: r.ShellRule}, now
		case !best.Said:
			best.Why = or(best.Why, why)
		}
	}
	return best, rank
}

// could applies rules that hold back to a part that they could match. A rule that blocks
// blocks it: no approval allows what nobody can judge. A rule that asks makes it ask.
func (l layer) could(p Part, best Verdict, rank int) Verdict {
	for _, consent := range []policy.Approval{policy.Blocked, policy.Ask} {
		for _, r := range l.rules {
			if r.Approval != consent || best.Consent <= consent || r.pattern.rank() <= rank {
				continue
			}
			_, possible := r.pattern.holds(p)
			reason := p.Unknown
			if !possible {
				// Code in another language counts only for rules that block: python -c would always ask.
				reason = r.pattern.hides(p, rank >= 0 || consent == policy.Ask)
				possible = reason != ""
			}
			if possible {
				why := "it could be " + r.Pattern
				if reason != "" {
					why = reason + "; " + why
				}
				return Verdict{Said: true, Consent: consent, Rule: r.ShellRule, Why: why, Unsure: true}
			}
		}
	}
	return best
}

// Decides returns the part that decides about the line: the first with the
// least consent, one of which no rule speaks before one that may pass. It is
// negative where there is none.
func (j Judgement) Decides() int {
	at := -1
	for i, v := range j.Verdicts {
		if !j.counts(i) {
			continue
		}
		if at < 0 || v.order() < j.Verdicts[at].order() {
			at = i
		}
	}
	return at
}

// counts reports whether a part has a say in the verdict.
func (j Judgement) counts(i int) bool {
	return j.Verdicts[i].Said || !j.Parts[i].Plain && !j.Parts[i].Runs
}

// order is the order of strictness: blocked, asks, unsaid, passes.
func (v Verdict) order() int {
	switch {
	case !v.Said:
		return 2
	case v.Consent == policy.PreApproved:
		return 3
	}
	return int(v.Consent)
}

// Consent returns the rule that the judgement is for a grant's consent to run
// the line, if it says anything beyond the default: where a part is left to that,
// only what is stricter.
func (j Judgement) Consent() (policy.Rule, bool) {
	at := j.Decides()
	if at < 0 || !j.Verdicts[at].Said {
		return policy.Rule{}, false
	}
	v := j.Verdicts[at]
	return policy.Rule{Verb: policy.Run, Approval: v.Consent, From: v.Rule.From}, true
}

// Matches reports whether a rule alone matches a line, and why or why not: one
// that lets pass lets all of it pass, one that holds back finds in it what it
// holds back.
func Matches(is policy.ShellRule, line string) (bool, string) {
	if is.Approval < policy.PreApproved && is.Use == "" {
		return found(is.Pattern, line)
	}
	j := NewRules(policy.Shell{}.With(policy.ShellLayer{NoDefault: true, Rules: []policy.ShellRule{is}})).Judge(line)
	at := j.Decides()
	if at < 0 {
		return false, "there is no command in it"
	}
	v, text := j.Verdicts[at], shorten(j.Parts[at].Text)
	switch {
	case v.Said:
		return true, "each of its commands does"
	case v.Why != "":
		return false, text + ": " + v.Why
	}
	return false, text + " is another command"
}

// found reports whether what a pattern holds back is in a line, and where.
func found(text, line string) (bool, string) {
	pattern, why := NewPattern(text, false)
	if why != "" {
		return false, why
	}
	for _, p := range Parse(line).Parts {
		if certain, _ := pattern.holds(p); certain || pattern.everything() {
			return true, shorten(p.Text) + " does"
		}
	}
	return false, "no command in it begins with these words"
}

// shorten returns a text as it stands in a sentence.
func shorten(text string) string {
	const most = 60
	if shown := []rune(text); len(shown) > most {
		return string(shown[:most]) + "…"
	}
	return text
}
