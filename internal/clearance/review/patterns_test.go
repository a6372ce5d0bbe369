package review

import (
	"slices"
	"strings"
	"testing"
)

// TestPatterns compares the lookup by first and last byte with a comparison of all
// patterns, in the order of the table.
func TestPatterns(t *testing.T) {
	p := known().patterns
	names := []string{"", "x", ".", "*", "main.go", "café.mk"}
	for _, e := range p.all {
		for _, star := range []string{"", "x", ".config", "a.b"} {
			names = append(names, strings.ReplaceAll(strings.Join(e.parts, "/"), "*", star))
		}
	}
	for _, name := range names {
		for _, below := range []string{"", "/y"} {
			parts := strings.Split(name+below, "/")
			want, found := first(p.all, parts)
			got, ok := p.first(parts)
			if ok != found || got.why != want.why || !slices.Equal(got.parts, want.parts) {
				t.Errorf("%s%s: got %v, want %v", name, below, got, want)
			}
		}
	}
}
