package choice

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/work/session"
)

// TestTree checks the tree of changed files: each file once, below its directories.
func TestTree(t *testing.T) {
	for _, test := range []struct{ paths, want string }{
		{"", ""},
		{"/b /a", "a=1 b=0"},
		{"/a/x /a-b/y /a.c /a/z", "a-b:1 .y=1 a.c=2 a:2 .x=0 .z=3"},
		{"/in/front/desk/a.go /in/front/desk/b.go /in/work/c.go /top", "in:3 .front/desk:2 ..a.go=0 ..b.go=1 .work:1 ..c.go=2 top=3"},
		{"/d /d/x /d/y/z", "d=0 d:2 .x=1 .y:1 ..z=2"},
		{"/a/b/c /a/b/c/d", "a/b:2 .c=0 .c:1 ..d=1"},
	} {
		var files []session.FileChange
		for path := range strings.FieldsSeq(test.paths) {
			files = append(files, session.FileChange{Path: path})
		}
		var got []string
		for _, r := range Tree(files) {
			text := strings.Repeat(".", r.Depth) + r.Name
			if r.File >= 0 {
				text += fmt.Sprint("=", r.File)
			} else {
				text += fmt.Sprint(":", r.Files)
			}
			got = append(got, text)
		}
		if text := strings.Join(got, " "); text != test.want {
			t.Errorf("%s: got %s, want %s", test.paths, text, test.want)
		}
	}
}

// TestTreeIsWhole checks that the tree of many files has each once, with its name.
func TestTreeIsWhole(t *testing.T) {
	var files []session.FileChange
	for i := range 5000 {
		files = append(files, session.FileChange{Path: fmt.Sprintf("/%d/%d/%d-%d", i%7, i%11%3, i%2, i)})
	}
	var above []string
	seen := make(map[int]bool)
	for _, r := range Tree(files) {
		above = append(above[:r.Depth], r.Name)
		if r.File < 0 {
			continue
		}
		if path := "/" + strings.Join(above, "/"); path != files[r.File].Path || seen[r.File] {
			t.Fatalf("file %d: got %s, want %s once", r.File, path, files[r.File].Path)
		}
		seen[r.File] = true
	}
	if len(seen) != len(files) {
		t.Errorf("got %d files, want %d", len(seen), len(files))
	}
}

// TestOnePerFile checks that one file with many warnings hides no other.
func TestOnePerFile(t *testing.T) {
	flag := func(path, text string) review.Flag { return review.Flag{Path: path, Text: text} }
	all := []review.Flag{flag("/a", "1"), flag("/a", "2"), flag("/b", "3"), flag("", "4"), flag("/a", "5"), flag("", "6"), flag("/c", "7")}
	var got []string
	for _, w := range OnePerFile(all[:6], all) {
		got = append(got, fmt.Sprintf("%s%s+%d", w.Path, w.Text, w.More))
	}
	if want := []string{"/a1+2", "/b3+0", "4+0", "6+0"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
