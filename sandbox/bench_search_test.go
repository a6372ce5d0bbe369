package sandbox_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// find holds Find against find(1). Ours is a call in this process, theirs a
// program that has to be started: so it is also held against find's time less
// that of a find in an empty folder, and the target stands there.
func (b *bench) find(t *benchTable) {
	b.check(os.Mkdir("empty", 0o777))
	ours := func() []string {
		l, err := b.box.Find(context.Background(), "/tree", "*.md", sandbox.Budget{Results: treeTotal})
		b.check(err)
		return paths(l)
	}
	find := []string{"find", "tree", "-name", "*.md", "-type", "f"}
	b.same(ours(), b.output(find))
	got := takeTurns(fewRounds, once,
		repeat(func() { b.box.Find(context.Background(), "/tree", "*.md", sandbox.Budget{Results: treeTotal}) }),
		repeat(func() { b.start(find) }),
		repeat(func() { b.start([]string{"find", "empty", "-name", "*.md", "-type", "f"}) }),
	)
	t.against("find *.md in 50,000 files", got[0], "find(1)", got[1], 0)
	t.against("", got[0], "find(1) less its start", got[1].less(got[2]), 1)
}

func paths(l sandbox.Listing) []string {
	var names []string
	for _, f := range l.Found {
		names = append(names, f.Path)
	}
	return names
}

// searches are the three kinds of pattern: one that is text, one with a text
// that every match must contain, one without.
var searches = []struct {
	kind    string
	pattern string
}{
	{"a literal", `gate.Open`},
	{"a regexp with a literal", `gate\.[A-Z]\w+\(ctx`},
	{"a regexp without one", `[A-Z][0-9]{3,5}\b`},
}

// search holds Search against ripgrep, which also uses every core, and grep.
// They are told to read what we read: hidden and ignored files too.
func (b *bench) search(t *benchTable, q struct{ kind, pattern string }) {
	ours := func() sandbox.Matches {
		m, err := b.box.Search(context.Background(), "/tree", sandbox.Query{Pattern: q.pattern}, sandbox.Budget{})
		b.check(err)
		return m
	}
	rg := []string{"rg", "--no-config", "--no-ignore", "--hidden", "--no-heading", "--line-number", q.pattern}
	grep := []string{"grep", "-r", "-n", "-P", q.pattern}
	var names []string
	for _, m := range ours().Found {
		names = append(names, fmt.Sprintf("%s:%d:%s", m.Path, m.Line, m.Text))
	}
	b.same(names, b.output(append(rg, "tree")))
	b.same(names, b.output(append(grep, "tree")))
	got := takeTurns(fewRounds, once,
		repeat(func() { ours() }),
		repeat(func() { b.start(append(rg, "tree")) }),
		repeat(func() { b.start(append(rg, "empty")) }),
		repeat(func() { b.start(append(grep, "tree")) }),
	)
	t.against("search "+q.kind, got[0], "rg", got[1], 0)
	t.against("  in 50,000 files, 150 MB", got[0], "rg less its start", got[1].less(got[2]), 1.5)
	t.against("", got[0], "grep -r", got[3], 0)
}

// start runs a program to its end. What it prints goes to a file: grep stops at
// the first match when that is /dev/null.
func (b *bench) start(words []string) {
	out, err := os.Create("output")
	b.check(err)
	defer out.Close()
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdout = out
	if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() != 1 { // 1: nothing found
		b.Fatalf("%s: %v", filepath.Base(words[0]), err)
	}
}

func (b *bench) output(words []string) []string {
	b.start(words)
	text, err := os.ReadFile("output")
	b.check(err)
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// same holds our results against a peer's lines, which lack the leading slash.
func (b *bench) same(ours, lines []string) {
	b.Helper()
	for i := range lines {
		lines[i] = "/" + lines[i]
	}
	slices.Sort(ours)
	slices.Sort(lines)
	if len(ours) == 0 || !slices.Equal(ours, lines) {
		b.Fatalf("not the same work: we found %d, the peer %d", len(ours), len(lines))
	}
}
