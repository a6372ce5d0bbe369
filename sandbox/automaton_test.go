package sandbox

import (
	"bytes"
	"math/rand/v2"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"
)

func automatonFor(t *testing.T, pattern string) *automaton {
	t.Helper()
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		t.Fatal(err)
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		t.Fatal(err)
	}
	return newAutomaton(prog)
}

// linesPassed returns the numbers of the lines that the automaton lets pass.
func linesPassed(a *automaton, text string) []int {
	var lines []int
	data := []byte(text)
	for pos := 0; pos < len(data); {
		hit := a.find(data, pos)
		if hit < 0 {
			break
		}
		lines = append(lines, bytes.Count(data[:hit], []byte("\n"))+1)
		end := bytes.IndexByte(data[hit:], '\n')
		if end < 0 {
			break
		}
		pos = hit + end + 1
	}
	return lines
}

// linesMatched returns the numbers of the lines that the expression matches.
func linesMatched(pattern, text string) []int {
	re := regexp.MustCompile(pattern)
	var lines []int
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if re.MatchString(strings.TrimSuffix(line, "\r")) {
			lines = append(lines, i+1)
		}
	}
	return lines
}

func TestAutomaton(t *testing.T) {
	patterns := []string{
		`a`, `.`, `x*`, `^$`, `^`, `$`, `a$`, `^a`, `^a+$`, `\Aa\z`, `(?m)^b$`, `(?s).a`,
		`\bab\b`, `\Ba`, `a\B`, `\b`, `^\B$`, `a\b.`, `\bé`, `\w+\s\w+`,
		`(a|b)*c`, `(?:ab){2,3}`, `a{0}b`, `[^a]`, `[^a-zA-Z\s]`, `a.c`, `a[^x]c`,
		`(?i)k`, `(?i)é`, `(?i)straße`, `ſ`, `[α-ω]+`, `\p{Lu}\p{Ll}`, `日.語`, `\x{fffd}`, `[\x80-\x{10ffff}]`,
		`\r`, `a\r$`, `[A-Z][0-9]{3,5}\b`, `a|^b|c$`, `()`, `[^\x00-\x{10ffff}]`,
	}
	lines := []string{
		"", "a", "b", "c", "aa", "ab", "abab", "ababab c", "a b", "ab.", "xab", "abc", "a\rc", "a\xffc", "\xe6\x97", "\xff",
		"é", "aé", "É", "K", "K", "STRASSE", "straße", "ſ", "λόγος", "日本語", "日", "Ab", "K2417", "K24", "K2417x", "_", " ", "\ufffd",
	}
	text := strings.Join(lines, "\n")
	for _, pattern := range patterns {
		a := automatonFor(t, pattern)
		for _, text := range []string{text, text + "\n", text + "\nlast"} {
			if got, want := linesPassed(a, text), linesMatched(pattern, text); !slices.Equal(got, want) {
				t.Errorf("%q: got lines %v, want %v", pattern, got, want)
			}
		}
		// A line that ends in "\r\n" may be reported without a match, but a match is
		// never missed.
		text := strings.ReplaceAll(text, "\n", "\r\n") + "\r"
		got := linesPassed(a, text)
		for _, want := range linesMatched(pattern, text) {
			if !slices.Contains(got, want) {
				t.Errorf("%q: got lines %v without %d", pattern, got, want)
			}
		}
	}
}

// TestAutomatonBounds: with an expression of too many states the automaton reports more
// lines, misses no match, and does not need much memory.
func TestAutomatonBounds(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, 200_000)
	for i := range text {
		text[i] = "aaaabbbbcd\n"[random.IntN(11)]
	}
	for pattern, most := range map[string]int{`a.{14}c$`: maxStates, strings.Repeat("a.{900}", 6) + `|dd$`: 0} {
		a := automatonFor(t, pattern)
		got, want := linesPassed(a, string(text)), linesMatched(pattern, string(text))
		if len(want) == 0 || len(got) <= len(want) {
			t.Errorf("%s: %d lines passed and %d match: no bound was met", pattern, len(got), len(want))
		}
		for _, line := range want {
			if _, ok := slices.BinarySearch(got, line); !ok {
				t.Fatalf("%s: line %d is lost", pattern, line)
			}
		}
		if len(a.known) > most {
			t.Errorf("%s: got %d states, want at most %d", pattern, len(a.known), most)
		}
	}
}
