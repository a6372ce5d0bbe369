package command

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A Line is what a command line runs.
type Line struct {
	Parts []Part
	// Writes are the files that redirections of it write.
	Writes []Write
}

// A Part is one command of a line.
type Part struct {
	Text    string   // as it is written
	Words   []Word   // what is run, and what it is given; none of a bare assignment
	Assigns []Assign // variables that are set for it alone
	// Via is how it is reached: an operator, a substitution, a program that runs it.
	Via []string
	// Unknown says why it is not understood; "" if it is.
	Unknown string
	// Plain is true of what runs no program and changes nothing outside of the
	// line: a test, a variable. No rule is needed for it.
	Plain bool
	// Runs is true of a program that only runs another one, which is a part of
	// its own. Rules that hold something back are for both.
	Runs bool

	// own are the words without those that are another command, and without
	// options that stand before a subcommand.
	own []Word
	// writes is true of what is not understood, and only writes a file.
	writes bool
	// sets is true of what is not understood, and only sets variables that do not say
	// which programs run.
	sets bool
	// opaque says why the words of a part do not say what it runs; "" if they do. Only
	// rules that block look at it, and at guesses: the commands that its arguments could
	// be, of a program that may run them.
	opaque  string
	guesses []Part
}

// A Word is one of a command, as it is when the command runs.
type Word struct {
	Text    string // what it is; as it is written where that is not known
	Literal bool   // Text is the word
	// Of a word that is not literal:
	begins string // what it begins with, as far as that is known
	many   bool   // it may become several words, or none
	splits bool   // of several, only the first begins as it does
}

// An Assign sets a variable.
type Assign struct {
	Name  string
	Value Word
}

// A Write is a file that a redirection writes.
type Write struct {
	Path    string // as it is written, where that is not known
	Literal bool
}

// literal returns a word that is known.
func literal(text string) Word { return Word{Text: text, Literal: true} }

// mayBeOption reports whether a command could take the word for an option.
func (w Word) mayBeOption() bool {
	if w.Literal {
		return len(w.Text) > 1 && w.Text[0] == '-'
	}
	return w.splits || w.begins == "" || w.begins[0] == '-'
}

// one reports whether it is exactly one word.
func (w Word) one() bool { return w.Literal || !w.many }

// is reports whether it is known to be one of these.
func (w Word) is(texts ...string) bool { return w.Literal && slices.Contains(texts, w.Text) }

// name returns what a command is called: a program of the system is called by
// its bare name. It is "" where the name is not known.
func name(words []Word) string {
	if len(words) == 0 || !words[0].Literal {
		return ""
	}
	n := words[0].Text
	if dir, base := path.Split(n); dir == "/bin/" || dir == "/usr/bin/" {
		return base
	}
	return n
}

// words returns the words that are held against rules.
func (p Part) words() []Word {
	if p.own != nil {
		return p.own
	}
	return p.Words
}

// join returns words as they could be written.
func join(words []Word) string {
	var list []string
	for _, w := range words {
		list = append(list, w.String())
	}
	return strings.Join(list, " ")
}

// String returns the word as it could be written.
func (w Word) String() string {
	if !w.Literal {
		return w.Text
	}
	if quoted, err := syntax.Quote(w.Text, syntax.LangBash); err == nil {
		return quoted
	}
	return w.Text
}

// Quote returns a line that runs words as they are.
func Quote(words []string) string {
	var list []Word
	for _, w := range words {
		list = append(list, literal(w))
	}
	return join(list)
}
