package git

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/visible"
)

// All of a message is shown before it is pushed, fit for a terminal.
func TestMessageIsShown(t *testing.T) {
	l := &Look{head: "head", Message: "Fix a word\n\nCloses #1\n\x1b[2Kand more\n"}
	var out strings.Builder
	if err := l.Summary(&out, visible.Page{}); err != nil {
		t.Fatal(err)
	}
	if want := "head\n  | Closes #1\n  | \\x1b[2Kand more\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	if want := []string{"message: Closes #1", `message: \x1b[2Kand more`}; !slices.Equal(l.warnings(), want) {
		t.Errorf("got %q, want %q", l.warnings(), want)
	}
}

// Many flags of one kind do not push out those of another.
func TestNoFlagHides(t *testing.T) {
	l := &Look{}
	for i := range 300 {
		l.Flags = append(l.Flags, review.Flag{Kind: review.Bidi, Path: fmt.Sprintf("/%d", i), Text: "x"},
			review.Flag{Kind: review.Becomes, Path: fmt.Sprintf("/%d/package.json", i), Text: "installs; " + fmt.Sprint(i)})
	}
	l.Flags = append(l.Flags, review.Flag{Kind: review.Becomes, Path: "/.envrc", Text: "runs"})
	var out strings.Builder
	if err := l.Summary(&out, visible.Page{}); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{out.String(), strings.Join(l.warnings(), "\n")} {
		if !strings.Contains(text, "/.envrc: code: runs") || !strings.Contains(text, "bidi: and 250 more") || !strings.Contains(text, "code: installs: and 250 more") {
			t.Errorf("got\n%s", text)
		}
	}
}
