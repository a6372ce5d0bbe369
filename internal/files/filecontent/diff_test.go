package filecontent_test

import (
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/sandbox"
)

// TestDiff checks the line numbers of a change: a hunk with two changes must not
// move those of the hunks after it. The warnings about a line use these numbers, too.
func TestDiff(t *testing.T) {
	var old, new strings.Builder
	for i := range 60 {
		line := strings.Repeat("x", i+1)
		old.WriteString(line + "\n")
		switch i + 1 {
		case 3, 7:
			line = "changed"
		case 50:
			line = "a\u202eb"
		}
		new.WriteString(line + "\n")
	}
	diff := filecontent.Diff("/f", "/f", old.String(), new.String())
	for _, want := range []string{"--- a/f\n+++ b/f\n@@ -1,10 +1,10 @@\n", "\n@@ -47,7 +47,7 @@\n"} {
		if !strings.Contains(diff, want) {
			t.Errorf("got\n%s\nwant %q in it", diff, want)
		}
	}
	c := tool.DescribeChange("/f", sandbox.Version{}.With([]byte(old.String())), []byte(old.String()), []byte(new.String()))
	if len(c.Flags) == 0 || c.Flags[0].Line != 50 {
		t.Errorf("got %v, want a flag of line 50", c.Flags)
	}
	if got := filecontent.Diff("", "/x", "", "a\nb"); got != "--- /dev/null\n+++ b/x\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n" {
		t.Errorf("a new file: got %q", got)
	}
	if got := filecontent.Diff("/x", "", "a\n", ""); got != "--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n" {
		t.Errorf("a deleted file: got %q", got)
	}
}
