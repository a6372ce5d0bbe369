package tui

import (
	"fmt"

	"github.com/golem-forge/golem/internal/people/visible"
)

// A key is a key and what it does.
type key struct{ name, does string }

// reviewKeys returns the keys of a review: of a staged commit, or of the changes of a
// session. quit is what q does.
func reviewKeys(commit bool, quit string) []key {
	keys := []key{
		{"j k, arrows", "next and previous file, or line if the diff has the focus"},
		{"Tab, l h", "move between the tree and the diff; Enter opens a directory"},
		{"space b", "next and previous page of the file"},
		{"v", "next page; at the end, the next file that you have not viewed"},
		{"w", "old and new lines side by side"},
		{"/", "search; / and Enter repeats the last search"},
	}
	if commit {
		keys = append(keys, key{"P", "push the commit; golem asks first"}, key{"X", "discard the commit; golem asks first"})
	} else {
		keys = append(keys,
			key{"] [", "next and previous hunk"},
			key{"y n", "apply this hunk, or leave it in the session"},
			key{"a d", "the same for the rest of the file"},
			key{"s e", "split this hunk; edit it in your editor (VISUAL, EDITOR)"},
			key{"A", "apply what you chose, or everything that you did not decline; golem asks first"},
			key{"X", "discard the changes of the file or directory under the cursor; golem asks first"},
			key{"r", "read the changes again"})
	}
	return append(keys, key{"q, Ctrl-C", quit})
}

// listKeys are the keys of the list.
var listKeys = []key{
	{"j k, arrows", "next and previous item"},
	{"Enter, l", "open the item: a call, the changes of a session, a staged commit, or a job of your hub"},
	{"space b", "next and previous page"},
	{"/", "search; / and Enter repeats the last search"},
	{"R", "continue a run that is paused, without a terminal"},
	{"S E", "stop what is running after its current call, or end it now"},
	{"r", "read again what waits; golem also does so every few seconds"},
	{"q, Ctrl-C", "quit; what waits waits further"},
}

// questionKeys are the keys of a question.
var questionKeys = []key{
	{"space b, j k", "show the rest: next and previous page or line"},
	{"y", "yes; only if everything was on the screen"},
	{"a", "yes to a host that waits, and always in this project; golem shows the rule first"},
	{"u", "yes, also to what was not on the screen; you type the beginning of its digest"},
	{"n", "no"},
	{"Esc", "no; a call of another process waits further"},
	{"s", "no, and stop the run"},
	{"Ctrl-C", "no, and quit"},
}

// helpEnd is how many lines follow the keys in the help.
const helpEnd = 4

// drawHelp returns the explanation of the keys.
func (m *model) drawHelp() (lines []string) {
	keys := listKeys
	switch {
	case m.question() != nil:
		keys = questionKeys
	case m.review != nil:
		isCommit := m.review.commit != nil
		quit := "quit; nothing is applied without your yes"
		switch {
		case m.list != nil:
			quit = "q goes back to the list, Ctrl-C quits; nothing is done without your yes"
		case isCommit:
			quit = "quit; nothing is pushed without your yes"
		}
		keys = reviewKeys(isCommit, quit)
	}
	const indent = "                 " // as wide as the names
	for _, k := range keys {
		for i, piece := range visible.Broken(k.does, max(1, m.columns-len(indent)-1)) {
			front := indent
			if i == 0 {
				front = fmt.Sprintf("  %-14s ", k.name)
			}
			lines = append(lines, front+piece)
		}
	}
	if len(lines)+helpEnd > m.height { // a line for each key
		lines = nil
		for _, k := range keys {
			lines = append(lines, cutLine(fmt.Sprintf("  %-14s %s", k.name, k.does), m.columns-1))
		}
	}
	marks := "  v: viewed completely  y n p: chosen, declined, in part  !: look at it first"
	switch {
	case m.review == nil:
		marks = "  !!: high risk  !: medium risk"
	case m.review.commit != nil:
		marks = "  v: viewed completely  !: look at it first"
	}
	return append(lines, "", m.paint.with(bold, cutLine(marks, m.columns-1)), "", "  any key closes this help")
}
