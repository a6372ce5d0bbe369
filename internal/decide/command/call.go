package command

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// readCall reads a simple command. Input is the text that the line itself gives it on stdin,
// nil if there is none.
func (r *reader) readCall(c *syntax.CallExpr, input *Word) {
	p := Part{Text: r.text(c), Words: make([]Word, 0, len(c.Args))}
	for _, a := range c.Assigns {
		p.Assigns = append(p.Assigns, r.readAssign(a))
	}
	for _, w := range c.Args {
		p.Words = append(p.Words, r.readWord(w))
	}
	if len(p.Words) == 0 {
		r.readAssigns(p)
		return
	}
	r.readCommand(p, input)
}

// readAssigns reads assignments without a command. They stay set for the rest of the line.
func (r *reader) readAssigns(p Part) {
	for _, a := range p.Assigns {
		r.addVariable(a.Name, p.Text)
	}
	p.Plain, p.Assigns = true, nil
	r.add(p)
}

// shellChangers are builtins that change how the shell reads, finds or starts later commands.
var shellChangers = []string{"alias", "bind", "complete", "declare", "enable", "export", "hash", "local", "readonly", "shopt", "typeset", "unalias"}

// elsewherePrograms are programs that run a command as another user, or in another place.
var elsewherePrograms = []string{"sudo", "doas", "su", "pkexec", "runuser", "chroot", "nsenter", "unshare", "ssh"}

// readCommand reads a command, with a special case for each program that runs other commands.
func (r *reader) readCommand(p Part, input *Word) {
	n := name(p.Words)
	switch {
	case n == "":
		p.Unknown = "what it runs is not known before it runs"
		r.add(p)
	case isShell(n):
		r.readShell(p, input)
	case n == "eval":
		r.readEval(p)
	case n == "trap":
		r.readTrap(p)
	case n == "." || n == "source":
		p.Unknown = "it runs a file as part of this line"
		r.add(p)
	case n == "find":
		r.readFind(p)
	case n == "xargs":
		r.readXargs(p)
	case n == "git":
		r.readGit(p)
	case slices.Contains(elsewherePrograms, n):
		r.readElsewhere(p)
	default:
		if w, ok := runners()[n]; ok {
			r.readRunner(p, w)
			return
		}
		if slices.Contains(shellChangers, n) {
			p.Unknown = "it changes how the shell reads, finds or starts later commands"
		}
		r.add(p)
	}
}

// readInner reads the command that a program runs.
func (r *reader) readInner(way string, p Part, words []Word, assigns []Assign) {
	r.readVia(way, func() {
		r.readCommand(Part{Text: join(words), Words: words, Assigns: append(slices.Clip(p.Assigns), assigns...)}, nil)
	})
}

// readElsewhere reads a command that runs as another user. The part counts as not understood. The
// command in it is still read, because restricting rules apply to it.
func (r *reader) readElsewhere(p Part) {
	n := name(p.Words)
	p.Unknown = n + " runs it as another user or in another place"
	r.add(p)
	for i := 1; i < len(p.Words); i++ {
		if w := p.Words[i]; w.Literal && w.Text != "" && w.Text[0] != '-' && !strings.Contains(w.Text, "=") {
			r.readInner(n, p, p.Words[i:], nil)
			// After an option, the word may be the value of that option.
			if !p.Words[i-1].mayBeOption() {
				return
			}
		}
	}
}
