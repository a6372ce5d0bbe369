package tool

import (
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/sandbox"
)

// stricterNames returns the names below the target of an effect, including aliases, that
// need a stricter approval than the effect. An effect on a directory does not extend to
// them.
func (g Gate) stricterNames(e policy.Effect) []string {
	if !isFileVerb(e.Verb) {
		return nil
	}
	var names []string
	for _, c := range g.ruleTargets(e.Verb) {
		for _, name := range append([]string{c}, g.aliases(policy.Effect{Verb: e.Verb, Target: c})...) {
			if strings.HasPrefix(name, strings.TrimSuffix(e.Target, "/")+"/") && !slices.Contains(names, name) &&
				g.Decide(policy.Effect{Verb: e.Verb, Target: name}).Approval < g.Decide(e).Approval {
				names = append(names, name)
			}
		}
	}
	return names
}

// sandboxLimits returns the limits that restrict a sandbox to effects: at each target the
// access of its verbs, and none elsewhere. With looking, nothing may be changed. Left are
// the names below a target that are excluded because they need a stricter approval.
func (g Gate) sandboxLimits(effects []policy.Effect, looking bool) (needs []sandbox.Limit, left []string) {
	var order []string
	at := map[string]*sandbox.Limit{}
	for _, e := range effects {
		if !isFileVerb(e.Verb) {
			continue
		}
		l := at[e.Target]
		if l == nil {
			l = &sandbox.Limit{Path: e.Target, Access: sandbox.ReadOnly, NoWrite: true, NoDelete: true}
			at[e.Target] = l
			order = append(order, e.Target)
		}
		if !looking && (e.Verb == policy.Write || e.Verb == policy.Delete) {
			l.Access = sandbox.ReadWrite
		}
		l.NoWrite = l.NoWrite && e.Verb != policy.Write
		l.NoDelete = l.NoDelete && e.Verb != policy.Delete
	}
	for _, path := range order {
		needs = append(needs, *at[path])
	}
	for _, e := range effects {
		for _, name := range g.stricterNames(e) {
			if at[name] == nil && !slices.Contains(left, name) {
				needs = append(needs, sandbox.Limit{Path: name})
				left = append(left, name)
			}
		}
	}
	return needs, left
}
