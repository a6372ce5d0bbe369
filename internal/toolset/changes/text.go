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
