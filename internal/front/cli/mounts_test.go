package cli

import (
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/explain"
	"github.com/golem-forge/golem/sandbox"
)

func TestMountFlag(t *testing.T) {
	const ro, rw = sandbox.ReadOnly, sandbox.ReadWrite
	for _, test := range []struct {
		flag, text     string
		source, target string
		access         sandbox.Access
	}{
		{"root", ".", ".", "/", rw},
		{"root", "a/b:ro", "a/b", "/", ro},
		{"root", "a:b/c", "a:b/c", "/", rw},
		{"root", `C:\x`, `C:\x`, "/", rw},
		{"root", `C:\x:ro`, `C:\x`, "/", ro},
		{"root", "a:b:rw", "a:b", "/", rw},
		{"mount", "a:/b", "a", "/b", rw},
		{"mount", "a:/b:ro", "a", "/b", ro},
		{"mount", "a:/b:rw", "a", "/b", rw},
		{"mount", "a:/", "a", "/", rw},
		{"mount", "/a:/b", "/a", "/b", rw},
		{"mount", `C:\x:/b:ro`, `C:\x`, "/b", ro},
		{"mount", "a:b:/c:ro", "a:b", "/c", ro},
		{"mount", "a:/b/c:d/e", "", "", 0},
		{"mount", "a:/b:overlay", "a", "/b", rw},
		{"mount", "a:/b:none", "", "", 0},
		{"mount", "a:/b:", "", "", 0},
		{"mount", "a:/b:ro:rw", "", "", 0},
		{"mount", "a", "", "", 0},
		{"mount", "a:b", "", "", 0},
		{"mount", "", "", "", 0},
		{"mount", "/b", "", "", 0},
		{"root", "a:overlay", "a", "/", rw},
		{"root", "a:Rw", "", "", 0},
		{"root", "a:", "", "", 0},
		{"root", ":ro", "", "", 0},
		{"root", "", "", "", 0},
	} {
		var list []*explain.Mount
		err := mountFlag{test.flag, &list}.Set(test.text)
		if (err == nil) != (test.source != "") || (err == nil) != (len(list) == 1) {
			t.Errorf("--%s %q: got %d mounts, %v", test.flag, test.text, len(list), err)
			continue
		}
		if err != nil {
			continue
		}
		if g := list[0]; string(g.Source) != test.source || g.Target != test.target || g.Access != test.access || g.Overlay != strings.HasSuffix(test.text, ":overlay") {
			t.Errorf("--%s %q: got %s at %s %v", test.flag, test.text, string(g.Source), g.Target, g.Access)
		}
	}
}
