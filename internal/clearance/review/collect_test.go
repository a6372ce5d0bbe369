package review_test

import (
	"fmt"
	"testing"

	"github.com/golem-forge/golem/internal/clearance/review"
)

// TestCollector checks the order of flags of several files, and that many files that
// nobody read are counted and not named.
func TestCollector(t *testing.T) {
	var l review.Collector
	l.Add(newFileChange("plain.txt", "-", "a\n"))
	l.Add(newFileChange("Makefile", "-", "all:\n"))
	if own := l.Add(newFileChange("x.txt", "-", "a\u202eb\n")); len(own) != 1 || own[0].Kind != review.Bidi {
		t.Errorf("got %v", own)
	}
	for i := range 30 {
		l.Add(review.FileChange{Path: fmt.Sprintf("/many/%d", i), Operation: "create", OldMode: "000000", Mode: "100644", Size: 5, Cut: true})
	}
	var got []string
	for _, f := range l.Flags() {
		got = append(got, string(f.Kind)+" "+f.Path)
	}
	want := "[code Makefile bidi x.txt not looked at ]"
	if fmt.Sprint(got) != want {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, f := range l.Flags() {
		if f.Kind == review.NotSeen && f.String() != "not looked at: the content of 30 files was not looked at" {
			t.Errorf("got %q", f)
		}
	}
}

// TestFlagAt checks a flag with the path as the reader types it.
func TestFlagAt(t *testing.T) {
	f := review.Flags(newFileChange("sub/Makefile", "-", "all:\n"))[0]
	if got := f.At("../Makefile"); got != "../Makefile: becomes code: a build runs it" || !f.BecomesCode() {
		t.Errorf("got %q", got)
	}
	gone := review.Flags(newFileChange("Makefile", "all:\n", "-"))[0]
	if gone.BecomesCode() {
		t.Errorf("a deleted file becomes code: %q", gone)
	}
}
