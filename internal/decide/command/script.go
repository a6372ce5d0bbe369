package command

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// isShell reports whether a program is a shell.
func isShell(n string) bool {
	switch n {
	case "sh", "bash", "dash", "ash", "rbash", "zsh", "ksh", "mksh", "yash", "fish", "csh", "tcsh", "pwsh":
		return true
	}
	return false
}

// readShell reads a shell whose script is in the line: after -c, or in a here-document.
func (r *reader) readShell(p Part, input *Word) {
	n := name(p.Words)
	own := runner{flags: "ceuxvfn", values: "o", long: []string{"norc", "noprofile"}}
	options, at, why := own.findCommand(p.Words)
	inline := slices.ContainsFunc(options, func(o option) bool { return o.name == "c" })
	switch {
	case why != "":
		p.Unknown = why
		r.add(p)
		r.readPossibleScript(p)
		return
	case inline && at == len(p.Words):
		r.add(p)
		return
	case inline && !p.Words[at].Literal:
		p.Unknown = "a script that is not known before it runs"
		r.add(p)
		return
	case inline:
		input = &p.Words[at]
	case at < len(p.Words):
		if w := p.Words[at]; !w.Literal || w.is("-") || strings.HasPrefix(w.Text, "/dev/") || strings.HasPrefix(w.Text, "/proc/") {
			p.opaque = "a shell that reads what it runs from its input"
		}
		r.add(p) // a file
		return
	case input == nil || !input.Literal:
		p.Unknown = "a shell that reads what it runs from its input"
		r.add(p)
		return
	}
	if n != "sh" && n != "bash" && n != "dash" && n != "ash" {
		p.Unknown = n + " has a language of its own"
	}
	if set := append(slices.Clip(r.given), p.Assigns...); len(set) > 0 {
		p.Unknown = set[0].Name + " is set for a shell, which may run what it names"
	}
	p.Runs = p.Unknown == ""
	r.add(p)
	r.readWithVariables(n, p, func() { r.readShellScript(input.Text, n) })
}

// readPossibleScript reads a word that could be a script, because restricting rules apply to its
// commands.
func (r *reader) readPossibleScript(p Part) {
	for i, w := range p.Words {
		if i > 0 && w.Literal && strings.HasPrefix(p.Words[i-1].Text, "-") && !strings.HasPrefix(w.Text, "-") {
			r.readWithVariables(name(p.Words), p, func() { r.readShellScript(w.Text, "bash") })
			return
		}
	}
}

// readShellScript reads a script in the language of a shell. A shell other than bash may follow
// POSIX or bash. Then the script is read both ways, and the parts of both count.
func (r *reader) readShellScript(text, shell string) {
	if shell == "bash" {
		r.readScript(text, syntax.LangBash)
		return
	}
	from := len(r.parts)
	r.readScript(text, syntax.LangPOSIX)
	seen := slices.Clone(r.parts[from:])
	r.readScript(text, syntax.LangBash)
	kept := from + len(seen)
	for _, p := range r.parts[min(kept, len(r.parts)):] {
		if !slices.ContainsFunc(seen, p.isSame) {
			r.parts[kept] = p
			kept++
		}
	}
	r.parts = r.parts[:min(kept, len(r.parts))]
	r.writes = removeDuplicates(r.writes)
}

// removeDuplicates removes duplicates.
func removeDuplicates(writes []Write) []Write {
	var list []Write
	for _, w := range writes {
		if !slices.Contains(list, w) {
			list = append(list, w)
		}
	}
	return list
}

// isSame reports whether two parts are equal for rules that match their words.
func (p Part) isSame(q Part) bool {
	return p.Text == q.Text && p.Unknown == q.Unknown && p.writes == q.writes && p.Plain == q.Plain && p.Runs == q.Runs && slices.Equal(p.Words, q.Words) &&
		slices.Equal(p.own, q.own) && slices.Equal(p.Assigns, q.Assigns)
}

// readEval reads eval, whose words are a script.
func (r *reader) readEval(p Part) {
	var texts []string
	for _, w := range p.Words[1:] {
		if !w.Literal {
			p.Unknown = "a script that is not known before it runs"
			r.add(p)
			return
		}
		texts = append(texts, w.Text)
	}
	p.Runs = true
	r.add(p)
	r.readWithVariables("eval", p, func() { r.readScript(strings.Join(texts, " "), r.lang) })
}

// readTrap reads trap, whose first operand is a script that runs later.
func (r *reader) readTrap(p Part) {
	words := p.Words[1:]
	if len(words) > 0 && words[0].is("--") {
		words = words[1:]
	}
	switch {
	case len(words) == 0 || words[0].is("-", "", "-l", "-p"):
		p.Plain = true
		r.add(p)
	case !words[0].Literal:
		p.Unknown = "a script that is not known before it runs"
		r.add(p)
	default:
		p.Runs = true
		r.add(p)
		r.readWithVariables("trap", p, func() { r.readScript(words[0].Text, r.lang) })
	}
}
