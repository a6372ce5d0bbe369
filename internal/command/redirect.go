package command

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// redirects reads the redirections of a command, and returns what it is given
// to read in the line itself, if it is.
func (r *reader) redirects(list []*syntax.Redirect) (input *Word) {
	for _, d := range list {
		if d.N != nil && strings.HasPrefix(d.N.Value, "{") {
			r.sets(strings.Trim(d.N.Value, "{}"), r.text(d))
		}
		switch d.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			body := r.document(d)
			input = &body
		case syntax.WordHdoc:
			body := r.word(d.Word)
			input = &body
		case syntax.RdrIn, syntax.DplIn:
			r.connects(r.word(d.Word), d)
			input = nil
		default:
			r.write(d)
		}
		if d.Op == syntax.RdrInOut {
			input = nil
		}
	}
	return input
}

// document reads a here-document. It is literal where nothing in it is replaced.
func (r *reader) document(d *syntax.Redirect) Word {
	if r.nested > 0 {
		r.unknown(r.text(d.Word), "a here-document in a substitution: shells may end it differently")
	}
	if d.Hdoc == nil {
		return literal("")
	}
	delimiter := d.Word.Lit()
	plain := delimiter == "" || strings.Contains(delimiter, `\`) // it is quoted
	known := true
	var text strings.Builder
	b := builder{r: r, known: true}
	for _, p := range d.Hdoc.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			if plain {
				text.WriteString(p.Value)
			} else {
				b.wary(p.Value, false)
				text.WriteString(unescape(p.Value, "$`\\"))
			}
		default:
			known = false
			b.quoted(p)
		}
	}
	if !known {
		return Word{Text: r.text(d.Hdoc)}
	}
	return literal(text.String())
}

// write notes what a redirection writes.
func (r *reader) write(d *syntax.Redirect) {
	to := r.word(d.Word)
	if r.connects(to, d) {
		return
	}
	if d.Op == syntax.DplOut && to.Literal && strings.Trim(to.Text, "0123456789-") == "" {
		return
	}
	if to.is("/dev/null", "/dev/stdout", "/dev/stderr") || to.Literal && strings.HasPrefix(to.Text, "/dev/fd/") {
		return
	}
	if !to.Literal {
		r.add(Part{Text: r.text(d), Unknown: "which file it writes is not known before it runs", writes: true})
	}
	if len(r.writes) < maxParts {
		r.writes = append(r.writes, Write{to.Text, to.Literal})
	}
}

// connects reports whether a redirection is no file, but a host for bash.
func (r *reader) connects(to Word, d *syntax.Redirect) bool {
	begins := to.begins
	if to.Literal {
		begins = to.Text
	}
	for _, device := range []string{"/dev/tcp/", "/dev/udp/"} {
		if strings.HasPrefix(begins, device) {
			r.unknown(r.text(d), "bash takes it for a connection to a host")
			return true
		}
	}
	return false
}
