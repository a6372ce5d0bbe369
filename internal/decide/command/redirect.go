package command

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// readRedirects reads the redirections of a command. It returns the text that the line gives
// the command on stdin, nil if there is none.
func (r *reader) readRedirects(list []*syntax.Redirect) (input *Word) {
	for _, d := range list {
		if d.N != nil && strings.HasPrefix(d.N.Value, "{") {
			r.addVariable(strings.Trim(d.N.Value, "{}"), r.text(d))
		}
		switch d.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			body := r.readHereDocument(d)
			input = &body
		case syntax.WordHdoc:
			body := r.readWord(d.Word)
			input = &body
		case syntax.RdrIn, syntax.DplIn:
			r.addConnection(r.readWord(d.Word), d)
			input = nil
		default:
			r.addWrite(d)
		}
		if d.Op == syntax.RdrInOut {
			input = nil
		}
	}
	return input
}

// readHereDocument reads a here-document. It is literal if it contains no expansion.
func (r *reader) readHereDocument(d *syntax.Redirect) Word {
	if r.nested > 0 {
		r.addUnknown(r.text(d.Word), "a here-document in a substitution: shells may end it differently")
	}
	if d.Hdoc == nil {
		return literal("")
	}
	delimiter := d.Word.Lit()
	plain := delimiter == "" || strings.Contains(delimiter, `\`) // the delimiter is quoted
	known := true
	var text strings.Builder
	b := builder{r: r, known: true}
	for _, p := range d.Hdoc.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			if plain {
				text.WriteString(p.Value)
			} else {
				b.checkText(p.Value, false)
				text.WriteString(unescape(p.Value, "$`\\"))
			}
		default:
			known = false
			b.addQuoted(p)
		}
	}
	if !known {
		return Word{Text: r.text(d.Hdoc)}
	}
	return literal(text.String())
}

// addWrite records the file that a redirection writes.
func (r *reader) addWrite(d *syntax.Redirect) {
	to := r.readWord(d.Word)
	if r.addConnection(to, d) {
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

// addConnection reports whether bash takes the target of a redirection as a network
// connection, not as a file. If so, it adds a part that is not understood.
func (r *reader) addConnection(to Word, d *syntax.Redirect) bool {
	begins := to.begins
	if to.Literal {
		begins = to.Text
	}
	for _, device := range []string{"/dev/tcp/", "/dev/udp/"} {
		if strings.HasPrefix(begins, device) {
			r.addUnknown(r.text(d), "bash opens a network connection for it")
			return true
		}
	}
	return false
}
