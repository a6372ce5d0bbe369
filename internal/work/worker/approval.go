package worker

import (
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// readApproval reads the approval levels under the key approval, for a directory and
// everything below it.
func readApproval(n strictyaml.Node, target string) []policy.Rule {
	var rules []policy.Rule
	for _, verb := range []policy.Verb{policy.Read, policy.Write, policy.Delete} {
		value, ok := n.At("approval", verb.String())
		if !ok {
			continue
		}
		if level, ok := policy.ParseApproval(value.Text); ok {
			rules = append(rules, policy.Rule{Verb: verb, Target: target, Approval: level, From: value.Place.String()})
		}
	}
	return rules
}

// readLevel reads an approval level in either spelling: approval, or llm-do's allowed and
// approval_required. A map that sets no level is a problem.
func (r *reader) readLevel(n strictyaml.Node, what string) (policy.Approval, bool) {
	value, modern := n.At("approval")
	if level, ok := r.readLLMDoLevel(n); ok {
		if modern {
			r.problems.Add(value, what+": approval beside allowed or approval_required", "they say the same; keep approval")
		}
		return level, true
	}
	if modern {
		return policy.ParseApproval(value.Text)
	}
	r.problems.Add(n, what+": no approval level", "write approval: preApproved, ask or blocked")
	return policy.Blocked, false
}

// readLLMDoLevel reads allowed and approval_required. The key allowed: true does not mean that no
// approval is needed.
func (r *reader) readLLMDoLevel(n strictyaml.Node) (policy.Approval, bool) {
	if allowed, ok := n.At("allowed"); ok && allowed.Kind == strictyaml.Scalar && !allowed.Bool() {
		return policy.Blocked, true
	}
	asks, ok := n.At("approval_required")
	switch {
	case !ok || asks.Kind != strictyaml.Scalar:
		return policy.Blocked, false
	case asks.Bool():
		return policy.Ask, true
	}
	return policy.PreApproved, true
}

// ruleNames maps names of llm-do's tool_rules to effects. A preApproved covers only the
// named effect. A refusal also covers the effects that come to the same.
var ruleNames = []struct {
	name         string
	verb         policy.Verb
	also         policy.Verb // the effect that a refusal also covers
	askToo       bool        // whether ask covers it too
	target, like string      // like is the current key with the same meaning
}{
	{name: "sandbox.read", verb: policy.Attach, also: policy.Read, target: "/"},
	{name: "sandbox.write", verb: policy.Write, also: policy.Delete, askToo: true, target: "/", like: "filesystem.approval"},
	{name: "shell", verb: policy.Run, target: "*", like: "shell.default"},
	{name: "worker.call", verb: policy.Call, target: "*"},
	{name: "worker.create", verb: policy.Use, target: "worker_create"},
}

// readToolRules reads llm-do's approval levels by the names of tools.
func (r *reader) readToolRules(top strictyaml.Node) {
	all, _ := top.At("tool_rules")
	seen := make(map[string]bool) // current names
	for _, f := range all.Fields {
		name := policy.CurrentToolName(f.Key.Text)
		if seen[name] {
			r.problems.Add(f.Key, "tool_rules."+sandbox.Shown(f.Key.Text)+": "+sandbox.Shown(name)+" is the same tool", "keep one of them")
			continue
		}
		seen[name] = true
		if f.Value.Kind == strictyaml.Map || f.Value.Kind == strictyaml.Null {
			r.readToolRule(top, f)
		}
	}
	for _, item := range all.Items { // llm-do also accepts a list
		if item.Kind != strictyaml.Map {
			continue
		}
		name, ok := item.At("name")
		switch {
		case !ok || name.Kind != strictyaml.Scalar || name.Text == "":
			r.problems.Add(item, "tool_rules: a rule without a name", "write name: with the name of a tool, such as sandbox.read")
		case seen[policy.CurrentToolName(name.Text)]:
			r.problems.Add(name, "tool_rules: two rules for "+sandbox.Shown(name.Text), "keep one of them")
		default:
			seen[policy.CurrentToolName(name.Text)] = true
			rule := strictyaml.Node{Kind: strictyaml.Map, Place: item.Place}
			for _, f := range item.Fields {
				if f.Key.Text == "allowed" || f.Key.Text == "approval_required" {
					rule.Fields = append(rule.Fields, f)
				}
			}
			r.readToolRule(top, strictyaml.Field{Key: name, Value: rule})
		}
	}
}

func (r *reader) readToolRule(top strictyaml.Node, f strictyaml.Field) {
	name := f.Key.Text
	where := "tool_rules." + sandbox.Shown(name)
	level, ok := r.readLLMDoLevel(f.Value)
	if !ok && len(f.Value.Fields) == 0 {
		r.problems.Add(f.Key, where+": says nothing", "write allowed: false or approval_required: true or false")
	}
	var known []string
	for _, rule := range ruleNames {
		known = append(known, rule.name)
		if rule.name != name {
			continue
		}
		if keys := strings.Split("toolsets."+rule.like, "."); rule.like != "" {
			if _, twice := top.At(keys...); twice {
				r.reportDuplicate(f.Key, where, "toolsets."+rule.like)
			}
		}
		if layer := r.w.Shell; ok && rule.verb == policy.Run && level > policy.Blocked && layer != nil && layer.NoDefault {
			// It applies to commands that no rule matches.
			layer.Default, layer.NoDefault, layer.From = level, false, f.Key.Place.String()
			return
		}
		if ok {
			r.addRule(f, rule.verb, rule.target, level)
			if rule.also != policy.Nothing && (level == policy.Blocked || level == policy.Ask && rule.askToo) {
				r.addRule(f, rule.also, rule.target, level)
			}
		}
		return
	}
	if !isWorkerName(name) {
		hint := "it is the name of a tool, or one of " + strings.Join(known, ", ")
		if near := sandbox.Nearest(name, known); len(near) > 0 {
			hint = "did you mean " + near[0] + "? " + hint
		}
		r.problems.Add(f.Key, where+": no such name", hint)
		return
	}
	if ok {
		r.addRule(f, policy.Use, name, level)
	}
}

func (r *reader) addRule(f strictyaml.Field, verb policy.Verb, target string, level policy.Approval) {
	r.w.Rules = append(r.w.Rules, policy.Rule{Verb: verb, Target: target, Approval: level, From: f.Key.Place.String()})
}
