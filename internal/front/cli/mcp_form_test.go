package cli

import (
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
)

// TestFormFits checks that the text of a form has at most as many bytes as a client shows, and
// that it does not count an item as shown of which a part is missing.
func TestFormFits(t *testing.T) {
	const most = 1800
	newWrite := func(lines, width int, letter string) tool.Request {
		effects := []policy.Effect{{Verb: policy.Write, Target: "/a"}}
		diff := "--- a\n+++ b\n@@ -0,0 +1 @@\n" + strings.Repeat("+"+strings.Repeat(letter, width)+"\n", lines)
		return tool.Request{Digest: strings.Repeat("ab", 32), Workers: []string{"main"}, Tool: "write_file", Effects: effects, ToApprove: effects, Changes: []tool.Change{{Path: "/a", Op: tool.Create, Diff: diff}}}
	}
	for _, test := range []struct {
		lines, width int
		letter       string
		whole        bool
	}{{3, 20, "x", true}, {60, 10, "x", true}, {60, 199, "x", false}, {64, 40, "x", false}, {10, 150, "界", false}, {1, 5000, "x", false}, {500, 1, "x", false}} {
		r := newWrite(test.lines, test.width, test.letter)
		text, items := shortly(r, most)
		if len(text) > most {
			t.Errorf("%+v: the form has %d bytes", test, len(text))
		}
		_, err := approval.CheckSeen(r, approval.Reply{Answer: tool.Answer{Verdict: tool.Approved}, Rendered: items})
		if (err == nil) != test.whole {
			t.Errorf("%+v: a plain yes: got %v, want that it counts: %v\n%s", test, err, test.whole, text)
		}
	}
	long := newWrite(1, 1, "x")
	long.Workers = []string{strings.Repeat("worker", 5000)}
	for range 30 {
		long.Workers = append(long.Workers, long.Workers[0])
	}
	if text, items := shortly(long, most); len(text) > most || len(items) > 0 {
		t.Errorf("a long head: got %d bytes and the items %v", len(text), items)
	}
}
