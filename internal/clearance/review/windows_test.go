package review_test

import (
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/clearance/review"
)

// TestNamesForWindows checks that a name which Windows cannot store is flagged, also
// in directories, and comes first.
func TestNamesForWindows(t *testing.T) {
	flagged := func(name, operation string) string {
		for _, f := range review.Flags(review.FileChange{Path: name, Operation: operation, OldMode: "000000", Mode: "100644"}) {
			if f.Kind == review.Windows {
				return f.String()
			}
		}
		return ""
	}
	for _, name := range []string{"aux", "con.txt", "nul", "NUL.tar.gz", "com1.log", "lpt9", "COM¹", "conout$", "a/prn/b.md", "tail.", "tail ", "tail. ", "dir./a", "a.md:hidden",
		"C:x", "a?b", "a*", "a|b", "a<b", `a"b`, `a\b`} {
		if got := flagged(name, "create"); !strings.Contains(got, "is not usable on Windows: ") || strings.ContainsAny(got, "\x01\n") {
			t.Errorf("%q: %q", name, got)
		}
		if got := flagged(name, "delete"); got != "" {
			t.Errorf("%q deleted: %q", name, got)
		}
	}
	for _, name := range []string{"auxiliary", "console.txt", "com10", "com", "a b", ".x", "a.b.c", "ü.md", "a/b"} {
		if got := flagged(name, "create"); got != "" {
			t.Errorf("%q: %q", name, got)
		}
	}
	files := []string{"a.md", "aux"}
	review.Sort(files, func(name string) string { return name }, review.Flags(review.FileChange{Path: "aux", Operation: "create", OldMode: "000000", Mode: "100644"}))
	if files[0] != "aux" {
		t.Errorf("got order %q", files)
	}
}
