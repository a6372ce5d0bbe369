package sandbox_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/checks/benchtable"
	"github.com/golem-forge/golem/sandbox"
)

// find compares Find with find(1). Find is a call in this process, but find(1) is a
// program that must be started first. So the target applies to the time of find(1) minus
// the time of a find(1) in an empty directory.
func (b *bench) find(t *benchtable.Table) {
	b.check(os.MkdirAll("empty", 0o777))
	ours := func() []sandbox.Found {
		list, err := b.box.Find(context.Background(), "/tree", "*.md", sandbox.Budget{})
		b.check(err)
		return list.Found
	}
	find := func(folder string) []string { return []string{"find", folder, "-name", "*.md", "-type", "f"} }
	var names []string
	for _, f := range ours() {
		names = append(names, f.Path)
	}
	b.same(names, b.output(find("tree")))
	got := benchtable.Turns(benchtable.FewRounds, benchtable.Once,
		benchtable.Repeat(func() { ours() }),
		benchtable.Repeat(func() { b.run(find("tree")) }),
		benchtable.Repeat(func() { b.run(find("empty")) }),
	)
	work := "find *.md in 50,000 files"
	t.Against(work, got[0], "find(1)", got[1], 0)
	t.Against(work, got[0], "find(1) less its start", got[1].Less(got[2]), 1)
}

// benchSearches are the three kinds of pattern: a text, an expression with a text that
// every match contains, and an expression without one.
var benchSearches = []struct{ kind, pattern string }{
	{"literal", `gate.Open`},
	{"regexp with a literal", `gate\.[A-Z]\w+\(ctx`},
	{"regexp without one", `[A-Z][0-9]{3,5}\b`},
}

// search compares Search with ripgrep, which uses every core too, and with grep. The
// options make both read the same files as Search, including hidden and ignored ones.
func (b *bench) search(t *benchtable.Table, kind, pattern string) {
	ours := func() []sandbox.Match {
		m, err := b.box.Search(context.Background(), "/tree", sandbox.Query{Pattern: pattern}, sandbox.Budget{})
		b.check(err)
		return m.Found
	}
	rg := func(folder string) []string {
		return []string{"rg", "--no-config", "--no-ignore", "--hidden", "--no-heading", "--line-number", pattern, folder}
	}
	grep := []string{"grep", "-r", "-n", "-E", pattern, "tree"}
	var lines []string
	for _, m := range ours() {
		lines = append(lines, fmt.Sprintf("%s:%d:%s", m.Path, m.Line, m.Text))
	}
	b.same(lines, b.output(rg("tree")))
	b.same(lines, b.output(grep))
	got := benchtable.Turns(benchtable.FewRounds, benchtable.Once,
		benchtable.Repeat(func() { ours() }),
		benchtable.Repeat(func() { b.run(rg("tree")) }),
		benchtable.Repeat(func() { b.run(rg("empty")) }),
		benchtable.Repeat(func() { b.run(grep) }),
	)
	work := "search, " + kind
	t.Against(work, got[0], "rg", got[1], 0)
	t.Against(work, got[0], "rg less its start", got[1].Less(got[2]), 1.5)
	t.Against(work, got[0], "grep -r", got[3], 0)
}

// run runs a program to its end, in the locale that is fastest for grep. The output goes
// to a file, because grep stops at the first match if its output is /dev/null.
func (b *bench) run(words []string) {
	out, err := os.Create("output")
	b.check(err)
	defer out.Close()
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdout = out
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() != 1 { // 1 means that it found nothing
		b.Fatal(words[0], err)
	}
}

// output runs a program and returns the lines that it prints.
func (b *bench) output(words []string) []string {
	b.run(words)
	text, err := os.ReadFile("output")
	b.check(err)
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// same checks that a peer found the same names, because speed counts only for the same
// work. Names of the peer have no leading slash.
func (b *bench) same(ours, theirs []string) {
	b.Helper()
	for i := range theirs {
		theirs[i] = "/" + theirs[i]
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	if len(ours) == 0 || !slices.Equal(ours, theirs) {
		b.Fatalf("not the same work: we found %d, the peer %d", len(ours), len(theirs))
	}
}
