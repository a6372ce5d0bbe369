package tui

import (
	"fmt"
	"strings"

	"github.com/golem-forge/golem/internal/people/visible"
)

// A paint adds colours to text, or nothing if it is false.
type paint bool

// These are the codes of colours and attributes. Each has a mark that says the same.
const (
	bold    = "1"
	faint   = "2"
	reverse = "7"
	yellow  = "33"
	strong  = "1;4" // the changed words of a line
)

// with returns a text with colours.
func (p paint) with(codes, text string) string {
	if !bool(p) {
		return text
	}
	return visible.Coloured(codes, text)
}

// plainText returns an untrusted line for the screen: visible, without bars and tabs.
func plainText(text string) string {
	return strings.NewReplacer("\t", "    ", "\n", `\n`).Replace(visible.Barless(visible.Text(text)))
}

// fixedCells returns the columns of a character, or 0 if terminals do not agree on them.
func fixedCells(r rune) int {
	switch {
	case r >= ' ' && r < 0x7f, r > 0xa0 && r < 0x300 && r != 0xad, r >= 0x370 && r < 0x483, r >= 0x48a && r < 0x530:
		return 1
	case r >= 0x3041 && r <= 0x3096, r >= 0x30a1 && r <= 0x30fa, r >= 0x3400 && r <= 0x4dbf, r >= 0x4e00 && r <= 0x9fff, r >= 0xac00 && r <= 0xd7a3:
		return 2
	}
	return 0
}

// fixedText returns a text in which every character has the same width in all terminals.
// Others become an escape.
func fixedText(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return fixedCells(r) == 0 }) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if fixedCells(r) > 0 {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// fixedWidth returns the columns of a text of fixedText.
func fixedWidth(text string) (n int) {
	for _, r := range text {
		n += fixedCells(r)
	}
	return n
}

// fit returns a text of fixedText with exactly some columns: it is cut in the middle, or
// filled with spaces.
func fit(text string, columns int) string {
	if columns <= 0 {
		return ""
	}
	width := fixedWidth(text)
	if width > columns {
		text = cutMiddle(text, columns)
		width = fixedWidth(text)
	}
	return text + strings.Repeat(" ", columns-width)
}

// cutMark stands for the characters that were cut.
const cutMark = "~"

// cutMiddle shortens a text to some columns, with a mark in its middle.
func cutMiddle(text string, columns int) string {
	runes := []rune(text)
	front, used := 0, len(cutMark)
	for front < len(runes) && used+fixedCells(runes[front]) <= (columns+1)/2 {
		used += fixedCells(runes[front])
		front++
	}
	end := len(runes)
	for end > front && used+fixedCells(runes[end-1]) <= columns {
		end--
		used += fixedCells(runes[end])
	}
	return string(runes[:front]) + cutMark + string(runes[end:])
}

// cutLine returns the beginning of a text that surely fits into some columns.
func cutLine(text string, columns int) string {
	if visible.Width(text) <= columns {
		return text
	}
	used := len(cutMark)
	for i, r := range text {
		if used += visible.Cells(r); used > columns {
			return text[:i] + cutMark
		}
	}
	return text
}

// fill returns a text of fixedText with spaces up to some columns, or its beginning.
func fill(text string, columns int) string {
	if width := fixedWidth(text); width <= columns {
		return text + strings.Repeat(" ", columns-width)
	}
	used := 0
	for i, r := range text {
		if used+fixedCells(r) > columns {
			return text[:i] + strings.Repeat(" ", columns-used)
		}
		used += fixedCells(r)
	}
	return text
}
