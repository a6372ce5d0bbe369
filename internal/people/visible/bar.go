package visible

import (
	"fmt"
	"strings"
)

// Bar begins each line of a question. Only golem prints it: [Barless] escapes it in all
// other text that reaches a terminal.
const Bar = "┃"

// bars are characters that look like the bar anywhere in a line: heavy vertical lines,
// and ornaments that fonts draw the same way.
const bars = "┃┇┋╏╹╻╽╿┠┡┢┣❙❚"

// thinBars are other vertical lines. They look like the bar only at the start of a line.
const thinBars = "|¦ǀ׀│┆┊╎║╵╷├┝┞┟╞╟╠∣∥⁞⎜⎟⎢⎥⎪⎮⎸⎹⏐⏽❘▏▎▍▌▋▊▉█▐▕⡇⢸ㅣ︱︳｜￨丨〡𐌠"

// LikeBar reports whether a character at the start of a line could look like the bar.
func LikeBar(r rune) bool {
	return r >= '|' && (strings.ContainsRune(bars, r) || strings.ContainsRune(thinBars, r))
}

// Barless returns text in which each bar is replaced by an escape such as \u2503.
func Barless(text string) string {
	if !strings.ContainsAny(text, bars) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if strings.ContainsRune(bars, r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Cells returns the maximum number of terminal columns of a character. It counts one for
// letters of Latin, Greek and Cyrillic, although some East Asian terminals use two.
func Cells(r rune) int {
	switch {
	case isTag(r):
		return 0
	case r < 0x530:
		return 1
	}
	return 2
}
