package command

import (
	"cmp"
	"slices"

	"github.com/golem-forge/golem/internal/decide/policy"
)

// Rules judge command lines by the rules of a grant.
type Rules struct{ layers []layer }

// A layer holds the rules of one source, such as the user or a worker.
type layer struct {
	rules []rule
	sets  []policy.ShellRule
	rest  *policy.ShellRule // for commands that no other rule matches; nil if there is none
}

type rule struct {
	policy.ShellRule
	pattern Pattern
}

// NewRules prepares the rules of s. If a pattern is not valid, its rule blocks every
// command that no other rule matches.
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
			case pattern.matchesAll():
				l.rest = pickFallback(l.rest, is)
			default:
				l.rules = append(l.rules, rule{is, pattern})
			}
		}
		r.layers = append(r.layers, l)
	}
	return r
}

// pickFallback returns the rule for all commands. A rule with the pattern * wins over the
// default. Of two such rules, the stricter one wins.
func pickFallback(is *policy.ShellRule, other policy.ShellRule) *policy.ShellRule {
	if is != nil && is.Pattern == "*" && is.Approval <= other.Approval {
		return is
	}
	return &other
}

// A Judgement is the result of judging a command line.
type Judgement struct {
	Line
	Verdicts []Verdict // one per part, in the same order
	Ruled    bool      // the grant has rules
}

// A Verdict is the result of the rules for one part.
type Verdict struct {
	// Said is false if no rule matches the part. Then the default for commands applies.
	Said     bool
	Approval policy.Approval
	Rule     policy.ShellRule // the rule that decides
	// Unsure is true if the rule restricts the part only because the part could be the
	// command that the rule names.
	Unsure bool
	Why    string // why a rule that nearly matches does not allow the part, or why the part is not understood
}

