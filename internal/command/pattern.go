package command

import (
	"path"
	"slices"
	"strings"
)

// A Pattern is the words that a command begins with. A star stands for one
// word, whichever; further words may follow. NAME=VALUE before them is a
// variable that the command may be given, NAME=* with any value. A star alone
// stands for everything.
type Pattern struct {
	words   []string
	assigns []string
}

// everything reports whether the pattern is for all commands, those that are
// not understood among them.
func (p Pattern) everything() bool { return len(p.words) == 1 && p.words[0] == "*" }

// rank is how closely a pattern names commands: by its words, and those of them
// that are no stars.
func (p Pattern) rank() int {
	named := 0
	for _, w := range p.words {
		if w != "*" {
			named++
		}
	}
	return (len(p.words)+len(p.assigns))*1000 + named
}

// NewPattern reads a pattern. Why says what is wrong with it for a rule that
// lets commands pass, or holds them back.
func NewPattern(text string, passes bool) (p Pattern, why string) {
	for w := range strings.FieldsSeq(text) {
		if strings.ContainsAny(w, ";|&<>()`\"'\\$") {
			return p, "a pattern is the words of one command, without quotes: the commands of a line are held against rules one by one"
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
	_, runs := runners[first]
	switch {
	case first == "*" && len(p.words) > 1:
		return p, "its first word is the command; a star alone is for every command"
	case first == "command" && len(p.words) > 1 && strings.HasPrefix(p.words[1], "-"), first == "env" && len(p.words) == 1:
	case runs || first == "xargs" || first == "eval" || first == "trap":
		return p, first + " is looked through: name the commands that it may run, each in a rule of its own"
	case first == "." || first == "source" || slices.Contains(others, first) || slices.Contains(changers, first):
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

// passes reports whether a rule with the pattern lets a part pass; if not, why,
// where the part begins as the pattern does.
func (p Pattern) passes(part Part) (ok bool, why string) {
	for _, words := range [][]Word{part.Words, part.words()} {
		if !p.begins(words) {
			continue
		}
		if why = p.gives(part); why != "" {
			return false, why
		}
		if why = turned(words, len(p.words)); why == "" {
			return true, ""
		}
	}
	return false, why
}

// begins reports whether words begin with those of the pattern, and are known
// to.
func (p Pattern) begins(words []Word) bool {
	if len(p.words) > len(words) {
		return false
	}
	for i, w := range p.words {
		at := words[i]
		switch {
		case w == "*" && at.one():
		case i == 0 && at.Literal && (at.Text == w || name(words) == w):
		case i > 0 && at.is(w):
		default:
			return false
		}
	}
	return true
}

// gives says which variable a part is given that the pattern does not name.
func (p Pattern) gives(part Part) string {
	for _, a := range part.Assigns {
		if !slices.ContainsFunc(p.assigns, func(w string) bool {
			variable, value, _ := strings.Cut(w, "=")
			return variable == a.Name && (value == "*" || a.Value.Literal && a.Value.Text == value)
		}) {
			return a.Name + " is set for it, which the rule does not name"
		}
	}
	if len(part.Assigns) < len(p.assigns) {
		return "the rule is for it with " + strings.Join(p.assigns, " ")
	}
	return ""
}

// holds reports whether a rule with the pattern holds a part back: certain, or
// possible where words are not known. It is caught in other spellings too: with
// other options between, and options apart, together or in another order.
func (p Pattern) holds(part Part) (certain, possible bool) {
	possible = part.Unknown != "" && !part.writes && !part.sets
	if len(part.Words) == 0 {
		return false, possible
	}
	spellings := [][]Word{part.Words, part.words()}
	if name(part.Words) == "git" {
		spellings = spellings[1:] // the options before the subcommand are known
	}
	for _, words := range spellings {
		sure, maybe := p.catches(words)
		certain, possible = certain || sure, possible || maybe
	}
	return certain, possible
}

// hides says why a part could run what the pattern matches, though its own words do not
// match; "" if it cannot. Allowed is true where a rule of the user's own allows the part
// by its words: then the rule also allows the code that it is given.
func (p Pattern) hides(part Part, allowed bool) string {
	if part.opaque != "" && !allowed {
		return part.opaque
	}
	for _, g := range part.guesses {
		if certain, _ := p.holds(g); certain && !g.Plain {
			return shorten(g.Text) + " may be a command that it runs"
		}
		if why := p.hides(g, true); why != "" {
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
		for _, text := range values(w.Text) {
			if b := path.Base(text); b != p.words[0] && !strings.HasPrefix(b, "git-") {
				continue
			}
			if starts++; starts > maxStarts {
				return "its arguments are too many to look at"
			}
			if certain, possible := p.catches(append([]Word{literal(text)}, words[i+1:]...)); certain || possible {
				return part.Words[0].Text + " may run its arguments"
			}
		}
	}
	return ""
}

func (p Pattern) catches(words []Word) (certain, possible bool) {
	if !words[0].Literal {
		return false, true
	}
	words = canonical(words)
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
		n, maybe := skip(rest, w)
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

// skip returns how many words there are up to a word, with it: options, and
// what may be their values, may stand before it. It is negative where the word
// does not come; maybe is true if a word that is not known could be it.
func skip(words []Word, want string) (n int, maybe bool) {
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
