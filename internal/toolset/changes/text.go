package changes

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"
	"github.com/bluekeyes/go-gitdiff/gitdiff"

	"github.com/golem-forge/golem/internal/tool"
)

// HasHunks reports whether the difference of two texts has hunks to choose from: what
// is shown of it must be what they are made of.
func HasHunks(old, new []byte) bool {
	return old != nil && new != nil && tool.IsText(old) && tool.IsText(new) && utf8.Valid(old) && utf8.Valid(new)
}

// withHunks returns a text with some of the hunks that make another of it, by their
// numbers from 1, and how many there are.
func withHunks(old, new string, numbers []int) (text string, count int, err error) {
	files, _, err := gitdiff.Parse(strings.NewReader(udiff.Unified("a", "b", old, new)))
	if err != nil || len(files) != 1 {
		return "", 0, fmt.Errorf("%d files: %w", len(files), err)
	}
	all := files[0].TextFragments
	files[0].TextFragments = nil
	for i, f := range all {
		if slices.Contains(numbers, i+1) {
			files[0].TextFragments = append(files[0].TextFragments, f)
		}
	}
	var out bytes.Buffer
	err = gitdiff.Apply(&out, strings.NewReader(old), files[0])
	return out.String(), len(all), err
}

// Numbered returns a diff with the number of each hunk at its head.
func Numbered(diff string) string {
	var b strings.Builder
	n := 0
	for line := range strings.Lines(diff) {
		if strings.HasPrefix(line, "@@ ") {
			n++
			line = fmt.Sprintf("%s hunk %d\n", strings.TrimSuffix(line, "\n"), n)
		}
		b.WriteString(line)
	}
	return b.String()
}

// merge brings together what two have made of a text. Where both have changed the
// same lines the result has both, between marks, and is not clean.
func merge(base, real, own string) (text string, clean bool) {
	edits := [2][]udiff.Edit{udiff.Lines(base, real), udiff.Lines(base, own)}
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
			for _, p := range []string{"<<<<<<< folder\n", ours, "||||||| before\n", part, "=======\n", theirs, ">>>>>>> session\n"} {
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
