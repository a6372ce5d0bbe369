package tool_test

import (
	"strings"
	"testing"

	"github.com/aymanbagabas/go-udiff"

	"github.com/golem-forge/golem/internal/tool"
)

// TestWholeDiff checks that the diff of a whole text is the one that a comparison makes.
func TestWholeDiff(t *testing.T) {
	for _, text := range []string{"a", "a\n", "\n", "a\nb", "a\nb\n", "\n\n", "é\r\nx\n", "-\n+\n@@ -1 +1 @@\n", strings.Repeat("line\n", 1000)} {
		if got, want := tool.UnifiedDiff("", "/x", "", text), udiff.Unified("/dev/null", "b/x", "", text); got != want {
			t.Errorf("%.20q is new: got\n%.300s\nwant\n%.300s", text, got, want)
		}
		if got, want := tool.UnifiedDiff("/x", "", text, ""), udiff.Unified("a/x", "/dev/null", text, ""); got != want {
			t.Errorf("%.20q is deleted: got\n%.300s\nwant\n%.300s", text, got, want)
		}
	}
}
