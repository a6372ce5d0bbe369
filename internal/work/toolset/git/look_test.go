package git

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/people/visible"
)

// TestMessageIsShown checks that all of a message is shown before a push, safe for a
// terminal.
func TestMessageIsShown(t *testing.T) {
	l := &CommitView{head: "head", Message: "Fix a word\n\nCloses #1\n\x1b[2Kand more\n"}
	var out strings.Builder
	if err := l.ShowSummary(&out, visible.Page{}); err != nil {
		t.Fatal(err)
	}
	if want := "head\n  | Closes #1\n  | \\x1b[2Kand more\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	got, more := l.warnings()
	if want := []string{"message: Closes #1", `message: \x1b[2Kand more`}; !slices.Equal(got, want) || more != 0 {
		t.Errorf("got %q and %d more, want %q", got, more, want)
	}
}

// TestNoFlagHides checks that many flags of one kind do not hide those of another.
func TestNoFlagHides(t *testing.T) {
	l := &CommitView{}
	for i := range 300 {
		l.Flags = append(l.Flags, review.Flag{Kind: review.Bidi, Path: fmt.Sprintf("/%d", i), Text: "x"},
			review.Flag{Kind: review.Becomes, Path: fmt.Sprintf("/%d/package.json", i), Text: "installs; " + fmt.Sprint(i)})
	}
	l.Flags = append(l.Flags, review.Flag{Kind: review.Becomes, Path: "/.envrc", Text: "runs"})
	var out strings.Builder
	if err := l.ShowSummary(&out, visible.Page{}); err != nil {
		t.Fatal(err)
	}
	warnings, more := l.warnings()
	if more != 500 {
		t.Errorf("%d are skipped, want 500", more)
	}
	for _, text := range []string{out.String(), strings.Join(warnings, "\n")} {
		if !strings.Contains(text, "/.envrc: becomes code: runs") || !strings.Contains(text, "bidi: and 250 more") || !strings.Contains(text, "code: installs: and 250 more") {
			t.Errorf("got\n%s", text)
		}
	}
}
