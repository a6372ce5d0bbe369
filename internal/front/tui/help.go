package tui

import "fmt"

// A key is a key and what it does.
type key struct{ name, does string }

// reviewKeys are the keys of a review.
var reviewKeys = []key{
	{"j k, arrows", "next and previous file, or line if the diff has the focus"},
	{"Tab, l h", "move between the tree and the diff; Enter opens a directory"},
	{"space b", "next and previous page of the file"},
	{"v", "next page; at the end, the next file that you have not viewed"},
	{"] [", "next and previous hunk"},
	{"y n", "apply this hunk, or leave it in the session"},
	{"a d", "the same for the rest of the file"},
	{"s e", "split this hunk; edit it in your editor (VISUAL, EDITOR)"},
	{"w", "old and new lines side by side"},
	{"/", "search; / and Enter repeats the last search"},
	{"A", "apply what you chose, or everything that you did not decline; golem asks first"},
	{"X", "discard the changes of the file or directory under the cursor; golem asks first"},
	{"r", "read the changes again"},
	{"q, Ctrl-C", "quit; nothing is applied without your yes"},
}

// questionKeys are the keys of a question.
var questionKeys = []key{
	{"space b, j k", "show the rest: next and previous page or line"},
	{"y", "yes; only if everything was on the screen"},
	{"u", "yes, also to what was not on the screen; you type the beginning of its digest"},
	{"n", "no"},
	{"Esc", "no; a call of another process waits further"},
	{"s", "no, and stop the run"},
	{"Ctrl-C", "no, and quit"},
}

// drawHelp returns the explanation of the keys.
func (m *model) drawHelp() (lines []string) {
	keys := reviewKeys
	if m.question() != nil {
		keys = questionKeys
	}
	for _, k := range keys {
		lines = append(lines, cutLine(fmt.Sprintf("  %-14s %s", k.name, k.does), m.columns-1))
	}
	return append(lines, "", m.paint.with(bold, cutLine("  v: viewed completely  y n p: chosen, declined, in part  !: look at it first", m.columns-1)), "", "  any key closes this help")
}
