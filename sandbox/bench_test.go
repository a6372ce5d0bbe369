package sandbox_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/golem-forge/golem/sandbox"
)

// BenchmarkTable prints two tables: each figure beside that of a peer, measured
// in turns in the same run, and how the figures grow. `make bench` runs it,
// docs/benchmarks.md says how to read it. A target that is missed is shown and
// fails nothing: a busy machine is no defect.
func BenchmarkTable(b *testing.B) {
	for _, program := range []string{"find", "grep", "rg"} {
		if _, err := exec.LookPath(program); err != nil {
			b.Skipf("%s is missing here; make bench installs it", program)
		}
	}
	top := b.TempDir()
	for _, n := range []int{10, 1000, 100_000} {
		plantFolder(b, filepath.Join(top, "list", fmt.Sprint(n)), n)
	}
	plantChain(b, top, 32)
	plantTree(b, filepath.Join(top, "tree"))
	b.Chdir(top) // so that the peers' names are as short as ours
	bench := &bench{b, top, benchBox(b, top)}
	bench.peers()
	bench.growths()
	b.SkipNow() // the tables are the result; the time they took is none
}

// bench is what the rows share: a folder that the peers work in, and a sandbox
// that has it at /.
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

// How long a row is measured. What is short is done in bursts, what is long
// once in a round.
const (
	manyRounds = 201
	fewRounds  = 11
	burst      = time.Millisecond
	once       = time.Nanosecond
)

func (b *bench) peers() {
	t := newBenchTable(column{"work", 30}, column{"ours", 14}, column{"peer", 32},
		column{"ratio", 6}, column{"target", 8}, column{"ok?", 3})
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
	for _, q := range benchSearches {
		b.search(t, q.kind, q.pattern)
	}
	b.access(t)
	fmt.Printf("\ntargets met: %d of %d\n", t.met, t.met+t.missed)
}

func (b *bench) read(t *benchTable, depth int) {
	root, err := os.OpenRoot(b.top)
	b.check(err)
	defer root.Close()
	name := atDepth(depth)
	got := takeTurns(manyRounds, burst,
		b.reading(b.box, "/"+name),
		repeat(func() { _, err := os.ReadFile(name); b.check(err) }),
		repeat(func() { _, err := root.ReadFile(name); b.check(err) }),
	)
	work := fmt.Sprintf("read 4 KiB, depth %d", depth)
	t.against(work, got[0], "os.ReadFile", got[1], 0.9)
	t.against(work, got[0], "os.Root.ReadFile", got[2], 0)
}

func (b *bench) reading(box *sandbox.Sandbox, name string) func(int) {
	return repeat(func() { _, err := box.Read(name); b.check(err) })
}

func (b *bench) stat(t *benchTable, depth int) {
	root, err := os.OpenRoot(b.top)
	b.check(err)
	defer root.Close()
	name := atDepth(depth)
	ours := "/" + name
	got := takeTurns(manyRounds, burst,
		repeat(func() { _, err := b.box.Stat(ours); b.check(err) }),
		repeat(func() { _, err := os.Stat(name); b.check(err) }),
		repeat(func() { _, err := root.Stat(name); b.check(err) }),
	)
	work := fmt.Sprintf("stat, depth %d", depth)
	t.against(work, got[0], "os.Stat", got[1], 0)
	t.against(work, got[0], "os.Root.Stat", got[2], 0)
}

func (b *bench) write(t *benchTable) {
	b.check(os.Mkdir("ours", 0o777))
	b.check(os.Mkdir("theirs", 0o777))
	files := 0
	next := func() string { files++; return fmt.Sprint(files) }
	same := func() string { return "same" }
	for _, row := range []struct {
		work string
		name func() string
	}{
		{"atomic write 4 KiB, new file", next},
		{"atomic write 4 KiB, overwrite", same},
	} {
		got := takeTurns(5*manyRounds, burst, // because the disk is uneven
			repeat(func() { _, err := b.box.Write("/ours/"+row.name(), fourKiB); b.check(err) }),
			repeat(func() { b.check(handWritten("theirs/"+row.name(), fourKiB)) }),
		)
		t.against(row.work, got[0], "os.CreateTemp, os.Rename", got[1], 1.05)
	}
}

