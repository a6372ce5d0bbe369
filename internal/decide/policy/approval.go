package policy

import "slices"

// A Rule says which approval a verb needs at a target and, for files, below it.
type Rule struct {
	Verb Verb
	// Target is the name of a file or directory, "/" for all. For other verbs it is a
	// name, "*" for all. For Connect it may also be "*.example.com". For Use it may be an
	// older name of the tool: see [CurrentToolName].
	Target   string
	Approval Approval
	From     string // the place of the rule: file:line, or a flag
}

// normalize returns the rule with its target in the canonical form. An invalid rule
// blocks its verb everywhere: to ignore it would allow what it was meant to restrict.
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
	case r.Verb == Use:
		r.Target = CurrentToolName(r.Target)
		ok = ok && r.Target != ""
	default:
		ok = ok && r.Target != ""
	}
	if !ok {
		r.Target, r.Approval = all, Blocked
	}
	return r
}

// covers reports whether the rule applies to the effect.
func (r Rule) covers(e Effect) bool {
	switch {
	case r.Verb != e.Verb:
		return false
	case e.Verb.isFileVerb():
		return AtOrBelow(r.Target, e.Target)
	case r.Target == "*":
		return true
	case e.Verb == Connect:
		return hostWithin(hostName(e.Target), r.Target)
	case e.Verb == Use:
		return r.Target == CurrentToolName(e.Target)
	}
	return r.Target == e.Target
}

// rank returns how closely a rule names its target: the longer, the closer. A host is
// closer than the longest pattern that matches it.
func (r Rule) rank() int {
	if !r.Verb.isFileVerb() && r.Target[0] != '*' {
		return len(r.Target) + 1
	}
	return len(r.Target)
}

// Approvals are layers of rules: of the project, the caller and the worker. In a layer
// the rule with the longest target decides, and the strictest among equals. Among layers
// the strictest decides. A layer without a rule for an effect does not count. If no layer
// has one, the default of the verb holds. A default does not limit what rules can allow.
//
// Two verbs depend on more than their own rules. To attach a file is to read it, so it
// needs the approval for both. To delete a directory is to delete everything in it, so a
// stricter rule below the target counts.
type Approvals struct {
	layers   [][]Rule
	defaults []Rule // defaults in place of those of the verbs
}

// With returns the approvals with one more layer. Targets need not be canonical. A rule
// without a target, or with an invalid target or approval, blocks its verb.
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

// WithDefaults returns the approvals with other defaults at some targets, for effects
// without a rule. They do not limit what rules can allow either.
func (c Approvals) WithDefaults(rules ...Rule) Approvals {
	c.defaults = Approvals{}.With(rules...).Rules()
	return c
}

// Of returns the approval that an effect needs, and the rule that decides. The rule of a
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

// explicitRule returns the strictest rule of all layers for an effect. Its approval is
// unset if there is none.
func (c Approvals) explicitRule(e Effect) Rule {
	least := Rule{Approval: unset}
	for _, layer := range c.layers {
		if r := closestRule(layer, e); r.Approval < least.Approval {
			least = r
		}
	}
	return least
}

// lowestBelow returns the strictest of a rule and of all rules below the effect's target.
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

// closestRule returns the rule of a layer that decides about an effect. Its approval is
// unset if there is none.
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

// RenameTargets returns the approvals with the targets of file rules replaced by what
// rename returns: a sandbox may have its own canonical form of a name.
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
