package git_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/checks/benchtable"
	"github.com/golem-forge/golem/internal/clearance/git"
)

// BenchmarkTable compares the cost of staging with the cost of a commit with git itself.
// `make bench` runs it.
func BenchmarkTable(b *testing.B) {
	table := benchtable.Peers(os.Stdout)
	b.Run("many", func(b *testing.B) { benchMany(b, table); b.SkipNow() })
	b.Run("one", func(b *testing.B) { benchOne(b, table); b.SkipNow() })
	fmt.Printf("\ntargets met: %d of %d\n", table.Met, table.Met+table.Missed)
	b.SkipNow() // the table is the result
}

// benchMany stages 10,000 new files.
func benchMany(b *testing.B, table *benchtable.Table) {
	const n = 10_000
	s, dir := openStore(b), newRepository(b)
	runGit(b, dir, "config", "gc.auto", "0")
	target, base := openWithBase(b, s, dir)
	var files []git.File
	for i := range n {
		name, content := fmt.Sprintf("d%d/f%d", i/100, i), strings.Repeat(fmt.Sprintf("line %d\n", i), 20)
		writeFile(b, filepath.Join(dir, name), content)
		files = append(files, newDiskFile(b, dir, name))
	}
	ours := benchtable.Repeat(func() {
		if _, err := s.Stage(b.Context(), target.Objects(), newCommit(base, files...)); err != nil {
			b.Fatal(err)
		}
	})
	theirs := benchtable.Repeat(func() {
		runGit(b, dir, "add", "-A")
		runGit(b, dir, "commit", "-q", "-m", "x")
	})
	// Remove the objects of both before each run, outside of the measured time, so that
	// neither finds them.
	var all [2]benchtable.Series
	for range 3 {
		s = openStore(b)
		series := benchtable.Turns(1, benchtable.Once, ours, theirs)
		for i := range all {
			all[i] = append(all[i], series[i]...)
		}
		runGit(b, dir, "reset", "-q", "--mixed", string(base))
		runGit(b, dir, "reflog", "expire", "--expire=now", "--all")
		runGit(b, dir, "prune", "--expire=now")
	}
	table.Against("stage 10,000 files", all[0], "add -A, commit", all[1], 0.4)
}

// benchOne stages one file in a repository of 100,000.
func benchOne(b *testing.B, table *benchtable.Table) {
	const n = 100_000
	s, dir := openStore(b), newRepository(b)
	runGit(b, dir, "config", "gc.auto", "0")
	for i := range n {
		writeFile(b, filepath.Join(dir, fmt.Sprintf("d%d/f%d", i/1000, i)), fmt.Sprint(i))
	}
	runGit(b, dir, "add", "-A")
	runGit(b, dir, "commit", "-q", "-m", "x")
	target, base := openWithBase(b, s, dir)
	round := 0
	series := benchtable.Turns(5, benchtable.Once, benchtable.Repeat(func() {
		round++
		writeFile(b, filepath.Join(dir, "d7/f7007"), fmt.Sprint("ours", round))
		if _, err := s.Stage(b.Context(), target.Objects(), newCommit(base, newDiskFile(b, dir, "d7/f7007"))); err != nil {
			b.Fatal(err)
		}
	}), benchtable.Repeat(func() {
		round++
		writeFile(b, filepath.Join(dir, "d7/f7007"), fmt.Sprint("theirs", round))
		runGit(b, dir, "add", "-A")
		runGit(b, dir, "commit", "-q", "-m", "x")
	}))
	const most = 15 * time.Millisecond
	table.Row("stage 1 file of 100,000", benchtable.Duration(series[0].Median()), benchtable.Duration(series[1].Median())+" add -A, commit",
		fmt.Sprintf("%.2f×", series[0].Over(series[1])), most.String(), table.Judge(series[0].Median() <= most.Seconds()))
}
