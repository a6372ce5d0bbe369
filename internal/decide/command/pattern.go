package command

import (
	"path"
	"slices"
	"strings"
)

// A Pattern lists the first words of a command; more words may follow. A star stands for
// any one word. NAME=VALUE before the words is a variable that may be set for the
// command, and NAME=* allows any value. A single star matches all commands.
type Pattern struct {
	words   []string
	assigns []string
}

// matchesAll reports whether the pattern matches all commands, including those that are
// not understood.
func (p Pattern) matchesAll() bool { return len(p.words) == 1 && p.words[0] == "*" }

// rank returns how specific a pattern is: first by its number of words, then by how many
// of them are not stars.
func (p Pattern) rank() int {
	named := 0
	for _, w := range p.words {
		if w != "*" {
			named++
		}
	}
	return (len(p.words)+len(p.assigns))*1000 + named
}

// NewPattern parses a pattern. Passes is true for a rule that allows commands, and false
// for one that restricts them. Why says what is wrong with the pattern for such a rule;
// "" if nothing is.
func NewPattern(text string, passes bool) (p Pattern, why string) {
	for w := range strings.FieldsSeq(text) {
		if strings.ContainsAny(w, ";|&<>()`\"'\\$") {
			return p, "a pattern is the words of one command, without quotes: rules apply to each command of a line separately"
		}
		if isAssign(w) && len(p.words) == 0 {
			p.assigns = append(p.assigns, w)
		} else {
			p.words = append(p.words, w)
		}
	}
	if len(p.words) == 0 {
		return p, "write the words that the command begins with, on one line: git status"
	}
	if !passes {
		return p, ""
	}
	first := p.words[0]
	_, runs := runners()[first]
	switch {
	case first == "*" && len(p.words) > 1:
		return p, "its first word is the command; a star alone is for every command"
	case first == "command" && len(p.words) > 1 && strings.HasPrefix(p.words[1], "-"), first == "env" && len(p.words) == 1:
	case runs || first == "xargs" || first == "eval" || first == "trap":
		return p, first + " is looked through: name the commands that it may run, each in a rule of its own"
	case first == "." || first == "source" || slices.Contains(elsewherePrograms, first) || slices.Contains(shellChangers, first):
		return p, first + " is never understood: only a rule for everything lets it pass"
	case isShell(first) && len(p.words) > 1 && strings.HasPrefix(p.words[1], "-"):
		return p, first + " " + p.words[1] + " is looked through: name the commands that it may run, each in a rule of its own"
	case first == "git" && len(p.words) > 1 && strings.HasPrefix(p.words[1], "-") && p.words[1] != "--version":
		return p, "options before git's subcommand are looked through, or not understood: begin with git and the subcommand"
	}
	return p, ""
}

