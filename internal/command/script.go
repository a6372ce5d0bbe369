package command

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// isShell reports whether a program runs scripts of a shell.
func isShell(n string) bool {
	switch n {
	case "sh", "bash", "dash", "ash", "rbash", "zsh", "ksh", "mksh", "yash", "fish", "csh", "tcsh", "pwsh":
		return true
	}
	return false
}

// shell looks through a shell that is given its script in the line: after -c,
// or as a here-document.
func (r *reader) shell(p Part, input *Word) {
	n := name(p.Words)
	own := runner{flags: "ceuxvfn", values: "o", long: []string{"norc", "noprofile"}}
	options, at, why := own.command(p.Words)
	inline := slices.ContainsFunc(options, func(o option) bool { return o.name == "c" })
	switch {
	case why != "":
		p.Unknown = why
		r.add(p)
		r.suspect(p)
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
	r.within(n, p, func() { r.inShell(input.Text, n) })
}

// suspect reads what could be a script, for rules that hold back what is in it.
func (r *reader) suspect(p Part) {
	for i, w := range p.Words {
		if i > 0 && w.Literal && strings.HasPrefix(p.Words[i-1].Text, "-") && !strings.HasPrefix(w.Text, "-") {
			r.within(name(p.Words), p, func() { r.inShell(w.Text, "bash") })
			return
		}
	}
}

// inShell reads a script in the language of a shell. What is called sh may be
// one or the other: there it is what either makes of it.
func (r *reader) inShell(text, shell string) {
	if shell == "bash" {
		r.script(text, syntax.LangBash)
		return
	}
	from := len(r.parts)
	r.script(text, syntax.LangPOSIX)
	seen := slices.Clone(r.parts[from:])
	r.script(text, syntax.LangBash)
	kept := from + len(seen)
	for _, p := range r.parts[min(kept, len(r.parts)):] {
		if !slices.ContainsFunc(seen, p.same) {
			r.parts[kept] = p
			kept++
		}
	}
	r.parts = r.parts[:min(kept, len(r.parts))]
	r.writes = once(r.writes)
}

// once returns writes without those that are there before.
func once(writes []Write) []Write {
	var list []Write
	for _, w := range writes {
		if !slices.Contains(list, w) {
			list = append(list, w)
		}
	}
	return list
}

// same reports whether two parts are the same to every rule.
func (p Part) same(q Part) bool {
	return p.Text == q.Text && p.Unknown == q.Unknown && p.writes == q.writes && p.Plain == q.Plain && p.Runs == q.Runs && slices.Equal(p.Words, q.Words) &&
		slices.Equal(p.own, q.own) && slices.Equal(p.Assigns, q.Assigns)
}

// eval looks through eval, whose words are a script.
func (r *reader) eval(p Part) {
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
	r.within("eval", p, func() { r.script(strings.Join(texts, " "), r.lang) })
}

// trap looks through trap, whose first word is a script for later.
func (r *reader) trap(p Part) {
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
		r.within("trap", p, func() { r.script(words[0].Text, r.lang) })
	}
}
