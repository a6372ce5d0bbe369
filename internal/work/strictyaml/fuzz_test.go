package strictyaml_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/work/strictyaml"
)

// FuzzParse checks for any file that every value and every problem has a place inside it.
// A value from another source keeps the place of that source.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "a: b\n", "a:\n  - b\n  - {c: d}\n", "\ufeffa: b\r\n", "a: &b c\nd: *b\n", "<<: {a: b}\n", "a: !!str b\n", "a: 1\na: 2\n",
		"a: b\n---\nc: d\n", "a: |\n  b\n\n c\n", "a: \"b\\n", "[[[[", "{{{{", "? a\n: b\n", "- - - a\n", "a: \t b", "\x00", "\xff", "a\u2028b", "a\rb: c",
		"%YAML 1.1\n---\na", "a: 'b", "a: [b, *c]", "...", "---", "a: >-\n\n\n  b\n#c", "{a, b: , ? c}", "\"a\n b\": c", "a: @b", "\n\n x: [\n", "ä: *ö\n",
	} {
		f.Add(seed, uint8(3))
	}
	f.Fuzz(func(t *testing.T, text string, above uint8) {
		n, problems := strictyaml.ParseAfter("f", []byte(text), int(above))
		mustHavePlaces(t, text, int(above), n)
		for _, p := range problems {
			mustBePlace(t, text, int(above), p.Place, p.Error())
			if p.What == "" || p.Hint == "" || !utf8.ValidString(p.Error()) || strings.ContainsAny(p.Error(), "\n\x00\x1b") {
				t.Fatalf("a problem without a text: %q", p.Error())
			}
		}
		schemaOfAll.Check(n, &problems)
		for _, p := range problems {
			mustBePlace(t, text, int(above), p.Place, p.Error())
		}
		value, problems := strictyaml.ParseValue("--set", text)
		mustComeFrom(t, value, "--set")
		for _, p := range problems {
			if p.Place != (strictyaml.Place{Source: "--set"}) {
				t.Fatalf("%v: at %+v", p, p.Place)
			}
		}
	})
}

// mustHavePlaces checks that every value of a tree has a place in the file.
func mustHavePlaces(t *testing.T, text string, above int, n strictyaml.Node) {
	mustBePlace(t, text, above, n.Place, n.Text)
	for _, item := range n.Items {
		mustHavePlaces(t, text, above, item)
	}
	for _, field := range n.Fields {
		mustHavePlaces(t, text, above, field.Key)
		mustHavePlaces(t, text, above, field.Value)
	}
}

// mustBePlace checks that a place is in the file, or directly after its end.
func mustBePlace(t *testing.T, text string, above int, p strictyaml.Place, what string) {
	lines := strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n")
	line := p.Line - above
	if p.Source != "f" || line < 1 || line > len(lines) {
		t.Fatalf("%q: at %+v, of %d lines", what, p, len(lines))
	}
	if width := utf8.RuneCountInString(lines[line-1]); p.Col < 1 || p.Col > width+1 {
		t.Fatalf("%q: at %+v, of %d columns", what, p, width)
	}
}

func mustComeFrom(t *testing.T, n strictyaml.Node, source string) {
	if n.Place != (strictyaml.Place{Source: source}) {
		t.Fatalf("%q: at %+v", n.Text, n.Place)
	}
	for _, item := range n.Items {
		mustComeFrom(t, item, source)
	}
	for _, field := range n.Fields {
		mustComeFrom(t, field.Key, source)
		mustComeFrom(t, field.Value, source)
	}
}
