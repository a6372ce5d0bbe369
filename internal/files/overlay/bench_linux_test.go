package overlay_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/checks/benchtable"
	"github.com/golem-forge/golem/internal/files/overlay"
)

// BenchmarkTable prints how long it takes to list, apply and undo some created, modified
// and deleted files, in a small and in a large tree. `make bench` runs it.
func BenchmarkTable(b *testing.B) {
	user := "user"
	if os.Geteuid() == 0 {
		user = "root"
	}
	t := benchtable.Peers(os.Stdout)
	for _, tree := range []int{1_000, 100_000} {
		for _, n := range []struct {
			files int
			most  time.Duration
		}{{1, 200 * time.Microsecond}, {1_000, 15 * time.Millisecond}, {100_000, 1500 * time.Millisecond}} {
			if n.files > tree {
				continue
			}
			list, apply, undo := measure(b, tree, n.files)
			what := fmt.Sprintf(", %s of %s files changed, %s", benchtable.Thousands(n.files), benchtable.Thousands(tree), user)
			t.Row("list"+what, benchtable.Duration(list.Seconds()), "", "", "", "")
			t.Row("list and apply"+what, benchtable.Duration(apply.Seconds()), "", "", benchtable.Duration(n.most.Seconds()), t.Judge(apply <= n.most))
			t.Row("undo"+what, benchtable.Duration(undo.Seconds()), "", "", "", "")
		}
	}
	fmt.Printf("\ntargets met: %d of %d\n", t.Met, t.Met+t.Missed)
	b.SkipNow() // the table is the result
}

// measure returns the medians of several rounds.
func measure(b *testing.B, tree, files int) (list, apply, undo time.Duration) {
	dir := b.TempDir()
	l := overlay.Overlay{Dir: dir + "/real", Store: dir + "/store"}
	must := func(err error) {
		if err != nil {
			b.Helper()
			b.Fatal(err)
		}
	}
	must(os.Mkdir(l.Dir, 0o755))
	name := func(i int) string { return fmt.Sprintf("d%d/f%d", i/1000, i) }
	for i := range tree {
		if i%1000 == 0 {
			must(os.Mkdir(fmt.Sprintf("%s/d%d", l.Dir, i/1000), 0o755))
		}
		must(os.WriteFile(l.Dir+"/"+name(i), []byte(strings.Repeat("x", 64)), 0o644))
	}
	must(os.Mkdir(dir+"/merged", 0o755))
	rounds := max(1, min(15, 15_000/files))
	var lists, applies, undos []time.Duration
	for range rounds {
		must(l.Init())
		must(unix.Mount("golem", dir+"/merged", "overlay", 0, "lowerdir="+l.Dir+",upperdir="+l.UpperDir()+",workdir="+l.WorkDir()+",userxattr,volatile"))
		for i := range files {
			at := dir + "/merged/" + name(i*(tree/files))
			switch i % 3 {
			case 0:
				must(os.WriteFile(at, []byte("changed"), 0o644))
			case 1:
				must(os.Remove(at))
			case 2:
				must(os.WriteFile(at+".new", []byte("new"), 0o644))
			}
		}
		must(unix.Unmount(dir+"/merged", 0))
		began := time.Now()
		changes, err := l.Changes()
		must(err)
		listed := time.Now()
		must(applyChanges(l, changes, nil))
		applied := time.Now()
		must(undoChanges(l))
		lists, applies, undos = append(lists, listed.Sub(began)), append(applies, applied.Sub(began)), append(undos, time.Since(applied))
		if len(changes) != files {
			b.Fatalf("%d changes, want %d", len(changes), files)
		}
		must(l.Remove())
	}
	return median(lists), median(applies), median(undos)
}

func median(list []time.Duration) time.Duration {
	for i := range list {
		for j := i; j > 0 && list[j] < list[j-1]; j-- {
			list[j], list[j-1] = list[j-1], list[j]
		}
	}
	return list[len(list)/2]
}

// BenchmarkSession prints the processor time that each step takes to apply 20,000 new
// files of a session.
func BenchmarkSession(b *testing.B) {
	const dirs, files = 20, 1000
	must := func(err error) {
		if err != nil {
			b.Helper()
			b.Fatal(err)
		}
	}
	for range b.N {
		root := b.TempDir()
		session := overlay.Overlay{Dir: root + "/real", Store: root + "/session"}
		transaction := overlay.Overlay{Dir: session.Dir, Store: root + "/transaction"}
		must(os.Mkdir(session.Dir, 0o755))
		must(session.InitSession())
		for i := range dirs {
			dir := fmt.Sprintf("%s/d%d", session.UpperDir(), i)
			must(os.Mkdir(dir, 0o755))
			for k := range files {
				must(os.WriteFile(fmt.Sprintf("%s/f%d", dir, k), fmt.Appendln(nil, "file", i, k), 0o644))
			}
		}
		step := func(name string, do func() error) {
			before := processorTime()
			must(do())
			b.ReportMetric((processorTime()-before).Seconds()*1e6/(dirs*files), name+"-µs/file")
		}
		var changes []overlay.PathChange
		step("usage", func() error { _, _, err := session.Usage(); return err })
		step("record", func() error { return session.RecordBases(true) })
		step("list", func() (err error) { changes, err = session.SessionChanges(); return err })
		var picks []overlay.Pick
		for _, c := range changes {
			if c.NewDir == "" {
				picks = append(picks, overlay.Pick{Path: c.Path})
			}
		}
		must(transaction.Init())
		step("pick", func() (err error) { changes, err = session.Pick(transaction, picks); return err })
		step("prepare", func() error { return transaction.PrepareApply(changes, nil) })
		step("finish", transaction.FinishApply)
		step("mark", func() error { return session.MarkApplied([]string{"."}, nil) })
		step("undo", func() error { return undoChanges(transaction) })
	}
}

// processorTime returns the time that this process used until now.
func processorTime() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
