package worker

import (
	"path"
	"strconv"
	"strings"
	"unicode"

	"github.com/golem-forge/golem/internal/decide/command"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/strictyaml"
)

// readShell reads the approval levels of commands, from the current keys or from llm-do's.
func (r *reader) readShell(top strictyaml.Node) {
	rules, isRules := top.At("toolsets", "shell", "rules")
	other, isDefault := top.At("toolsets", "shell", "default")
	if old, ok := top.At("shell_rules"); ok {
		if isRules {
			r.reportDuplicate(old, "shell_rules", "toolsets.shell.rules")
		}
		rules, isRules = old, true
		r.imply("shell", old.Place, false)
	}
	if old, ok := top.At("shell_default"); ok {
		if isDefault {
			r.reportDuplicate(old, "shell_default", "toolsets.shell.default")
		}
		other, isDefault = old, true
		r.imply("shell", old.Place, false)
	}
	if dir, ok := top.At("shell_cwd"); ok && dir.Kind == strictyaml.Scalar {
		r.w.ShellDir = path.Clean("/" + dir.Text)
	}
	if !isRules && !isDefault {
		return
	}
	layer := policy.ShellLayer{NoDefault: true, From: rules.Place.String()}
	for _, item := range rules.Items {
		if rule, ok := r.readShellRule(item); ok {
			layer.Rules = append(layer.Rules, rule)
		}
	}
	if isDefault {
		layer.From = other.Place.String()
	}
	if isDefault && other.Kind == strictyaml.Map {
		if level, ok := r.readLevel(other, "shell default"); ok {
			layer.Default, layer.NoDefault = level, false
		}
	}
	r.w.Shell = &layer
}

// readShellRule reads a rule for commands: a pattern with its approval level, or a ready-made
// set.
func (r *reader) readShellRule(item strictyaml.Node) (policy.ShellRule, bool) {
	if item.Kind != strictyaml.Map {
		return policy.ShellRule{}, false
	}
	rule := policy.ShellRule{Approval: policy.PreApproved, From: item.Place.String()}
	use, isUse := item.At("use")
	if !isUse {
		return r.patternRule(item, rule)
	}
	for _, f := range item.Fields {
		switch f.Key.Text {
		case "pattern":
			r.problems.Add(f.Key, "shell rule: pattern beside use", "a rule is for a pattern or for a ready-made set; write two")
		case "approval", "allowed", "approval_required":
			r.problems.Add(f.Key, "shell rule: "+f.Key.Text+" beside use", "a predefined set needs no approval; restrict a command with a rule of its own")
		}
	}
	if use.Kind != strictyaml.Scalar || command.About(use.Text) == "" {
		return rule, false // the schema reports it
	}
	rule.Use = use.Text
	r.checkExamples(item, rule)
	return rule, true
}

func (r *reader) patternRule(item strictyaml.Node, rule policy.ShellRule) (policy.ShellRule, bool) {
	pattern, ok := item.At("pattern")
	if ok && pattern.Kind != strictyaml.Scalar {
		return rule, false
	}
	at := pattern
	if !ok {
		at = item
	}
	if strings.TrimSpace(pattern.Text) == "" || strings.ContainsFunc(pattern.Text, unicode.IsControl) {
		r.problems.Add(at, "shell rule: pattern "+shown(pattern.Text), "write the words that the command begins with, on one line: git status")
		return rule, false
	}
	level, ok := r.readLevel(item, "shell rule")
	if !ok {
		return rule, false
	}
	rule.Pattern, rule.Approval = pattern.Text, level
	if _, why := command.NewPattern(rule.Pattern, level == policy.PreApproved); why != "" {
		r.problems.Add(at, "shell rule: pattern "+shown(pattern.Text), why)
		return rule, false
	}
	r.checkExamples(item, rule)
	return rule, true
}

// maxExamples limits the lines that test the rules of a file.
const maxExamples = 500

// checkExamples checks that a rule matches the lines of match, and none of those of not_match.
func (r *reader) checkExamples(item strictyaml.Node, rule policy.ShellRule) {
	for _, key := range []string{"match", "not_match"} {
		list, _ := item.At(key)
		for _, line := range list.Items {
			if line.Kind != strictyaml.Scalar {
				continue
			}
			if r.checked++; r.checked > maxExamples {
				r.problems.Add(line, "shell rule: too many examples", "at most "+strconv.Itoa(maxExamples)+" in a file")
				return
			}
			matches, why := command.Matches(rule, line.Text)
			why = visible.Line(why, 200)
			switch {
			case key == "match" && !matches:
				r.problems.Add(line, "shell rule: match "+shown(line.Text)+": it does not match", why)
			case key == "not_match" && matches:
				r.problems.Add(line, "shell rule: not_match "+shown(line.Text)+": it matches", why)
			}
		}
	}
}
