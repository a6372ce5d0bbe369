package explain

import (
	"cmp"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/command"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/audit"
)

// CommandRules are the smallest rules for the shell of a worker that let its lines of a session run
// without a question. All other commands ask.
type CommandRules struct {
	Worker   string   `json:"worker"`
	Patterns []string `json:"patterns"`
	// Asks are lines for which golem proposes no rule, as text for a person: somebody approved
	// them, they failed, the session had read untrusted content, or golem cannot judge them.
	Asks []string `json:"asks"`

	lines []string // those that the rules must allow
}

// shellTool is the tool with which a worker runs lines.
const shellTool = "shell"

// commandRules returns the rules for each worker that ran lines, in the order of their first line.
func (p *Past) commandRules() (list []*CommandRules) {
	for _, r := range p.calls {
		line, _ := r.Args["command"].(string)
		if r.Tool != shellTool || line == "" || len(r.Workers) == 0 {
			continue
		}
		worker := r.Workers[len(r.Workers)-1]
		i := slices.IndexFunc(list, func(c *CommandRules) bool { return c.Worker == worker })
		if i < 0 {
			i, list = len(list), append(list, &CommandRules{Worker: worker, Patterns: []string{}, Asks: []string{}})
		}
		list[i].add(line, p.why(r))
	}
	for _, c := range list {
		c.drop()
	}
	return list
}

// why returns why golem proposes no rule for a line, "" if it does.
func (p *Past) why(r audit.Record) string {
	end, ended := p.outcomes[r.Call]
	line, _ := r.Args["command"].(string)
	switch {
	case r.Decision != policy.PreApproved.String():
		return "it was approved"
	case strings.HasPrefix(r.By, untrustedRead):
		return "the session had read untrusted content"
	case !ended || end.Code != "":
		return "it failed"
	case strings.ContainsAny(line, "⟨…"):
		return "the journal does not have all of it"
	}
	return ""
}

// add adds the patterns of a line.
func (c *CommandRules) add(line, why string) {
	patterns, problem := exactPatterns(line)
	why = cmp.Or(why, problem)
	if why != "" {
		if text := visible.Line(line, textWidth) + ": " + why; !slices.Contains(c.Asks, text) {
			c.Asks = append(c.Asks, text)
		}
		return
	}
	for _, text := range patterns {
		if !slices.Contains(c.Patterns, text) {
			c.Patterns = append(c.Patterns, text)
		}
	}
	c.lines = append(c.lines, line)
}

// drop removes patterns that a shorter one covers: they allow all commands that begin with their words.
func (c *CommandRules) drop() {
	all := slices.Sorted(slices.Values(c.Patterns))
	c.Patterns = []string{}
	for _, text := range all {
		if !slices.ContainsFunc(all, func(other string) bool { return strings.HasPrefix(text, other+" ") }) {
			c.Patterns = append(c.Patterns, text)
		}
	}
}

// exactPatterns returns a pattern with the words of each command of a line, or why there is none.
// No star stands for a word: the program that ran chose the word, and a star allows all others.
func exactPatterns(line string) (patterns []string, why string) {
	const unclear = "golem cannot judge it"
	for _, part := range command.Parse(line).Parts {
		if part.Plain || part.Runs {
			continue
		}
		var words []string
		for _, w := range part.Words {
			if !w.Literal || w.Text == "" || strings.ContainsAny(w.Text, ";|&<>()`\"'\\$ \t\r\n*") {
				return nil, "one of its words cannot stand in a rule"
			}
			words = append(words, w.Text)
		}
		text := strings.Join(words, " ")
		if _, problem := command.NewPattern(text, true); problem != "" || len(part.Assigns) > 0 {
			return nil, unclear
		}
		patterns = append(patterns, text)
	}
	if !runs(rulesOf(patterns), line) {
		return nil, unclear
	}
	return patterns, ""
}

// rulesOf returns the rules that allow patterns, and ask about everything else.
func rulesOf(patterns []string) policy.Shell {
	layer := policy.ShellLayer{Default: policy.Ask}
	for _, text := range patterns {
		layer.Rules = append(layer.Rules, policy.ShellRule{Pattern: text, Approval: policy.PreApproved})
	}
	return policy.Shell{}.With(layer)
}

// runs reports whether rules let a line run without a question.
func runs(rules policy.Shell, line string) bool {
	j := command.NewRules(rules).Judge(line)
	rule, ok := j.ApprovalRule()
	return ok && rule.Approval == policy.PreApproved
}

// replay returns the lines that golem would not run without a question under the rules.
func (c *CommandRules) replay() (fails []string) {
	for _, line := range c.lines {
		if !runs(rulesOf(c.Patterns), line) {
			fails = append(fails, "run "+visible.Line(line, textWidth))
		}
	}
	return fails
}
