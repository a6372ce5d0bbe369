package display_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/display"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
)

// TestFolded checks that a question about two files cuts the long one. The first file is cut
// only if it does not fit itself.
func TestFolded(t *testing.T) {
	for _, first := range []int{1, 10, 14, 15, 16, 40} {
		diff := func(n int, word string) string {
			return fmt.Sprintf("@@ -0,0 +1,%d @@\n", n) + strings.Repeat("+"+word+"\n", n)
		}
		r := tool.Request{Tool: "apply_changes", Changes: []tool.Change{
			{Path: "/ci.yml", Op: tool.Create, Diff: diff(first, "risky")}, {Path: "/long", Op: tool.Create, Diff: diff(400, "harmless")}}}
		const most = 19
		sheet := display.NewSheet(r, 100)
		risky, harmless := 0, 0
		for _, row := range sheet.Folded(most, func(visible.Row) int { return 1 }) {
			if row.Text == "risky" {
				risky++
			} else if row.Text == "harmless" {
				harmless++
			}
		}
		rows := len(sheet.Folded(most, func(visible.Row) int { return 1 })) - len(sheet.Head) - len(sheet.Tail)
		if fits := first <= 16; fits != (risky == first) || rows > most {
			t.Errorf("%d lines of the first file: %d of them, %d of the other, %d rows", first, risky, harmless, rows)
		}
	}
}