// handWritten is how a Go program writes a file in one step.
func handWritten(name string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".tmp-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

func (b *bench) list(t *benchTable, n int) {
	name := fmt.Sprintf("list/%d", n)
	got := takeTurns(fewRounds, burst,
		b.listing(name),
		repeat(func() { _, err := os.ReadDir(name); b.check(err) }),
	)
	t.against("list "+thousands(n)+" entries", got[0], "os.ReadDir", got[1], 0)
}

func (b *bench) listing(name string) func(int) {
	return repeat(func() { _, err := b.box.List("/" + name); b.check(err) })
}

func (b *bench) access(t *benchTable) {
	name := "/" + atDepth(4)
	for _, query := range []struct {
		work string
		ask  func()
	}{
		{"access query: Access", func() { b.box.Access(name) }},
		{"access query: CanRead", func() { b.box.CanRead(name) }},
		{"access query: CanWrite", func() { b.box.CanWrite(name) }},
	} {
		took := takeTurns(manyRounds, burst, repeat(query.ask))[0].median()
		t.row(query.work, duration(took), "", "", "1 µs", t.judge(took <= 1e-6))
		allocs := testing.AllocsPerRun(1000, query.ask)
		t.row(query.work, fmt.Sprint(allocs, " allocations"), "", "", "0", t.judge(allocs == 0))
	}
}

func (b *bench) growths() {
	t := newBenchTable(column{"work", 16}, column{"at", 34}, column{"time", 57},
		column{"size ×", 6}, column{"time ×", 7})
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
		sides = append(sides, b.reading(b.box, "/"+atDepth(depth)))
	}
	t.growth("read 4 KiB", depths, "parts deep", takeTurns(manyRounds, burst, sides...))
}

func (b *bench) growWithMounts(t *benchTable) {
	counts := []int{1, 10, 100, 1000}
	var c sandbox.Config
	var reads, queries, restricts, news []func(int)
	for _, n := range counts {
		for i := len(c.Mounts); i < n; i++ {
			source := filepath.Join(b.top, "mounts", fmt.Sprint(i))
			b.check(os.MkdirAll(source, 0o777))
			c.Mounts = append(c.Mounts, sandbox.Mount{
				Target: fmt.Sprintf("/m%d", i), Source: sandbox.Host(source), Access: sandbox.ReadWrite})
		}
		few := sandbox.Config{Mounts: c.Mounts}
		box, err := sandbox.New(few)
		b.check(err)
		reads = append(reads, b.reading(box, "/m0/f"))
		queries = append(queries, repeat(func() { box.Access("/m0/f") }))
		restricts = append(restricts, repeat(func() {
			_, err := box.Restrict(sandbox.Limit{Path: "/m0", Access: sandbox.ReadOnly})
			b.check(err)
		}))
		news = append(news, repeat(func() { _, err := sandbox.New(few); b.check(err) }))
	}
	b.check(os.WriteFile("mounts/0/f", fourKiB, 0o666))
	t.growth("read 4 KiB", counts, "mounts", takeTurns(manyRounds, burst, reads...))
	t.growth("access query", counts, "mounts", takeTurns(manyRounds, burst, queries...))
	t.growth("Restrict", counts, "mounts", takeTurns(fewRounds, burst, restricts...))
	t.growth("New", counts[:3], "mounts", takeTurns(fewRounds, burst, news[:3]...))
}

func (b *bench) growWithLayers(t *benchTable) {
	lengths := []int{0, 1, 5, 20}
	var sides []func(int)
	for _, n := range lengths {
		box := b.box
		for i := range n {
			lesser, err := box.Restrict(
				sandbox.Limit{Path: "/d", Access: sandbox.ReadWrite},
				sandbox.Limit{Path: fmt.Sprintf("/d/%d", i), Access: sandbox.ReadOnly})
			b.check(err)
			box = lesser
		}
		sides = append(sides, repeat(func() { box.Access("/d/d/f") }))
	}
	t.growth("access query", lengths, "times restricted", takeTurns(manyRounds, burst, sides...))
}

func (b *bench) growWithEntries(t *benchTable) {
	counts := []int{10, 1000, 100_000}
	var sides []func(int)
	for _, n := range counts {
		sides = append(sides, b.listing(fmt.Sprintf("list/%d", n)))
	}
	got := takeTurns(fewRounds, burst, sides...)
	for i, n := range counts {
		for round := range got[i] {
			got[i][round] /= float64(n)
		}
	}
	t.growth("list, an entry", counts, "entries", got)
}

func (b *bench) growWithFiles(t *benchTable) {
	find := func(name string) func(int) {
		return repeat(func() {
			_, err := b.box.Find(context.Background(), name, "*.md", sandbox.Budget{})
			b.check(err)
		})
	}
	got := takeTurns(fewRounds, burst, find("/tree/part0"), find("/tree"))
	t.growth("find *.md", []int{treeTotal / treeTops, treeTotal}, "files", got)
}
