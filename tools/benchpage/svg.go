package main

import (
	"fmt"
	"html"
	"slices"
	"strings"
)

// draw returns a picture with a bar for golem and each peer. It follows the reader's
// choice of a light or dark page.
func draw(part string, groups []group) string {
	const (
		width, names, bars = 760, 230, 360 // the sum of the last two leaves space for a label
		line, space        = 18, 12
	)
	var b, text strings.Builder
	y := 30
	for _, g := range groups {
		most := slices.MaxFunc(g.bars, func(a, b bar) int {
			if a.length < b.length {
				return -1
			}
			return 1
		}).length
		work := g.work
		if g.rate {
			work += " (longer is faster)"
		}
		fmt.Fprintf(&b, "<text class=\"work\" x=\"8\" y=\"%d\">%s</text>\n", y+13, html.EscapeString(work))
		fmt.Fprintf(&text, "%s:", work)
		y += line
		for i, each := range g.bars {
			class := "peer"
			if each.ours {
				class = "golem"
			}
			long := max(1, int(each.length/most*bars+0.5))
			fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text><rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"12\"/><text x=\"%d\" y=\"%d\">%s</text>\n",
				names-6, y+11, html.EscapeString(each.name), class, names, y+1, long, names+long+6, y+11, html.EscapeString(each.label))
			if i > 0 {
				text.WriteString(";")
			}
			fmt.Fprintf(&text, " %s %s", each.name, each.label)
			y += line
		}
		text.WriteString(". ")
		y += space
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="t d">
<title id="t">%s: golem beside its peers</title>
<desc id="d">%s</desc>
<style>
text { font: 12px system-ui, sans-serif; fill: #24292f }
.work { font-weight: 600 }
.golem { fill: #0969da }
.peer { fill: #8c959f }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.golem { fill: #58a6ff }
.peer { fill: #6e7681 }
}
</style>
<text x="8" y="18">Each bar is a time or a size: shorter is better. In brackets: golem divided by the peer.</text>
%s</svg>
`, width, y, width, y, html.EscapeString(part), html.EscapeString(strings.TrimSpace(text.String())), b.String())
}
