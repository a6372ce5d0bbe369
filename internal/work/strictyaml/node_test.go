package strictyaml_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

func parse(t *testing.T, text string) strictyaml.Node {
	t.Helper()
	n, problems := strictyaml.Parse("f", []byte(text))
	if len(problems) > 0 {
		t.Fatalf("%s: %v", text, problems)
	}
	return n
}

// TestAt checks lookups of keys in nested maps.
func TestAt(t *testing.T) {
	n := parse(t, "a:\n  b: {c: d}\n  e: [f, 1, 'g']\nh:\n")
	for keys, want := range map[string]string{"": "a map", "a": "a map", "a b": "a map", "a b c": "a single value", "a e": "a list", "h": "nothing"} {
		if got, ok := n.At(strings.Fields(keys)...); !ok || got.Kind.String() != want {
			t.Errorf("%s: got %s, %v; want %s", keys, got.Kind, ok, want)
		}
	}
	for _, keys := range []string{"b", "a c", "a b c d", "a e f", "h i"} {
		if got, ok := n.At(strings.Fields(keys)...); ok || got.Kind != strictyaml.Null {
			t.Errorf("%s: got %s, %v; want nothing", keys, got.Kind, ok)
		}
	}
	if !n.Has("h") || n.Has("f") {
		t.Error("Has")
	}
	list, _ := n.At("a", "e")
	if got, want := list.Texts(), []string{"f", "1", "g"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	one, _ := n.At("a", "b", "c")
	if got, want := one.Texts(), []string{"d"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := n.Texts(); got != nil {
		t.Errorf("texts of a map: %v", got)
	}
}

// TestSet checks that Set gives the same tree as writing the value in the file, except
// for its place. The original tree stays unchanged.
func TestSet(t *testing.T) {
	for _, test := range []struct{ text, keys, value, want string }{
		{"a: b", "a", "c", "{a@1:1=c@0:0}@1:1"},
		{"a: b", "c", "d", "{a@1:1=b@1:4 c@0:0=d@0:0}@1:1"},
		{"", "a b c", "d", "{a@0:0={b@0:0={c@0:0=d@0:0}@0:0}@0:0}@1:1"},
		{"a: {b: c, d: e}", "a b", "[f]", "{a@1:1={b@1:5=[f@0:0]@0:0 d@1:11=e@1:14}@1:4}@1:1"},
		{"a: b", "a c", "d", "{a@1:1={c@0:0=d@0:0}@0:0}@1:1"},
		{"a: [b]", "a 0", "d", "{a@1:1={0@0:0=d@0:0}@0:0}@1:1"},
		{"a:", "a b", "null", "{a@1:1={b@0:0=nothing@0:0}@0:0}@1:1"},
		{"a: b", "", "{c: d}", "{c@0:0=d@0:0}@0:0"},
	} {
		n := parse(t, test.text)
		before := outline(n)
		value, problems := strictyaml.ParseValue("--set", test.value)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if got := outline(n.Set(strings.Fields(test.keys), value)); got != test.want {
			t.Errorf("%s, %s=%s:\ngot  %s\nwant %s", test.text, test.keys, test.value, got, test.want)
		}
		if got := outline(n); got != before {
			t.Errorf("%s, %s=%s: the tree has changed to %s", test.text, test.keys, test.value, got)
		}
	}
	// Two trees made from the same tree do not share added fields.
	n := parse(t, "a: {b: c}")
	one, two := n.Set([]string{"a", "d"}, read(t, "1")), n.Set([]string{"a", "d"}, read(t, "2"))
	if x, _ := one.At("a", "d"); x.Text != "1" {
		t.Errorf("got %s, want 1", x.Text)
	}
	if x, _ := two.At("a", "d"); x.Text != "2" {
		t.Errorf("got %s, want 2", x.Text)
	}
}

// TestPlace checks how places are printed.
func TestPlace(t *testing.T) {
	for want, place := range map[string]strictyaml.Place{
		"default":       strictyaml.Default,
		"f.yaml:3":      {Source: "f.yaml", Line: 3, Col: 7},
		"--set":         {Source: "--set"},
		`"a\x1b[2J":1`:  {Source: "a\x1b[2J", Line: 1},
		`"a\u202eb"`:    {Source: "a\u202eb"},
		`"\xff":2`:      {Source: "\xff", Line: 2},
		"/ä/" + long:    {Source: "/ä/" + long},
		"GOLEM_MODEL":   {Source: "GOLEM_MODEL"},
		"a file.yaml:9": {Source: "a file.yaml", Line: 9},
	} {
		if got := place.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

var long = strings.Repeat("long/", 100)

// TestProblems checks the order, the text and the codes of problems.
func TestProblems(t *testing.T) {
	at := func(source string, line, col int) strictyaml.Node {
		return strictyaml.Node{Place: strictyaml.Place{Source: source, Line: line, Col: col}}
	}
	var ps strictyaml.Problems
	if err := ps.Err(); err != nil {
		t.Errorf("no problems: got %v", err)
	}
	ps.Add(at("b", 1, 1), "last", "")
	ps.Add(at("a", 10, 1), "third", "hint")
	ps.Add(at("a", 2, 9), "second", "")
	ps.Add(at("a", 2, 5), "one", "")
	ps.Add(at("a", 2, 5), "two", "")
	ps.Add(at("a", 2, 5), "one", "")
	ps.Add(at("--set", 0, 0), "first", "")
	before := slices.Clone(ps)
	want := "--set: first\na:2:5: one\na:2:5: two\na:2:9: second\na:10:1: third; hint\nb:1:1: last"
	for range 2 {
		if got := ps.Err().Error(); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	if !slices.Equal(ps, before) {
		t.Errorf("Err has changed the problems to\n%s", ps)
	}
	if err := ps.Err(); !errors.Is(err, sandbox.ErrInvalid) {
		t.Errorf("%v is not ErrInvalid", err)
	}
	var p strictyaml.Problem
	if !errors.As(ps.Err(), &p) || p.What != "first" {
		t.Errorf("got %v, want the first problem", p)
	}
	coded := strictyaml.Problem{What: "a", Code: sandbox.ErrExceedsParent}
	if !errors.Is(coded, sandbox.ErrExceedsParent) || errors.Is(coded, sandbox.ErrInvalid) {
		t.Errorf("got %v", errors.Unwrap(coded))
	}
}
