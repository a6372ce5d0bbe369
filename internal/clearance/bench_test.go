package clearance_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/checks/benchtable"
	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/clearance/git"
)

// BenchmarkTable compares the cost of showing a staged commit with the cost of git's own
// diff. `make bench` runs it.
func BenchmarkTable(b *testing.B) {
	table := benchtable.Peers(os.Stdout)
	b.Run("diff", func(b *testing.B) { benchDiff(b, table); b.SkipNow() })
	fmt.Printf("\ntargets met: %d of %d\n", table.Met, table.Met+table.Missed)
	b.SkipNow() // the table is the result
}

// benchDiff shows a commit of 1,000 files.
func benchDiff(b *testing.B, table *benchtable.Table) {
	const n = 1000
	dir := b.TempDir()
	local, bare := filepath.Join(dir, "local"), filepath.Join(dir, "bare.git")
	text := func(i int, word string) string {
		return strings.Repeat(fmt.Sprintf("line of file %d\n", i), 50) + word + "\n" + strings.Repeat("more\n", 50)
	}
	for i := range n {
		writeFile(b, filepath.Join(local, fmt.Sprintf("d%d/f%d.txt", i/100, i)), text(i, "old"))
	}
	runGit(b, local, "init", "-q", "-b", "main", ".")
	runGit(b, local, "add", "-A")
	runGit(b, local, "commit", "-q", "-m", "x")
	runGit(b, dir, "clone", "-q", "--bare", local, bare)
	desk := openDesk(b, filepath.Join(dir, "state"), local, bare)
	r := clearance.Request{Target: "bare", Message: "x", Author: git.Person{Name: "u", Email: "u@example.org"}, Commit: git.Person{Name: "u", Email: "u@example.org"}, Time: time.Unix(1_700_000_000, 0)}
	for i := range n {
		content := text(i, "new")
		name := fmt.Sprintf("d%d/f%d.txt", i/100, i)
		writeFile(b, filepath.Join(local, name), content)
		r.Files = append(r.Files, git.File{Path: name, Mode: git.Plain, Size: int64(len(content)),
			Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content)), nil }})
	}
	c, err := desk.Stage(b.Context(), r)
	if err != nil {
		b.Fatal(err)
	}
	runGit(b, local, "add", "-A")
	runGit(b, local, "commit", "-q", "-m", "y")
	series := benchtable.Turns(5, benchtable.Once, benchtable.Repeat(func() {
		count := 0
		err := desk.Diff(b.Context(), c, func(f clearance.FileDiff) error {
			count += f.Added
			return nil
		})
		if err != nil || count != n {
			b.Fatal(err, count)
		}
	}), benchtable.Repeat(func() { runGit(b, local, "diff", "HEAD~1", "HEAD") }),
		benchtable.Repeat(func() {
			if _, err := desk.Examine(b.Context(), c, 0, nil); err != nil {
				b.Fatal(err)
			}
		}))
	table.Against("diff of 1,000 files", series[0], "git diff", series[1], 1.5)
	table.Row("diff of 1,000 files, with flags", benchtable.Duration(series[2].Median()), benchtable.Duration(series[1].Median())+" git diff", fmt.Sprintf("%.2f×", series[2].Over(series[1])), "", "")
}
