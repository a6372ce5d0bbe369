// Package merge brings together what two have made of one text.
package merge

import (
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// Marks are the names that the three texts have where they contradict each other.
type Marks struct{ Ours, Base, Theirs string }

// Texts brings together what two have made of a text. Where both have changed the
// same lines the result has both, between marks, and is not clean.
func Texts(base, ours, theirs string, marks Marks) (text string, clean bool) {
	edits := [2][]udiff.Edit{udiff.Lines(base, ours), udiff.Lines(base, theirs)}
	var b strings.Builder
	done := 0
	clean = true
	for len(edits[0])+len(edits[1]) > 0 {
		start, end := len(base)+1, -1
		for _, list := range edits {
			if len(list) > 0 && list[0].Start < start {
				start, end = list[0].Start, list[0].End
			}
		}
		var group [2][]udiff.Edit
		for more := true; more; { // edits that touch belong together
			more = false
			for i, list := range edits {
				if len(list) > 0 && list[0].Start <= end {
					group[i], edits[i], end, more = append(group[i], list[0]), list[1:], max(end, list[0].End), true
				}
			}
		}
		b.WriteString(base[done:start])
		done = end
		part := base[start:end]
		ours, theirs := edited(part, start, group[0]), edited(part, start, group[1])
		switch {
		case len(group[1]) == 0 || ours == theirs:
			b.WriteString(ours)
		case len(group[0]) == 0:
			b.WriteString(theirs)
		default:
			clean = false
			for _, p := range []string{"<<<<<<< " + marks.Ours + "\n", ours, "||||||| " + marks.Base + "\n", part, "=======\n", theirs, ">>>>>>> " + marks.Theirs + "\n"} {
				b.WriteString(p)
				if p != "" && !strings.HasSuffix(p, "\n") {
					b.WriteString("\n")
				}
			}
		}
	}
	b.WriteString(base[done:])
	return b.String(), clean
}

// edited returns a part of a text with edits that lie in it.
func edited(part string, at int, edits []udiff.Edit) string {
	var b strings.Builder
	done := 0
	for _, e := range edits {
		b.WriteString(part[done : e.Start-at])
		b.WriteString(e.New)
		done = e.End - at
	}
	b.WriteString(part[done:])
	return b.String()
}
