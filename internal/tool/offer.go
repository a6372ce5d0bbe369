package tool

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/golem-forge/golem/internal/policy"
)

// Offered returns the tools to list to somebody: those that admit the caller,
// whose toolset is granted, and that the grant does not refuse everywhere.
func (g Gate) Offered(o policy.Origin) []Tool {
	var list []Tool
	for _, t := range g.Tools {
		if !t.Unlisted && t.Mode.Admits(o) && g.Grant.Tools.Has(t.Toolset) && g.Consent(t) > policy.Blocked {
			list = append(list, t)
		}
	}
	return list
}

// Consent returns the most consent that the grant gives a tool anywhere.
func (g Gate) Consent(t Tool) policy.Consent {
	least, _ := g.Grant.Consent.Of(policy.Effect{Verb: policy.Use, Target: t.Name})
	for _, verb := range t.Verbs {
		most := policy.Blocked
		for _, name := range g.candidates(verb) {
			most = max(most, g.Grant.Decide(policy.Effect{Verb: verb, Target: name}).Consent)
		}
		least = min(least, most)
	}
	return least
}

// candidates are the names at which the decision about a verb may change.
func (g Gate) candidates(verb policy.Verb) []string {
	var names []string
	for _, root := range g.Grant.Files.Roots() {
		names = append(names, root.Path)
	}
	for _, r := range g.Grant.Consent.Rules() {
		if r.Verb == verb {
			names = append(names, r.Target)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// kept returns arguments as the journal may have them: without contents.
func (t Tool) kept(args any) map[string]any {
	var all map[string]any
	b, err := json.Marshal(args)
	if err != nil || json.Unmarshal(b, &all) != nil {
		return nil
	}
	for key, value := range all {
		if slices.Contains(t.Private, key) {
			all[key] = sizeOf(value)
		}
	}
	return all
}

// sizeOf says how much a content is.
func sizeOf(value any) string {
	switch v := value.(type) {
	case string:
		return fmt.Sprintf("%d bytes", len(v))
	case []any:
		return fmt.Sprintf("%d entries", len(v))
	}
	return "left out"
}
