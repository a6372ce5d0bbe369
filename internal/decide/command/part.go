package command

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A Line is a parsed command line.
type Line struct {
	Parts []Part
	// Writes are the files that its redirections write.
	Writes []Write
}

// A Part is one command of a line.
type Part struct {
	Text    string   // as written in the line
	Words   []Word   // the program and its arguments; empty for a bare assignment
	Assigns []Assign // variables that are set only for this command
	// Via says how the line reaches the command: by an operator, a substitution, or a
	// program that runs it.
	Via []string
	// Unknown says why the command is not understood; "" if it is.
	Unknown string
	// Plain is true if the part runs no program and changes nothing outside the line,
	// such as a test or an assignment. It needs no rule.
	Plain bool
	// Runs is true if the program only runs another one, which is a separate part.
	// Restricting rules apply to both.
	Runs bool

	// own are the words without those of an inner command, and without options before a
	// subcommand.
	own []Word
	// writes is true if the part is not understood, but only writes a file.
	writes bool
	// sets is true if the part is not understood, but only sets variables that do not
	// change which programs run.
	sets bool
	// leaves says how the line may leave the tree, so that the part runs elsewhere; "" if it
	// does not.
	leaves string
	// opaque says why the words do not show what the part runs; "" if they do. Guesses
	// are the commands that its arguments could be, if the program may run them. Only
	// restricting rules use both.
	opaque  string
	guesses []Part
}

// A Word is one word of a command, after the shell has expanded it.
type Word struct {
	Text    string // the word itself if Literal, otherwise the source text
	Literal bool   // the word is known before the line runs
	// These fields describe a word that is not literal:
	begins string // the known start of the word
	many   bool   // it may become several words, or none
	splits bool   // if it becomes several words, only the first starts with begins
}

// An Assign sets a variable.
type Assign struct {
	Name  string
	Value Word
}

// A Write is a file that a redirection writes.
type Write struct {
	Path    string // the source text if not Literal
	Literal bool
}

// literal returns a word that is known.
func literal(text string) Word { return Word{Text: text, Literal: true} }

// mayBeOption reports whether a command could take the word as an option.
func (w Word) mayBeOption() bool {
	if w.Literal {
		return len(w.Text) > 1 && w.Text[0] == '-'
	}
	return w.splits || w.begins == "" || w.begins[0] == '-'
}

// isOne reports whether it is exactly one word.
func (w Word) isOne() bool { return w.Literal || !w.many }

// is reports whether the word is known and equals one of texts.
func (w Word) is(texts ...string) bool { return w.Literal && slices.Contains(texts, w.Text) }

// name returns the name of the program that words run, without /bin/ or /usr/bin/. It is
// "" if the name is not known.
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

// words returns the words that rules match.
func (p Part) words() []Word {
	if p.own != nil {
		return p.own
	}
	return p.Words
}

// join returns words in shell quoting.
func join(words []Word) string {
	var list []string
	for _, w := range words {
		list = append(list, w.String())
	}
	return strings.Join(list, " ")
}

// String returns the word in shell quoting.
func (w Word) String() string {
	if !w.Literal {
		return w.Text
	}
	if quoted, err := syntax.Quote(w.Text, syntax.LangBash); err == nil {
		return quoted
	}
	return w.Text
}

// Quote returns a line that runs words unchanged.
func Quote(words []string) string {
	var list []Word
	for _, w := range words {
		list = append(list, literal(w))
	}
	return join(list)
}
