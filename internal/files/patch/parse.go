//go:build !js

package patch

import (
	"errors"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// Parse reads hunks in the unified format, as Hunk.String returns them.
func Parse(text string) ([]Hunk, error) {
	if text == "" {
		return nil, nil
	}
	files, _, err := gitdiff.Parse(strings.NewReader("--- a\n+++ b\n" + text))
	if err != nil {
		return nil, err
	}
	if len(files) != 1 || files[0].IsBinary || len(files[0].TextFragments) == 0 {
		return nil, errors.New("there is no hunk")
	}
	return hunksOf(files[0]), nil
}

func hunksOf(file *gitdiff.File) (hunks []Hunk) {
	more := 0 // lines that the hunks before add; the positions in the new text may be wrong
	for _, f := range file.TextFragments {
		h := Hunk{old: index(f.OldPosition, f.OldLines)}
		h.new, more = h.old+more, more+int(f.LinesAdded-f.LinesDeleted)
		for _, l := range f.Lines {
			mark := map[gitdiff.LineOp]byte{gitdiff.OpContext: Context, gitdiff.OpDelete: Removed, gitdiff.OpAdd: Added}[l.Op]
			h.Lines = append(h.Lines, Line{mark, l.Line})
		}
		hunks = append(hunks, h)
	}
	return hunks
}

// index returns the index of the first line of a fragment. An empty fragment has the
// number of the line before it.
func index(position, lines int64) int {
	if lines == 0 {
		return int(position)
	}
	return int(position) - 1
}
