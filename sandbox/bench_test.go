package sandbox_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/golem-forge/golem/internal/checks/benchtable"
	"github.com/golem-forge/golem/sandbox"
)

// BenchmarkTable prints two tables. One compares each figure with that of a peer,
// measured in turns in the same run. The other shows how the figures grow. `make bench`
// runs it, and docs/benchmarks.md explains it. A missed target is shown and fails
// nothing, because the machine may be busy.
func BenchmarkTable(b *testing.B) {
	for _, program := range []string{"find", "grep", "rg"} {
		if _, err := exec.LookPath(program); err != nil {
			b.Skipf("%s is missing; make bench installs it", program)
		}
	}
	top := b.TempDir()
	for _, n := range []int{10, 1000, 100_000} {
		makeDir(b, filepath.Join(top, "list", fmt.Sprint(n)), n)
	}
	makeChain(b, top, 32)
	makeTree(b, filepath.Join(top, "tree"))
	b.Chdir(top) // so that the peers' names are as short as ours
	bench := &bench{b, top, benchBox(b, top)}
	bench.peers()
	bench.growths()
	b.SkipNow() // the tables are the result, not the time
}

// bench is shared by the rows. It has a directory for the peers, and a sandbox with that
// directory at /.
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

// check ends the run if the work failed.
func (b *bench) check(err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}

func (b *bench) peers() {
	t := benchtable.Peers(os.Stdout)
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
	fmt.Printf("\ntargets met: %d of %d\n", t.Met, t.Met+t.Missed)
}

func (b *bench) read(t *benchtable.Table, depth int) {
	root, err := os.OpenRoot(b.top)
	b.check(err)
	defer root.Close()
	name := atDepth(depth)
	got := benchtable.Turns(benchtable.ManyRounds, benchtable.Burst,
		b.reading(b.box, "/"+name),
		benchtable.Repeat(func() { _, err := os.ReadFile(name); b.check(err) }),
		benchtable.Repeat(func() { _, err := root.ReadFile(name); b.check(err) }),
	)
	work := fmt.Sprintf("read 4 KiB, depth %d", depth)
	t.Against(work, got[0], "os.ReadFile", got[1], 0.9)
	t.Against(work, got[0], "os.Root.ReadFile", got[2], 0)
}

func (b *bench) reading(box *sandbox.Sandbox, name string) func(int) {
	return benchtable.Repeat(func() { _, err := box.Read(name); b.check(err) })
}

func (b *bench) stat(t *benchtable.Table, depth int) {
	root, err := os.OpenRoot(b.top)
	b.check(err)
	defer root.Close()
	name := atDepth(depth)
	ours := "/" + name
	got := benchtable.Turns(benchtable.ManyRounds, benchtable.Burst,
		benchtable.Repeat(func() { _, err := b.box.Stat(ours); b.check(err) }),
		benchtable.Repeat(func() { _, err := os.Stat(name); b.check(err) }),
		benchtable.Repeat(func() { _, err := root.Stat(name); b.check(err) }),
	)
	work := fmt.Sprintf("stat, depth %d", depth)
	t.Against(work, got[0], "os.Stat", got[1], 0)
	t.Against(work, got[0], "os.Root.Stat", got[2], 0)
}

func (b *bench) write(t *benchtable.Table) {
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
		got := benchtable.Turns(5*benchtable.ManyRounds, benchtable.Burst, // because the disk is uneven
			benchtable.Repeat(func() { _, err := b.box.Write("/ours/"+row.name(), fourKiB); b.check(err) }),
			benchtable.Repeat(func() { b.check(handWritten("theirs/"+row.name(), fourKiB)) }),
		)
		t.Against(row.work, got[0], "os.CreateTemp, os.Rename", got[1], 1.05)
	}
}

// handWritten replaces a file as a simple Go program does, with a temporary file and a
// rename.
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

func (b *bench) list(t *benchtable.Table, n int) {
	name := fmt.Sprintf("list/%d", n)
	got := benchtable.Turns(benchtable.FewRounds, benchtable.Burst,
		b.listing(name),
		benchtable.Repeat(func() { _, err := os.ReadDir(name); b.check(err) }),
	)
	t.Against("list "+benchtable.Thousands(n)+" entries", got[0], "os.ReadDir", got[1], 0)
}

