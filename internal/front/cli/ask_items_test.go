package cli

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/golem-forge/golem/internal/decide/display"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
)

// TestRenderedItemsAreOnScreen checks that an item counts as shown only if each of its
// rows is on the screen, at any size. A complete sheet shows every item of the request
// except omitted ones.
func TestRenderedItemsAreOnScreen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := tool.Request{Digest: strings.Repeat("ab", 32), Workers: []string{"main"}, Tool: "tool", Args: []byte(rapid.SampledFrom([]string{"{}", `{"a":1,"b":"x\ny"}`}).Draw(t, "args")),
			Summary: rapid.SampledFrom([]string{"", "do it"}).Draw(t, "wish"), Problem: rapid.SampledFrom([]string{"", "odd"}).Draw(t, "problem"), Why: rapid.SampledFrom([]string{"", "so"}).Draw(t, "why")}
		for i := range rapid.IntRange(0, 3).Draw(t, "warnings") {
			r.Warnings = append(r.Warnings, strings.Repeat(fmt.Sprint("w", i), rapid.IntRange(1, 200).Draw(t, "long")))
		}
		for i := range rapid.IntRange(0, 3).Draw(t, "details") {
			r.Details = append(r.Details, strings.Repeat(fmt.Sprint("d", i), rapid.IntRange(1, 200).Draw(t, "long")))
		}
		for i := range rapid.IntRange(0, 40).Draw(t, "changes") {
			c := tool.Change{Path: fmt.Sprintf("/f%d", i), Op: rapid.SampledFrom([]tool.Op{tool.Create, tool.Update, tool.Delete}).Draw(t, "op")}
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				c.Diff = "--- a\n+++ b\n@@ -0,0 +1 @@\n" + strings.Repeat("+"+strings.Repeat("y", rapid.IntRange(0, 400).Draw(t, "width"))+"\n", rapid.IntRange(1, 30).Draw(t, "lines"))
			case 1:
				c.Omitted = "too large"
			case 2:
				c.Tree = []string{c.Path + "/a", c.Path + "/b"}
			}
			r.Changes = append(r.Changes, c)
			r.Effects = append(r.Effects, policy.Effect{Verb: policy.Write, Target: c.Path})
		}
		r.ToApprove = slices.Clone(r.Effects)
		all := display.NewSheet(r, math.MaxInt).All()
		columns, most := rapid.IntRange(20, 300).Draw(t, "columns"), rapid.IntRange(3, 100).Draw(t, "most")
		rows := display.NewSheet(r, maxColumns).Folded(most, func(r row) int { return len(r.Lines(columns, false)) })
		for _, item := range display.RenderedItems(all, rows) {
			for _, r := range all {
				if r.Item == item && !slices.Contains(rows, r) {
					t.Fatalf("%s counts as shown, and %q is not on screen", item, r.Text)
				}
			}
		}
		got := display.RenderedItems(all, all)
		for _, item := range r.Items() {
			if !slices.Contains(got, item) && !slices.Contains(r.Omitted(), item) {
				t.Fatalf("%s is not in the sheet", item)
			}
		}
		if len(rows) < len(all) && len(display.RenderedItems(all, rows)) == len(got) {
			t.Fatalf("%d of %d rows are shown, but all items count as shown", len(rows), len(all))
		}
	})
}
