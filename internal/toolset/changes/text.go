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

// HasHunks reports whether the diff of two contents has hunks to choose from. Both must
// be text in UTF-8, because a diff of anything else is not shown byte for byte.
func HasHunks(old, new []byte) bool {
	return old != nil && new != nil && tool.IsText(old) && tool.IsText(new) && utf8.Valid(old) && utf8.Valid(new)
}

// withHunks returns old with some of the hunks of its diff to new applied. Hunks are
// numbered from 1. Count is how many the diff has.
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

// Numbered returns a diff with a number at the head of each hunk.
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
