package tool

import (
	"path"
	"slices"

	"github.com/golem-forge/golem/internal/policy"
)

// Offered returns the tools to list to somebody: those that admit the caller,
// whose toolset is granted, and that the grant does not refuse everywhere.
func (g Gate) Offered(o policy.Origin) []Tool {
	var list []Tool
	for _, t := range g.Tools {
		if !t.Unlisted && t.Mode.Admits(o) && g.has(t, o) && g.Consent(t) > policy.Blocked {
			list = append(list, t)
		}
	}
	return list
}

// Consent returns the most consent that the grant gives a tool anywhere.
func (g Gate) Consent(t Tool) policy.Consent {
	least, _ := g.use(t)
	if t.Asks {
		least = min(least, policy.Ask)
	}
	for _, verb := range t.Verbs {
		most := policy.Blocked
		for _, name := range g.candidates(verb) {
			most = max(most, g.Judge(policy.Effect{Verb: verb, Target: name}).Consent)
			if verb == policy.Delete { // what holds below a folder holds for it, and not for a file in it
				most = max(most, g.Judge(policy.Effect{Verb: verb, Target: path.Join(name, "any file")}).Consent)
			}
		}
		switch {
		case verb == policy.Run && t.Runs != "":
			most = g.following(t.Rules).Judge(policy.Effect{Verb: verb, Target: t.Runs}).Consent
		case verb == policy.Run:
			_, rule := g.Grant.Consent.Of(policy.Effect{Verb: verb, Target: "*"})
			most = g.Grant.Shell.Most(most, rule.Target == "")
		}
		least = min(least, most)
	}
	return least
}

// AsksIn returns the folders in which some call of a tool asks, though the grant may let
// others go ahead.
func (g Gate) AsksIn(t Tool) []string {
	var folders []string
	for _, verb := range t.Verbs {
		if !onFiles(verb) {
			continue
		}
		for _, name := range g.candidates(verb) {
			in := policy.Effect{Verb: verb, Target: path.Join(name, "any file")}
			if g.Judge(in).Consent == policy.Ask && !slices.Contains(folders, name) {
				folders = append(folders, name)
			}
		}
	}
	return folders
}

// following returns the gate with rules as so many layers of consent more.
func (g Gate) following(rules []policy.Rule) Gate {
	for _, rule := range rules {
		g.Grant.Consent = g.Grant.Consent.With(rule)
	}
	return g
}

// use returns the consent for the tool itself, whatever it does, and the rule.
// What a rule says of a tool it says of its older names too.
func (g Gate) use(t Tool) (policy.Consent, policy.Rule) {
	least, rule := g.Grant.Consent.Of(policy.Effect{Verb: policy.Use, Target: t.Name})
	if t.Of != "" {
		if consent, of := g.Grant.Consent.Of(policy.Effect{Verb: policy.Use, Target: t.Of}); consent < least {
			least, rule = consent, of
		}
	}
	return least, rule
}

// has reports whether the caller has a tool. The user has those with Yours although the
// worker was not granted them.
func (g Gate) has(t Tool, o policy.Origin) bool {
	return t.Mode == policy.Manual || t.Yours && o == policy.User || g.Grant.Tools.Has(t.Toolset)
}
