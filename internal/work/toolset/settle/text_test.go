package settle

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/patch"
)

// numberLines returns a text of n lines, with some of them replaced.
func numberLines(n int, replaced ...int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		word := "line"
		for _, r := range replaced {
			if r == i {
				word = "changed"
			}
		}
		fmt.Fprintf(&b, "%s %d\n", word, i)
	}
	return b.String()
}

// TestHunks checks that exactly the chosen hunks are applied, for every choice of
// them.
func TestHunks(t *testing.T) {
	places := []int{2, 20, 40}
	old, new := numberLines(50), numberLines(50, places...)
	for choice := range 8 {
		var numbers, want []int
		for i, place := range places {
			if choice&(1<<i) != 0 {
				numbers, want = append(numbers, i+1), append(want, place)
			}
		}
		text, _, count, err := withHunks(old, new, numbers)
		if err != nil || count != 3 || text != numberLines(50, want...) {
			t.Errorf("%v: got %d hunks, %v\n%s", numbers, count, err, text)
		}
	}
	for _, test := range []struct{ old, new string }{{"", "a\n"}, {"a\n", ""}, {"a", "b"}, {"a\nb", "a\nb\n"}, {"a\r\n", "a\n"}} {
		if text, _, count, err := withHunks(test.old, test.new, []int{1}); err != nil || count != 1 || text != test.new {
			t.Errorf("%q to %q: got %q, %d, %v", test.old, test.new, text, count, err)
		}
		if text, _, _, err := withHunks(test.old, test.new, nil); err != nil || text != test.old {
			t.Errorf("%q to %q without hunks: got %q, %v", test.old, test.new, text, err)
		}
	}
}

// TestNumbered checks that heads of hunks are numbered, and lines of content that look
// like one are not. It also checks which contents have hunks.
func TestNumbered(t *testing.T) {
	diff := "--- a\n+++ b\n@@ -1 +1 @@\n-a\n+@@ -9 +9 @@\n@@ -5 +5 @@\n x\n"
	if got, want := patch.Number(diff), "--- a\n+++ b\n@@ -1 +1 @@ hunk 1\n-a\n+@@ -9 +9 @@\n@@ -5 +5 @@ hunk 2\n x\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, test := range []struct {
		old, new []byte
		want     bool
	}{
		{[]byte("a\n"), []byte("b\n"), true}, {[]byte{}, []byte("b"), true},
		{nil, []byte("b\n"), false}, {[]byte("a\n"), nil, false},
		{[]byte("a\x00"), []byte("b\n"), false}, {[]byte("a\n"), []byte("\xff\n"), false},
	} {
		if got := HasHunks(test.old, test.new); got != test.want {
			t.Errorf("%q, %q: got %v", test.old, test.new, got)
		}
	}
}

// TestToolsAreTheUsers checks that no model can call the tools, and that each of them
// always asks.
func TestToolsAreTheUsers(t *testing.T) {
	seen := 0
	for _, tl := range Tools(nil, nil, Publisher{}) {
		seen++
		if tl.Mode != policy.Manual || !tl.AlwaysAsk {
			t.Errorf("%s: mode %v, asks %v", tl.Name, tl.Mode, tl.AlwaysAsk)
		}
		g := tool.Gate{Tools: []tool.Tool{tl}, Grant: policy.Grant{Files: policy.AllFiles(), Tools: policy.All()}}
		if r := g.Do(context.Background(), policy.Model, tool.Call{Tool: tl.Name, Args: []byte(`{"paths":["/"]}`)}); r.Err == nil {
			t.Errorf("%s: a model could call it", tl.Name)
		}
	}
	if seen != 4 {
		t.Errorf("%d tools", seen)
	}
}

// TestWithin checks that names below a directory are not confused with names that only
// begin like it.
func TestWithin(t *testing.T) {
	for _, test := range []struct {
		above, name string
		want        bool
	}{
		{"/", "/a", true}, {"/a", "/a", true}, {"/a", "/a/b", true},
		{"/a", "/ab", false}, {"/a/b", "/a", false}, {"/a", "/b/a", false},
	} {
		if got := Within(test.above, test.name); got != test.want {
			t.Errorf("%s in %s: got %v", test.name, test.above, got)
		}
	}
}
