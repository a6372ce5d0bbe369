package patch

import (
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// Marks are the names of the three versions in conflict markers.
type Marks struct{ Ours, Base, Theirs string }

// Merge merges two changed versions of base line by line. If both changed the same lines, the result
// has both between conflict markers, and clean is false.
func Merge(base, ours, theirs string, marks Marks) (text string, clean bool) {
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
		for more := true; more; { // edits that touch form one group
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
		ours, theirs := applyEdits(part, start, group[0]), applyEdits(part, start, group[1])
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

// applyEdits applies edits to part, which begins at offset at of the text.
func applyEdits(part string, at int, edits []udiff.Edit) string {
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
