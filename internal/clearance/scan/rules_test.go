package scan

import (
	"bytes"
	"math/rand/v2"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"

	tests "github.com/golem-forge/golem/internal/checks/testutil"
)

// TestRules checks that every rule works, and that a rule which is tried only at its
// keywords finds what its regular expression finds anywhere.
func TestRules(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	b := book()
	if len(b.Rules) < 200 {
		t.Fatalf("got %d rules: the file is incomplete", len(b.Rules))
	}
	if from := []byte(rulesFrom); !bytes.Contains(rulesJSON, from) {
		t.Errorf("the rules are not from %s", rulesFrom)
	}
	matched, kept, at := 0, 0, 0
	for _, r := range b.Rules {
		if r.Regex == "" {
			continue
		}
		anywhere := *r
		anywhere.At, anywhere.Near, anywhere.regex = false, false, lateRegexp(r.Regex)
		tree, err := syntax.Parse(r.Regex, syntax.Perl)
		if err != nil {
			t.Fatal(r.ID, err)
		}
		if r.At {
			at++
		}
		for range tests.Rounds(6) {
			// The keyword may be anywhere, as in gitleaks.
			text := "x = 1\n" + makeSample(random, tree) + "\n\n" + r.Keywords[random.IntN(len(r.Keywords))] + "\n"
			path := "a.txt"
			if r.path != nil {
				path = map[bool]string{true: "a.tf", false: "a.yaml"}[r.path().MatchString("a.tf")]
				if !r.path().MatchString(path) {
					path = map[bool]string{true: "a.php", false: "nuget.config"}[r.path().MatchString("a.php")]
				}
			}
			want := &trial{rulebook: b, tries: &tries{}, path: path, data: []byte(text)}
			want.anywhere(&anywhere, 1)
			if anywhere.regex().MatchString(text) {
				matched++
			}
			got := &trial{rulebook: b, tries: &tries{}, path: path, data: []byte(text), skip: map[*rule]bool{r: false}, tried: map[*rule]int{}}
			b.keywords.find(got.data, func(word, place int) bool {
				if slices.Contains(b.by[word], r) {
					got.try(r, place)
				}
				return true
			})
			for _, w := range want.hits {
				kept++
				if !slices.ContainsFunc(got.hits, func(g hit) bool { return g.from == w.from && g.to == w.to }) {
					t.Errorf("%s: not found at its keyword: %q in %q; got %v", r.ID, text[w.from:w.to], text, got.hits)
				}
			}
		}
	}
	t.Logf("%d rules, %d at their keywords; %d samples matched, %d were secrets", len(b.Rules), at, matched, kept)
	if matched < tests.Rounds(1000) || kept < tests.Rounds(800) {
		t.Errorf("got %d matches, %d secrets: the test checks too little", matched, kept)
	}
}

// makeSample returns a text that a regular expression matches.
func makeSample(random *rand.Rand, r *syntax.Regexp) string {
	var b strings.Builder
	switch r.Op {
	case syntax.OpLiteral:
		for _, c := range r.Rune {
			b.WriteRune(c)
		}
	case syntax.OpCharClass:
		var all []rune
		for i := 0; i < len(r.Rune); i += 2 {
			for c := max(r.Rune[i], ' '); c <= min(r.Rune[i+1], '~'); c++ {
				all = append(all, c)
			}
		}
		if len(all) == 0 {
			return string(r.Rune[0])
		}
		b.WriteRune(all[random.IntN(len(all))])
	case syntax.OpAnyCharNotNL, syntax.OpAnyChar:
		b.WriteByte(byte('a' + random.IntN(26)))
	case syntax.OpCapture, syntax.OpConcat:
		for _, sub := range r.Sub {
			b.WriteString(makeSample(random, sub))
		}
	case syntax.OpAlternate:
		return makeSample(random, r.Sub[random.IntN(len(r.Sub))])
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpRepeat:
		low, high := 0, 3
		switch r.Op {
		case syntax.OpPlus:
			low = 1
		case syntax.OpQuest:
			high = 1
		case syntax.OpRepeat:
			low, high = r.Min, r.Max
			if high < 0 || high > low+8 {
				high = low + 8
			}
		}
		for range low + random.IntN(high-low+1) {
			b.WriteString(makeSample(random, r.Sub[0]))
		}
	}
	return b.String()
}
