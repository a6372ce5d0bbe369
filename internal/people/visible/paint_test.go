package visible_test

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/golem-forge/golem/internal/people/syntax"
	"github.com/golem-forge/golem/internal/people/visible"
)

var escape = regexp.MustCompile("\x1b\\[[0-9;]*m")

// TestColoursChangeNoText checks that a diff with colours is the diff without, for any
// content and width.
func TestColoursChangeNoText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom([]string{"/*", "*/", "//", "\"", "'", "`", "func f(", "x1 ", "日本", "\u202e", "\x1b[31m", "\x00", "\xff", "\t", "<a b='", ">", "\\", "e\u0301", " ", "@@ -1 +1 @@"})
		diff := "--- a\n+++ b\n"
		for range rapid.IntRange(0, 12).Draw(t, "lines") {
			mark := rapid.SampledFrom([]string{"+", "-", " ", "@", "\\"}).Draw(t, "mark")
			diff += mark + strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(t, "line"), "") + "\n"
		}
		name := rapid.SampledFrom([]string{"a.go", "a.html", "a.py", "a.md", "a.sh", "a"}).Draw(t, "name")
		columns := rapid.SampledFrom([]int{0, 10, 80}).Draw(t, "columns")
		rows := visible.DiffRows(diff)
		for i, spans := range visible.Paint(name, rows) {
			if len(spans) > 0 && joined(spans) != rows[i].Text {
				t.Fatalf("%q became %q", rows[i].Text, spans)
			}
			for from := range len(rows[i].Text) {
				if cut := joined(visible.CutSpans(spans, from, len(rows[i].Text))); len(spans) > 0 && cut != rows[i].Text[from:] {
					t.Fatalf("%q from %d is %q", rows[i].Text, from, cut)
				}
			}
		}
		var plain, coloured, old strings.Builder
		visible.Page{Columns: columns}.Diff(&plain, name, diff)
		visible.Page{Columns: columns, Colours: true}.Diff(&coloured, name, diff)
		for r := range visible.Diff(diff) {
			visible.Page{Columns: columns}.Row(&old, visible.Row{Mark: r.Mark, Text: visible.Text(r.Text)})
		}
		if plain.String() != old.String() || strings.Contains(plain.String(), "\x1b") {
			t.Fatalf("without colours: %q, want %q", plain.String(), old.String())
		}
		if got := escape.ReplaceAllString(coloured.String(), ""); got != plain.String() {
			t.Fatalf("with colours: %q, want %q", got, plain.String())
		}
	})
}

func joined(spans []syntax.Span) (text string) {
	for _, s := range spans {
		text += s.Text
	}
	return text
}

// TestPaint checks that old and new lines are read as two texts.
func TestPaint(t *testing.T) {
	rows := visible.DiffRows("--- a\n+++ b\n@@ -1,3 +1,3 @@\n-x /* y\n+x // y\n z\n@@ -9,2 +9,2 @@\n in */ if\n+\"a\" 1\n")
	var got []string
	for i, spans := range visible.Paint("a.go", rows) {
		text := rows[i].Mark
		for _, s := range spans {
			text += " " + string(s.Kind) + ":" + s.Text
		}
		got = append(got, text)
	}
	want := "@\n- :x  comment:/* y\n+ :x  comment:// y\n│ :z\n@\n│ comment:in */ :  keyword:if\n+ string:\"a\" :  number:1"
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	if spans := visible.Paint("a.go", []visible.Row{{Mark: visible.Added, Text: strings.Repeat("if ", 1<<20)}}); spans[0] != nil {
		t.Error("a diff of 3 MB was divided")
	}
}
