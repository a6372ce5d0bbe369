package visible

import (
	"fmt"
	"strings"
)

// Bar begins each line of a question. Only golem prints it: [Barless] takes it out of
// everything else that reaches a terminal.
const Bar = "┃"

// bars are the characters that look like the bar wherever they stand: heavy vertical
// lines, and the ornaments that fonts draw alike.
const bars = "┃┇┋╏╹╻╽╿┠┡┢┣❙❚"

// thinBars are other vertical lines. They look like the bar only if they begin a line.
const thinBars = "|¦ǀ׀│┆┊╎║╵╷├┝┞┟╞╟╠∣∥⁞⎜⎟⎢⎥⎪⎮⎸⎹⏐⏽❘▏▎▍▌▋▊▉█▐▕⡇⢸ㅣ︱︳｜￨丨〡𐌠"

// LikeBar reports whether a character that begins a line could be taken for the bar.
func LikeBar(r rune) bool {
	return r >= '|' && (strings.ContainsRune(bars, r) || strings.ContainsRune(thinBars, r))
}

// Barless returns text in which each bar is an escape such as \u2503.
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

// Cells returns how many columns of a terminal a character takes at most. Letters of
// Latin, Greek and Cyrillic take one, whatever a terminal for ideographs does with them.
func Cells(r rune) int {
	switch {
	case isTag(r):
		return 0
	case r < 0x530:
		return 1
	}
	return 2
}
