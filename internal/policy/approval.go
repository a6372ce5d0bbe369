package policy

import "slices"

// A Rule says what consent a verb needs at a target and, for files, below it.
type Rule struct {
	Verb Verb
	// Target is the name of a file or folder, "/" for all; for other verbs a
	// name, "*" for all; for Connect also "*.example.com".
	Target   string
	Approval Approval
	From     string // where it is written: file:line, a flag
}

// normalize returns the rule with its target as effects spell theirs. A rule that
// cannot be meant blocks: passed over, it would leave open what it speaks of.
func (r Rule) normalize() Rule {
	all := "*"
	if r.Verb.isFileVerb() {
		all = "/"
	}
	ok := r.Approval <= PreApproved
	switch {
	case r.Target == "*" || r.Target == "/":
		r.Target = all
	case r.Verb.isFileVerb():
		var isName bool
		r.Target, isName = cleanName(r.Target)
		ok = ok && isName
	case r.Verb == Connect:
		r.Target = hostName(r.Target)
		ok = ok && IsHost(r.Target)
	default:
		ok = ok && r.Target != ""
	}
	if !ok {
		r.Target, r.Approval = all, Blocked
	}
	return r
}

// covers reports whether the rule speaks of the effect.
func (r Rule) covers(e Effect) bool {
	switch {
	case r.Verb != e.Verb:
		return false
	case e.Verb.isFileVerb():
		return isAtOrBelow(r.Target, e.Target)
	case r.Target == "*":
		return true
	case e.Verb == Connect:
		return hostWithin(hostName(e.Target), r.Target)
	}
	return r.Target == e.Target
}

// rank is how closely a rule names its target: the longer the closer. A host
// is closer than the longest pattern that matches it.
func (r Rule) rank() int {
	if !r.Verb.isFileVerb() && r.Target[0] != '*' {
		return len(r.Target) + 1
	}
	return len(r.Target)
}

// Consents are layers of rules, one for each who had a say: the project, the
// caller, the worker. In a layer the longest target decides, and the least
// consent among equals; among layers the least. A layer that says nothing of
// an effect does not count, and where none does the default of the verb holds:
// a default is no ceiling.
//
// Two verbs reach further than their own rules. To attach a file is to read it,
// so it needs consent to both. To delete a folder is to delete all that is in
// it, so a rule for something below the target counts where it is stricter.
type Approvals struct {
	layers   [][]Rule
	defaults []Rule // what holds where no layer speaks, in place of the verb's own
}

// With returns the consents with one more layer. A rule whose target is not
// canonical is taken as if it were; one with no target, or with a target or
// consent that does not exist, blocks its verb.
func (c Approvals) With(rules ...Rule) Approvals {
	if len(rules) == 0 {
		return c
	}
	layer := make([]Rule, len(rules))
	for i, r := range rules {
		layer[i] = r.normalize()
	}
	return Approvals{append(slices.Clip(c.layers), layer), c.defaults}
}

// WithDefaults returns the consents with other defaults at some targets, where no layer
// speaks. They are no ceiling either.
func (c Approvals) WithDefaults(rules ...Rule) Approvals {
	c.defaults = Approvals{}.With(rules...).Rules()
	return c
}

// Of returns the consent for an effect and the rule that decides. The rule of a
// default has no From.
func (c Approvals) Of(e Effect) (Approval, Rule) {
	least := c.explicitRule(e)
	if least.Approval == unset {
		least = closestRule(c.defaults, e)
	}
	if least.Approval == unset {
		least = Rule{Verb: e.Verb, Approval: e.Verb.defaultApproval()}
	}
	switch e.Verb {
	case Attach:
		if read := c.explicitRule(Effect{Verb: Read, Target: e.Target}); read.Approval < least.Approval {
			least = read
		}
	case Delete:
		least = c.lowestBelow(e, least)
	}
	return least.Approval, least
}

// explicitRule returns the rule for an effect, of all layers; one whose consent is
// unset if none speaks of it.
func (c Approvals) explicitRule(e Effect) Rule {
	least := Rule{Approval: unset}
	for _, layer := range c.layers {
		if r := closestRule(layer, e); r.Approval < least.Approval {
			least = r
		}
	}
	return least
}

// lowestBelow returns the strictest of a rule and of all that speak of something
// lowestBelow the effect's target.
func (c Approvals) lowestBelow(e Effect, least Rule) Rule {
	for _, layer := range c.layers {
		for _, r := range layer {
			if r.Verb == e.Verb && r.Approval < least.Approval && isBelow(e.Target, r.Target) {
				least = r
			}
		}
	}
	return least
}

// closestRule returns the rule of a layer that decides about an effect; one whose
// consent is unset if none speaks of it.
func closestRule(layer []Rule, e Effect) Rule {
	best, rank := Rule{Approval: unset}, 0
	for _, r := range layer {
		if !r.covers(e) {
			continue
		}
		if now := r.rank(); now > rank || now == rank && r.Approval < best.Approval {
			best, rank = r, now
		}
	}
	return best
}

// Rules returns all rules, those of the first layer first.
func (c Approvals) Rules() []Rule { return slices.Concat(c.layers...) }

func (c Approvals) meet(d Approvals) Approvals {
	met := Approvals{slices.Concat(c.layers, d.layers), c.defaults}
	if len(c.defaults) == 0 {
		met.defaults = d.defaults
	}
	return met
}

// RenameTargets returns the consents with the targets of rules about files as rename
// has them: a sandbox may have one way to write a name.
func (c Approvals) RenameTargets(rename func(target string) string) Approvals {
	renamed := Approvals{defaults: slices.Clone(c.defaults)}
	for _, layer := range c.layers {
		renamed.layers = append(renamed.layers, slices.Clone(layer))
	}
	for _, rules := range append(slices.Clip(renamed.layers), renamed.defaults) {
		for i := range rules {
			if rules[i].Verb.isFileVerb() {
				rules[i].Target = rename(rules[i].Target)
			}
		}
	}
	return renamed
}
