package sandbox_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/golem-forge/golem/sandbox"
)

// BenchmarkTable prints two tables: every figure beside its peer's, measured in
// the same run and in turns, and how the figures grow. `make bench` runs it;
// docs/benchmarks.md says how to read it. It is no test, and nothing fails
// because a machine is slow.
func BenchmarkTable(b *testing.B) {
	top := b.TempDir()
	bench := &bench{B: b, top: top, box: benchBox(b, top)}
	plantChain(b, filepath.Join(top, "chain"), 32)
	for _, n := range []int{10, 1000, 100_000} {
		plantFolder(b, filepath.Join(top, "list", fmt.Sprint(n)), n)
	}
	plantTree(b, filepath.Join(top, "tree"))
	b.Chdir(top) // the peers' names are as short as ours
	bench.peers()
	bench.growths()
	b.SkipNow() // the tables are the result: how long they took is none
}

// bench is what the rows share. The peers work in the folder top by names
// relative to it, box is a sandbox with top at /.
type bench struct {
	*testing.B
	top string
	box *sandbox.Sandbox
}

func benchBox(b *testing.B, top string) *sandbox.Sandbox {
	b.Helper()
	s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{
		{Target: "/", Source: sandbox.Host(top), Access: sandbox.ReadWrite},
	}})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// check ends the run where the work could not be done.
func (b *bench) check(err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}

// The lengths of a measurement. A short piece of work is done in bursts, a long
// one once a round.
const (
	manyRounds = 101
	burst      = 2 * time.Millisecond
	fewRounds  = 15
	once       = time.Nanosecond
)

func (b *bench) peers() {
	t := newBenchTable(column{"work", 38}, column{"ours", 8}, column{"peer", 32}, column{"ratio", 6}, column{"target", 8}, column{"ok?", 3})
	for _, depth := range []int{1, 4, 12} {
		b.read(t, depth)
	}
	for _, depth := range []int{1, 4, 12} {
		b.stat(t, depth)
	}
	b.write(t)
	for _, n := range []int{1000, 100_000} {
		b.list(t, n)
	}
	b.find(t)
	for _, q := range searches {
		b.search(t, q)
	}
	b.access(t)
	fmt.Printf("\ntargets met: %d of %d\n", t.met, t.met+t.missed)
}

func (b *bench) read(t *benchTable, depth int) {
	root, err := os.OpenRoot(filepath.Join(b.top, "chain"))
	b.check(err)
	defer root.Close()
	box := benchBox(b.B, filepath.Join(b.top, "chain"))
	name := atDepth(depth)
	whole, relative := filepath.Join(b.top, "chain", name), name
	b.Chdir(filepath.Join(b.top, "chain"))
	defer b.Chdir(b.top)
	got := takeTurns(manyRounds, burst,
		b.reading(box, "/"+name),
		repeat(func() { _, err := os.ReadFile(relative); b.check(err) }),
		repeat(func() { _, err := os.ReadFile(whole); b.check(err) }),
		repeat(func() { _, err := root.ReadFile(name); b.check(err) }),
	)
	work := fmt.Sprintf("read 4 KiB, depth %d", depth)
	t.against(work, got[0], "os.ReadFile", got[1], 0.9)
	t.against("", got[0], "os.ReadFile, absolute name", got[2], 0)
	t.against("", got[0], "os.Root.ReadFile", got[3], 0)
}

func (b *bench) reading(box *sandbox.Sandbox, name string) func(int) {
	return repeat(func() { _, err := box.Read(name); b.check(err) })
}

func (b *bench) stat(t *benchTable, depth int) {
	root, err := os.OpenRoot(filepath.Join(b.top, "chain"))
	b.check(err)
	defer root.Close()
	box := benchBox(b.B, filepath.Join(b.top, "chain"))
	name := atDepth(depth)
	b.Chdir(filepath.Join(b.top, "chain"))
	defer b.Chdir(b.top)
	got := takeTurns(manyRounds, burst,
		repeat(func() { _, err := box.Stat("/" + name); b.check(err) }),
		repeat(func() { _, err := os.Stat(name); b.check(err) }),
		repeat(func() { _, err := root.Stat(name); b.check(err) }),
	)
	t.against(fmt.Sprintf("stat, depth %d", depth), got[0], "os.Stat", got[1], 0)
	t.against("", got[0], "os.Root.Stat", got[2], 0)
}

func (b *bench) write(t *benchTable) {
	ours, theirs := filepath.Join(b.top, "ours"), filepath.Join(b.top, "theirs")
	b.check(os.Mkdir(ours, 0o777))
	b.check(os.Mkdir(theirs, 0o777))
	next := 0
	got := takeTurns(manyRounds, burst,
		repeat(func() { next++; _, err := b.box.Write(fmt.Sprintf("/ours/%d", next), fourKiB); b.check(err) }),
		repeat(func() { next++; b.check(handWritten(fmt.Sprintf("theirs/%d", next), fourKiB)) }),
	)
	t.against("atomic write 4 KiB, new file", got[0], "CreateTemp, Write, Close, Rename", got[1], 1.05)
	got = takeTurns(manyRounds, burst,
		repeat(func() { _, err := b.box.Write("/ours/same", fourKiB); b.check(err) }),
		repeat(func() { b.check(handWritten("theirs/same", fourKiB)) }),
	)
	t.against("atomic write 4 KiB, overwrite", got[0], "CreateTemp, Write, Close, Rename", got[1], 1.05)
}