// isAssign reports whether a word sets a variable.
func isAssign(w string) bool {
	variable, _, ok := strings.Cut(w, "=")
	return ok && variable != "" && strings.Trim(variable, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == "" &&
		(variable[0] < '0' || variable[0] > '9')
}

// passes reports whether a rule with the pattern allows a part. If the part only starts
// like the pattern, why says what differs.
func (p *Pattern) passes(part *Part) (ok bool, why string) {
	for i, words := range [...][]Word{part.Words, part.own} {
		if i > 0 && words == nil || !p.begins(words) {
			continue
		}
		if why = p.compareVariables(part); why != "" {
			return false, why
		}
		if why = findTurn(words, len(p.words)); why == "" {
			return true, ""
		}
	}
	return false, why
}

// begins reports whether words are known to start with those of the pattern.
func (p *Pattern) begins(words []Word) bool {
	if len(p.words) > len(words) {
		return false
	}
	for i, w := range p.words {
		at := words[i]
		switch {
		case w == "*" && at.isOne():
		case i == 0 && at.Literal && (at.Text == w || name(words) == w):
		case i > 0 && at.is(w):
		default:
			return false
		}
	}
	return true
}

// compareVariables explains how the variables of a part differ from those of the pattern; "" if they
// do not.
func (p *Pattern) compareVariables(part *Part) string {
	for _, a := range part.Assigns {
		if !slices.ContainsFunc(p.assigns, func(w string) bool {
			variable, value, _ := strings.Cut(w, "=")
			return variable == a.Name && (value == "*" || a.Value.Literal && a.Value.Text == value)
		}) {
			return a.Name + " is set for it, and the rule does not name that variable"
		}
	}
	if len(part.Assigns) < len(p.assigns) {
		return "the rule requires " + strings.Join(p.assigns, " ")
	}
	return ""
}

// restricts reports whether a rule with the pattern restricts a part. Possible is true if
// words of the part are not known, and it could match. The rule also matches other
// spellings: other options in between, and options separate, combined or in another
// order.
func (p *Pattern) restricts(part *Part) (certain, possible bool) {
	possible = part.Unknown != "" && !part.writes && !part.sets
	if len(part.Words) == 0 {
		return false, possible
	}
	certain, maybe := p.matchWords(part.words())
	possible = possible || maybe
	if part.own != nil && name(part.Words) != "git" { // of git, the options before the subcommand are known
		sure, maybe := p.matchWords(part.Words)
		certain, possible = certain || sure, possible || maybe
	}
	return certain, possible
}

// explainHidden explains why a part could run a command that the pattern matches, although its
// own words do not match; "" if it cannot. If allowed is true, code that golem cannot
// read is no reason.
func (p *Pattern) explainHidden(part *Part, allowed bool) string {
	if part.opaque != "" && !allowed {
		return part.opaque
	}
	for i := range part.guesses {
		g := &part.guesses[i]
		if certain, _ := p.restricts(g); certain && !g.Plain {
			return shorten(g.Text) + " may be a command that it runs"
		}
		if why := p.explainHidden(g, true); why != "" {
			return why
		}
	}
	if len(part.Words) == 0 || part.Runs || takesText(part.words()) {
		return ""
	}
	words, starts := part.words()[1:], 0
	if hasSubcommands(part.words()) && len(words) > 0 {
		words = words[1:]
	}
	for i, w := range words {
		if !w.Literal {
			continue
		}
		for _, text := range commandCandidates(w.Text) {
			if b := path.Base(text); b != p.words[0] && !strings.HasPrefix(b, "git-") {
				continue
			}
			if starts++; starts > maxStarts {
				return "it has too many arguments to check"
			}
			if certain, possible := p.matchWords(append([]Word{literal(text)}, words[i+1:]...)); certain || possible {
				return part.Words[0].Text + " may run its arguments"
			}
		}
	}
	return ""
}

func (p *Pattern) matchWords(words []Word) (certain, possible bool) {
	if !words[0].Literal {
		return false, true
	}
	words = normalizeGit(words)
	if p.words[0] != "*" && words[0].Text != p.words[0] && path.Base(words[0].Text) != p.words[0] {
		return false, false
	}
	rest := words[1:]
	var flags []string
	for _, w := range p.words[1:] {
		if strings.HasPrefix(w, "-") && len(w) > 1 {
			flags = append(flags, w)
			continue
		}
		n, maybe := findWord(rest, w)
		if n < 0 {
			return false, maybe
		}
		rest = rest[n:]
	}
	certain = true
	for _, f := range flags {
		sure, maybe := hasFlag(words, f)
		if !sure && !maybe {
			return false, false
		}
		certain = certain && sure
	}
	return certain, !certain
}

// findWord returns the number of words up to and including want. Options and their possible
// values may precede it. It returns a negative number if want is missing. Then maybe is
// true if a word that is not known could be want.
func findWord(words []Word, want string) (n int, maybe bool) {
	value := false
	for i, w := range words {
		switch {
		case w.Literal && w.Text == want || want == "*" && !w.mayBeOption():
			return i + 1, false
		case w.Literal && w.mayBeOption():
			value = true
		case !w.Literal && (w.splits || !value):
			return -1, true
		case !w.Literal:
			maybe, value = true, false
		case value:
			value = false
		default:
			return -1, maybe
		}
	}
	return -1, maybe
}