func (b *bench) listing(name string) func(int) {
	return benchtable.Repeat(func() { _, err := b.box.List("/" + name); b.check(err) })
}

func (b *bench) access(t *benchtable.Table) {
	name := "/" + atDepth(4)
	for _, query := range []struct {
		work string
		ask  func()
	}{
		{"access query: Access", func() { b.box.Access(name) }},
		{"access query: CanRead", func() { b.box.CanRead(name) }},
		{"access query: CanWrite", func() { b.box.CanWrite(name) }},
	} {
		took := benchtable.Turns(benchtable.ManyRounds, benchtable.Burst, benchtable.Repeat(query.ask))[0].Median()
		t.Row(query.work, benchtable.Duration(took), "", "", "1 µs", t.Judge(took <= 1e-6))
		allocs := testing.AllocsPerRun(1000, query.ask)
		t.Row(query.work, fmt.Sprint(allocs, " allocations"), "", "", "0", t.Judge(allocs == 0))
	}
}

func (b *bench) growths() {
	t := benchtable.Growths(os.Stdout)
	b.growWithDepth(t)
	b.growWithMounts(t)
	b.growWithLayers(t)
	b.growWithEntries(t)
	b.growWithFiles(t)
}

func (b *bench) growWithDepth(t *benchtable.Table) {
	depths := []int{1, 2, 4, 8, 16, 32}
	var sides []func(int)
	for _, depth := range depths {
		sides = append(sides, b.reading(b.box, "/"+atDepth(depth)))
	}
	t.Growth("read 4 KiB", depths, "parts deep", benchtable.Turns(benchtable.ManyRounds, benchtable.Burst, sides...))
}

func (b *bench) growWithMounts(t *benchtable.Table) {
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
		queries = append(queries, benchtable.Repeat(func() { box.Access("/m0/f") }))
		restricts = append(restricts, benchtable.Repeat(func() {
			_, err := box.Restrict(sandbox.Limit{Path: "/m0", Access: sandbox.ReadOnly})
			b.check(err)
		}))
		news = append(news, benchtable.Repeat(func() { _, err := sandbox.New(few); b.check(err) }))
	}
	b.check(os.WriteFile("mounts/0/f", fourKiB, 0o666))
	t.Growth("read 4 KiB", counts, "mounts", benchtable.Turns(benchtable.ManyRounds, benchtable.Burst, reads...))
	t.Growth("access query", counts, "mounts", benchtable.Turns(benchtable.ManyRounds, benchtable.Burst, queries...))
	t.Growth("Restrict", counts, "mounts", benchtable.Turns(benchtable.FewRounds, benchtable.Burst, restricts...))
	t.Growth("New", counts[:3], "mounts", benchtable.Turns(benchtable.FewRounds, benchtable.Burst, news[:3]...))
}

func (b *bench) growWithLayers(t *benchtable.Table) {
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
		sides = append(sides, benchtable.Repeat(func() { box.Access("/d/d/f") }))
	}
	t.Growth("access query", lengths, "times restricted", benchtable.Turns(benchtable.ManyRounds, benchtable.Burst, sides...))
}

func (b *bench) growWithEntries(t *benchtable.Table) {
	counts := []int{10, 1000, 100_000}
	var sides []func(int)
	for _, n := range counts {
		sides = append(sides, b.listing(fmt.Sprintf("list/%d", n)))
	}
	got := benchtable.Turns(benchtable.FewRounds, benchtable.Burst, sides...)
	for i, n := range counts {
		for round := range got[i] {
			got[i][round] /= float64(n)
		}
	}
	t.Growth("list, an entry", counts, "entries", got)
}

func (b *bench) growWithFiles(t *benchtable.Table) {
	find := func(name string) func(int) {
		return benchtable.Repeat(func() {
			_, err := b.box.Find(context.Background(), name, "*.md", sandbox.Budget{})
			b.check(err)
		})
	}
	got := benchtable.Turns(benchtable.FewRounds, benchtable.Burst, find("/tree/part0"), find("/tree"))
	t.Growth("find *.md", []int{treeTotal / treeTops, treeTotal}, "files", got)
}