// handWritten is how a Go program writes a file in one step.
func handWritten(name string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".tmp-*")
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		f.Close()
		os.Remove(f.Name())
		return err
	}
	if err := f.Close(); err != nil {
		os.Remove(f.Name())
		return err
	}
	return os.Rename(f.Name(), name)
}

func (b *bench) list(t *benchTable, n int) {
	name := fmt.Sprintf("list/%d", n)
	rounds := fewRounds
	if n <= 1000 {
		rounds = manyRounds
	}
	got := takeTurns(rounds, burst,
		b.listing(name),
		repeat(func() { _, err := os.ReadDir(name); b.check(err) }),
	)
	t.against("list "+thousands(n)+" entries", got[0], "os.ReadDir", got[1], 0)
}

func (b *bench) listing(name string) func(int) {
	return repeat(func() { _, err := b.box.List("/" + name); b.check(err) })
}

func (b *bench) access(t *benchTable) {
	const name = "/chain/d/d/d/f"
	for _, query := range []struct {
		work string
		ask  func()
	}{
		{"access query: Access", func() { b.box.Access(name) }},
		{"access query: CanRead", func() { b.box.CanRead(name) }},
		{"access query: CanWrite", func() { b.box.CanWrite(name) }},
	} {
		got := takeTurns(manyRounds, burst, repeat(query.ask))[0].median()
		t.row(query.work, duration(got), "", "", "1 µs", t.judge(got <= 1e-6))
		allocs := testing.AllocsPerRun(1000, query.ask)
		t.row("  its allocations", fmt.Sprint(allocs), "", "", "0", t.judge(allocs == 0))
	}
}

func (b *bench) growths() {
	t := newBenchTable(column{"work", 30}, column{"sizes", 38}, column{"time", 44}, column{"size", 7}, column{"time", 6})
	b.growWithDepth(t)
	b.growWithMounts(t)
	b.growWithLayers(t)
	b.growWithEntries(t)
	b.growWithFiles(t)
}

func (b *bench) growWithDepth(t *benchTable) {
	depths := []int{1, 2, 4, 8, 16, 32}
	var sides []func(int)
	for _, depth := range depths {
		sides = append(sides, b.reading(b.box, "/chain/"+atDepth(depth)))
	}
	t.growth("read 4 KiB", "deep", depths, takeTurns(manyRounds, burst, sides...))
}

func (b *bench) growWithMounts(t *benchTable) {
	counts := []int{1, 10, 100, 1000}
	var reads, queries, news []func(int)
	for _, n := range counts {
		c := sandbox.Config{}
		for i := range n {
			source := filepath.Join(b.top, "mounts", fmt.Sprint(i))
			b.check(os.MkdirAll(source, 0o777))
			c.Mounts = append(c.Mounts, sandbox.Mount{Target: fmt.Sprintf("/m%d", i), Source: sandbox.Host(source), Access: sandbox.ReadOnly})
		}
		b.check(os.WriteFile(filepath.Join(b.top, "mounts/0/f"), fourKiB, 0o666))
		box, err := sandbox.New(c)
		b.check(err)
		reads = append(reads, b.reading(box, "/m0/f"))
		queries = append(queries, repeat(func() { box.Access("/m0/f") }))
		news = append(news, repeat(func() { _, err := sandbox.New(c); b.check(err); runtime.GC() }))
	}
	t.growth("read 4 KiB", "mounts", counts, takeTurns(manyRounds, burst, reads...))
	t.growth("access query", "mounts", counts, takeTurns(manyRounds, burst, queries...))
	t.growth("New", "mounts", counts, takeTurns(3, once, news...))
}

func (b *bench) growWithLayers(t *benchTable) {
	lengths := []int{0, 1, 5, 20}
	var sides []func(int)
	for _, n := range lengths {
		box := b.box
		for i := range n {
			var err error
			box, err = box.Restrict(
				sandbox.Limit{Path: "/chain", Access: sandbox.ReadWrite},
				sandbox.Limit{Path: fmt.Sprintf("/chain/d/%d", i), Access: sandbox.ReadOnly})
			b.check(err)
		}
		sides = append(sides, repeat(func() { box.Access("/chain/d/d/f") }))
	}
	t.growth("access query", "times restricted", lengths, takeTurns(manyRounds, burst, sides...))
}

func (b *bench) growWithEntries(t *benchTable) {
	counts := []int{10, 1000, 100_000}
	var sides []func(int)
	for _, n := range counts {
		sides = append(sides, b.listing(fmt.Sprintf("list/%d", n)))
	}
	got := takeTurns(fewRounds, burst, sides...)
	for i, n := range counts {
		for k := range got[i] {
			got[i][k] /= float64(n)
		}
	}
	t.growth("list, per entry", "entries", counts, got)
}

func (b *bench) growWithFiles(t *benchTable) {
	find := func(name string) func(int) {
		return repeat(func() {
			_, err := b.box.Find(context.Background(), name, "*.md", sandbox.Budget{Results: treeTotal})
			b.check(err)
		})
	}
	sizes := []int{treeTotal / treeTops, treeTotal}
	t.growth("find *.md", "files", sizes, takeTurns(fewRounds, once, find("/tree/part0"), find("/tree")))
	_ = slices.Max(sizes)
}