// Judge judges a command line. In each layer the longest matching rule decides about a
// part. A rule with a pattern wins over a ready-made set. Across layers the strictest
// approval wins.
func (r Rules) Judge(line string) Judgement {
	j := Judgement{Line: Parse(line), Ruled: len(r.layers) > 0}
	alone := !slices.ContainsFunc(j.Parts, func(p Part) bool { return !p.Plain && !p.Runs })
	j.Verdicts = make([]Verdict, 0, len(j.Parts))
	for i := range j.Parts {
		p := &j.Parts[i]
		v := Verdict{Approval: policy.PreApproved}
		for i := range r.layers {
			said := r.layers[i].judge(p, alone)
			switch {
			case said.Said && (!v.Said || said.Approval < v.Approval || said.Approval == v.Approval && v.Unsure && !said.Unsure):
				if !v.Said {
					said.Why = cmp.Or(said.Why, v.Why)
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

// judge returns the verdict of a layer for a part. A part that runs no program needs no
// rule, unless the line has only such parts.
func (l *layer) judge(p *Part, alone bool) Verdict {
	best := Verdict{Approval: policy.PreApproved}
	rank := -1
	if !p.Plain {
		best, rank = l.findLongest(p)
	}
	if !best.Said && !(p.Plain || p.Runs) && p.Unknown == "" {
		for _, s := range l.sets {
			ok, why := allows(s.Use, p)
			if ok {
				best = Verdict{Said: true, Approval: s.Approval, Rule: s}
				break
			}
			best.Why = cmp.Or(best.Why, why)
		}
	}
	if !best.Said && l.rest != nil && (alone || !p.Plain && !p.Runs) {
		best = Verdict{Said: true, Approval: l.rest.Approval, Rule: *l.rest, Why: best.Why}
	}
	if !p.Plain && best.Approval > policy.Blocked {
		best = l.restrictPossible(p, best, rank)
	}
	return best
}

// findLongest returns the verdict of the longest rule that certainly matches a part, and the
// rank of that rule.
func (l *layer) findLongest(p *Part) (Verdict, int) {
	best, rank := Verdict{Approval: policy.PreApproved}, -1
	for i := range l.rules {
		r := &l.rules[i]
		now := r.pattern.rank()
		ok, why := false, ""
		switch {
		case r.Approval < policy.PreApproved:
			ok, _ = r.pattern.restricts(p)
		case p.Runs || p.Unknown != "":
		default:
			ok, why = r.pattern.passes(p)
		}
		switch {
		case ok && (now > rank || now == rank && r.Approval < best.Approval):
			best, rank = Verdict{Said: true, Approval: r.Approval, Rule: r.ShellRule}, now
		case !best.Said:
			best.Why = cmp.Or(best.Why, why)
		}
	}
	return best, rank
}

// restrictPossible applies restricting rules to a part that they could match. A blocking rule blocks
// the part: nobody can approve what nobody can judge. A rule that asks makes the part
// ask.
func (l *layer) restrictPossible(p *Part, best Verdict, rank int) Verdict {
	for _, level := range []policy.Approval{policy.Blocked, policy.Ask} {
		for i := range l.rules {
			r := &l.rules[i]
			if r.Approval != level || best.Approval <= level || r.pattern.rank() <= rank {
				continue
			}
			_, possible := r.pattern.restricts(p)
			reason := p.Unknown
			if !possible {
				// Code in another language counts only for blocking rules. Otherwise
				// python -c would always ask.
				reason = r.pattern.explainHidden(p, rank >= 0 || level == policy.Ask)
				possible = reason != ""
			}
			if possible {
				why := "it could be " + r.Pattern
				if reason != "" {
					why = reason + "; " + why
				}
				return Verdict{Said: true, Approval: level, Rule: r.ShellRule, Why: why, Unsure: true}
			}
		}
	}
	return best
}

// Decides returns the index of the part that decides about the line: the first one with
// the strictest verdict. A part without a rule counts as stricter than an allowed one.
// The index is negative if no part counts.
func (j Judgement) Decides() int {
	at := -1
	for i, v := range j.Verdicts {
		if !j.hasSay(i) {
			continue
		}
		if at < 0 || v.order() < j.Verdicts[at].order() {
			at = i
		}
	}
	return at
}

// hasSay reports whether a part counts in the decision about the line.
func (j Judgement) hasSay(i int) bool {
	return j.Verdicts[i].Said || !j.Parts[i].Plain && !j.Parts[i].Runs
}

// order sorts verdicts by strictness: blocked, ask, no rule, allowed.
func (v Verdict) order() int {
	switch {
	case !v.Said:
		return 2
	case v.Approval == policy.PreApproved:
		return 3
	}
	return int(v.Approval)
}

// ApprovalRule returns the judgement as a rule for running the line. It returns false if the
// default for commands decides.
func (j Judgement) ApprovalRule() (policy.Rule, bool) {
	at := j.Decides()
	if at < 0 || !j.Verdicts[at].Said {
		return policy.Rule{}, false
	}
	v := j.Verdicts[at]
	return policy.Rule{Verb: policy.Run, Approval: v.Approval, From: v.Rule.From}, true
}

// Matches reports whether a single rule matches a line, and explains the result. A rule
// that allows must match every command of the line. A rule that restricts must match one
// of them.
func Matches(is policy.ShellRule, line string) (bool, string) {
	if is.Approval < policy.PreApproved && is.Use == "" {
		return findPattern(is.Pattern, line)
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

// findPattern reports whether a restricting pattern matches a command of the line, and which
// one.
func findPattern(text, line string) (bool, string) {
	pattern, why := NewPattern(text, false)
	if why != "" {
		return false, why
	}
	for _, p := range Parse(line).Parts {
		if certain, _ := pattern.restricts(&p); certain || pattern.matchesAll() {
			return true, shorten(p.Text) + " does"
		}
	}
	return false, "no command in it begins with these words"
}

// shorten cuts a text to a length that fits into a sentence.
func shorten(text string) string {
	const most = 60
	if shown := []rune(text); len(shown) > most {
		return string(shown[:most]) + "…"
	}
	return text
}
