package command

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// call reads a simple command. Input is what it is given to read in the line
// itself.
func (r *reader) call(c *syntax.CallExpr, input *Word) {
	p := Part{Text: r.text(c), Words: make([]Word, 0, len(c.Args))}
	for _, a := range c.Assigns {
		p.Assigns = append(p.Assigns, r.assign(a))
	}
	for _, w := range c.Args {
		p.Words = append(p.Words, r.word(w))
	}
	if len(p.Words) == 0 {
		r.bare(p)
		return
	}
	r.run(p, input)
}

// bare reads assignments without a command. They last.
func (r *reader) bare(p Part) {
	for _, a := range p.Assigns {
		r.sets(a.Name, p.Text)
	}
	p.Plain, p.Assigns = true, nil
	r.add(p)
}

// changers are builtins that change how what comes after them is read, found or
// started.
var changers = []string{"alias", "bind", "complete", "declare", "enable", "export", "hash", "local", "readonly", "shopt", "typeset", "unalias"}

// others are programs that run a command as somebody else, or elsewhere.
var others = []string{"sudo", "doas", "su", "pkexec", "runuser", "chroot", "nsenter", "unshare", "ssh"}

// run reads a command by its words.
func (r *reader) run(p Part, input *Word) {
	n := name(p.Words)
	switch {
	case n == "":
		p.Unknown = "what it runs is not known before it runs"
		r.add(p)
	case isShell(n):
		r.shell(p, input)
	case n == "eval":
		r.eval(p)
	case n == "trap":
		r.trap(p)
	case n == "." || n == "source":
		p.Unknown = "it runs a file as part of this line"
		r.add(p)
	case n == "find":
		r.find(p)
	case n == "xargs":
		r.xargs(p)
	case n == "git":
		r.git(p)
	case slices.Contains(others, n):
		r.other(p)
	default:
		if w, ok := runners[n]; ok {
			r.runner(p, w)
			return
		}
		if slices.Contains(changers, n) {
			p.Unknown = "it changes how the commands after it are read, found or started"
		}
		r.add(p)
	}
}

// inner reads the command that a program runs.
func (r *reader) inner(way string, p Part, words []Word, assigns []Assign) {
	r.under(way, func() {
		r.run(Part{Text: join(words), Words: words, Assigns: append(slices.Clip(p.Assigns), assigns...)}, nil)
	})
}

// other reads a command that is run as somebody else. It is not understood; the
// command in it is looked at for rules that hold it back.
func (r *reader) other(p Part) {
	n := name(p.Words)
	p.Unknown = n + " runs it as somebody else, or elsewhere"
	r.add(p)
	for i := 1; i < len(p.Words); i++ {
		if w := p.Words[i]; w.Literal && w.Text != "" && w.Text[0] != '-' && !strings.Contains(w.Text, "=") {
			r.inner(n, p, p.Words[i:], nil)
			// Behind an option it may be that option's value.
			if !p.Words[i-1].mayBeOption() {
				return
			}
		}
	}
}
