package tool

import (
	"path"
	"slices"

	"github.com/golem-forge/golem/internal/decide/policy"
)

// ToolsFor returns the tools to list to a caller: those that admit the caller, whose
// toolset is granted, and that are not blocked everywhere.
func (g Gate) ToolsFor(o policy.Origin) []Tool {
	var list []Tool
	for _, t := range g.Tools {
		if !t.Unlisted && t.Mode.Admits(o) && g.has(t, o) && g.HighestApproval(t) > policy.Blocked {
			list = append(list, t)
		}
	}
	return list
}

// HighestApproval returns the highest level of approval that the grant gives a tool
// anywhere.
func (g Gate) HighestApproval(t Tool) policy.Approval {
	least, _ := g.approvalForUse(t)
	if t.AlwaysAsk {
		least = min(least, policy.Ask)
	}
	for _, verb := range t.Verbs {
		most := policy.Blocked
		for _, name := range g.ruleTargets(verb) {
			most = max(most, g.Decide(policy.Effect{Verb: verb, Target: name}).Approval)
			if verb == policy.Delete { // rules below a directory count for deleting it, but not for deleting another file in it
				most = max(most, g.Decide(policy.Effect{Verb: verb, Target: path.Join(name, "any file")}).Approval)
			}
		}
		switch {
		case verb == policy.Run && t.Program != "":
			most = g.withRules(t.Rules).Decide(policy.Effect{Verb: verb, Target: t.Program}).Approval
		case verb == policy.Run:
			_, rule := g.Grant.Approvals.Of(policy.Effect{Verb: verb, Target: "*"})
			most = g.Grant.Shell.HighestApproval(most, rule.Target == "")
		}
		least = min(least, most)
	}
	return least
}

// DirsNeedingApproval returns the directories in which some call of a tool needs
// approval, although others may not.
func (g Gate) DirsNeedingApproval(t Tool) []string {
	var folders []string
	for _, verb := range t.Verbs {
		if !isFileVerb(verb) {
			continue
		}
		for _, name := range g.ruleTargets(verb) {
			in := policy.Effect{Verb: verb, Target: path.Join(name, "any file")}
			if g.Decide(in).Approval == policy.Ask && !slices.Contains(folders, name) {
				folders = append(folders, name)
			}
		}
	}
	return folders
}

// withRules returns the gate with each rule as one more layer of its grant.
func (g Gate) withRules(rules []policy.Rule) Gate {
	for _, rule := range rules {
		g.Grant.Approvals = g.Grant.Approvals.With(rule)
	}
	return g
}

// approvalForUse returns the level of approval for using the tool at all, and the rule
// for it. A rule for a tool also holds for its older names, and for tools with its RulesOf.
func (g Gate) approvalForUse(t Tool) (policy.Approval, policy.Rule) {
	least, rule := g.Grant.Approvals.Of(policy.Effect{Verb: policy.Use, Target: t.Name})
	for _, name := range []string{t.AliasOf, t.RulesOf} {
		if name == "" {
			continue
		}
		if level, of := g.Grant.Approvals.Of(policy.Effect{Verb: policy.Use, Target: name}); level < least {
			least, rule = level, of
		}
	}
	return least, rule
}

// has reports whether the caller has a tool. The user has the tools with ForUser even if
// the worker was not granted them.
func (g Gate) has(t Tool, o policy.Origin) bool {
	return t.Mode == policy.Manual || t.ForUser && o == policy.User || g.Grant.Tools.Has(t.Toolset)
}
