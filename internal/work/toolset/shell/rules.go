package shell

import (
	"github.com/golem-forge/golem/internal/decide/command"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// judge compares a command line with the rules for commands. It returns an error if they
// block it. Otherwise it returns the rule for the grant, and the reason why golem asks.
func judge(rules command.Rules, line string) (matched []policy.Rule, why string, err error) {
	j := rules.Judge(line)
	at := j.Decides()
	if at < 0 {
		return nil, "", nil
	}
	v, part := j.Verdicts[at], visible.Line(j.Parts[at].Text, 200)
	if v.Said && v.Approval == policy.Blocked {
		hint := "a rule (" + v.Rule.From + ") blocks it, and no approval changes that"
		if v.Unsure {
			hint = "golem cannot tell whether it runs a command that a rule (" + v.Rule.From + ") blocks, and no approval changes that; write the commands out in a shorter line"
		}
		if part != visible.Line(line, 200) {
			hint = part + ": " + hint
		}
		if v.Why != "" {
			hint += "; " + visible.Line(v.Why, 200)
		}
		return nil, "", &sandbox.Error{Op: "run", Path: line, Code: "blocked", Hint: hint}
	}
	if rule, ok := j.ApprovalRule(); ok {
		rule.Target = line
		matched = []policy.Rule{rule}
	}
	switch {
	case v.Said && v.Approval == policy.PreApproved:
	case v.Why != "":
		why = part + ": " + visible.Line(v.Why, 200)
	case v.Said:
		why = part
	case j.Ruled:
		why = part + ": no rule matches it"
	}
	return matched, why, nil
}
