package shell

import (
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/sandbox"
)

// blocked returns an error if a rule blocks a command. A rule matches a command
// that begins with its words. Only a command of plain words is understood; of
// any other a layer that blocks what it does not name blocks it, and one that
// names what it blocks leaves it to who is asked. Rules save questions, and are
// not the boundary.
func blocked(rules policy.Shell, command string) error {
	words, plain := split(command)
	for _, layer := range rules.Layers {
		consent, from := layer.Default, layer.From
		if layer.Silent {
			consent = policy.Ask
		}
		longest := 0
		for _, r := range layer.Rules {
			pattern := strings.Fields(r.Pattern)
			if !plain || len(pattern) > len(words) || !slices.Equal(pattern, words[:len(pattern)]) {
				continue
			}
			if n := len(pattern); n > longest || n == longest && r.Consent < consent {
				longest, consent, from = n, r.Consent, r.From
			}
		}
		if consent > policy.Blocked {
			continue
		}
		hint := "a rule (" + from + ") blocks it, and no approval changes that"
		if !plain {
			hint += "; a command of plain words, without quotes, pipes or variables, can be held against the rules"
		}
		return &sandbox.Error{Op: "run", Path: command, Code: "blocked", Hint: hint}
	}
	return nil
}

// split returns the words of a command, and whether they are all that it is.
func split(command string) (words []string, plain bool) {
	special := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(" -_./:,+@%", r))
	}
	words = strings.Fields(command)
	return words, len(words) > 0 && !strings.ContainsFunc(command, special)
}
