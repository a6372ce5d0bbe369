package strictyaml_test

import (
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/work/strictyaml"
)

// TestCheckCutShort checks that a check stops at the limit of problems, and that the last
// problem says so, also after sorting.
func TestCheckCutShort(t *testing.T) {
	var text strings.Builder
	for i := range 80_000 {
		text.WriteString(strings.Repeat("k", 1+i%7) + strings.Repeat("x", i/7%13) + string(rune('a'+i%26)) + strings.Repeat("y", i/1000) + ": 1\n")
	}
	n := strictyaml.Node{Kind: strictyaml.Map}
	for i, line := range strings.Split(text.String(), "\n") {
		place := strictyaml.Place{Source: "f", Line: 90_000 - i, Col: 1}
		n.Fields = append(n.Fields, strictyaml.Field{Key: strictyaml.Node{Place: place, Kind: strictyaml.Scalar, Text: line}})
	}
	var problems strictyaml.Problems
	strictyaml.Key{Type: strictyaml.Group, Keys: []strictyaml.Key{{Name: "kx", Type: strictyaml.Text}}}.Check(n, &problems)
	ordered, _ := problems.Err().(strictyaml.Problems)
	if len(ordered) != 100 || !problems.Full() || ordered[99].What != "too many problems" {
		t.Errorf("%d problems", len(ordered))
	}
}

// TestEntryLimit checks the limit for entries of lists and maps.
func TestEntryLimit(t *testing.T) {
	list := func(n int) strictyaml.Node {
		return strictyaml.Node{Kind: strictyaml.List, Items: make([]strictyaml.Node, n)}
	}
	for _, test := range []struct {
		n    strictyaml.Node
		want string
	}{
		{list(1000), ""},
		{list(1001), "f:1:1: a list of 1001 entries; at most 1000"},
		{strictyaml.Node{Kind: strictyaml.Map, Fields: []strictyaml.Field{{Value: list(1001)}}}, "f:1:1: a list of 1001 entries; at most 1000"},
		{strictyaml.Node{Kind: strictyaml.Map, Fields: make([]strictyaml.Field, 1001)}, "f:1:1: a map of 1001 entries; at most 1000"},
	} {
		var problems strictyaml.Problems
		ok := test.n.Bounded(&problems)
		if len(problems) > 0 {
			problems[0].Place = strictyaml.Place{Source: "f", Line: 1, Col: 1}
		}
		if got := problems.Error(); got != test.want || ok != (test.want == "") {
			t.Errorf("got %v, %q, want %q", ok, got, test.want)
		}
	}
}
