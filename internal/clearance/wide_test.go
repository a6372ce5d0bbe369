package clearance_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/clearance/scan"
)

func wide(text string) string {
	var out []byte
	for _, unit := range utf16.Encode([]rune("\ufeff" + text)) {
		out = append(out, byte(unit), byte(unit>>8))
	}
	return string(out)
}

// TestWideText checks that UTF-16 text is shown as text, with its flags and findings of
// scanners.
func TestWideText(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	token := "gh" + "p_x8Kd03mQz71LrWvT5bNc92YhJf64Ps0AeUiG"
	c := s.stage("bare", "a.txt="+wide("one\ntwo\n"), "w.ps1="+wide("$a = 1\n$token = \""+token+"\"\n$b = \"x\u202ey\"\n"),
		"hidden.txt="+wide("words"+strings.Repeat("\u200b", 20)+"\n"))
	set, err := scan.New(scan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	look, err := s.desk.Examine(t.Context(), c, 0, set)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]clearance.Seen)
	for _, f := range look.Files {
		files[f.Path] = f
	}
	if got, want := strings.Join(review.Lines(files["a.txt"].FileChange), ";"), "M /a.txt (the same lines, UTF-16LE now, and was one byte per character)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	f := files["w.ps1"]
	if f.Binary || !strings.Contains(f.Diff, "+$token = \""+token) || review.Amount(f.FileChange) != "+3, UTF-16LE shown as text" {
		t.Errorf("got %v, %s\n%s", f.Binary, review.Amount(f.FileChange), f.Diff)
	}
	if !slices.ContainsFunc(f.Flags, func(f review.Flag) bool { return f.Kind == review.Bidi && f.Line == 3 }) {
		t.Errorf("flags: got %v", f.Flags)
	}
	for name, want := range map[string]string{"w.ps1": "2 secrets in UTF-16: github-pat, 40 characters", "hidden.txt": "1 size in UTF-16: invisible characters: 20 in a row, 1 between others"} {
		var got []string
		for _, f := range files[name].Verdict.Findings {
			got = append(got, fmt.Sprint(f.Line, " ", f.Scanner, " ", f.What))
		}
		if len(got) != 1 || got[0] != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
