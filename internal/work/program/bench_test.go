package program_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/checks/benchtable"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/starter"
)

// BenchmarkTable prints the costs of the gate: to decide a call, to read a file through
// the gate, to write the journal and to verify it. `make bench` runs it.
func BenchmarkTable(b *testing.B) {
	t := benchtable.Peers(os.Stdout)
	bench := &bench{b}
	bench.gate(t)
	for _, callers := range []int{1, 8, 64} {
		bench.appends(t, callers)
	}
	bench.verify(t)
	fmt.Printf("\ntargets met: %d of %d\n", t.Met, t.Met+t.Missed)
	b.SkipNow() // the table is the result
}

type bench struct{ *testing.B }

func (b *bench) check(err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}

// load returns a program as golem init makes it, with a file of 4 KiB.
func (b *bench) load() *program.Program {
	dir := filepath.Join(b.TempDir(), "notes")
	_, _, err := starter.Make(dir, starter.Options{})
	b.check(err)
	b.check(os.WriteFile(filepath.Join(dir, "in", "f.txt"), lines(4096), 0o666))
	p, err := program.Load(program.Options{Dir: dir, State: b.TempDir(), Now: time.Now})
	b.check(err)
	b.check(p.Trust())
	return p
}

// openGate opens the gate of such a program.
func (b *bench) openGate() *program.OpenWorker {
	gate, err := b.load().OpenWorker(program.WorkerOptions{})
	b.check(err)
	b.Cleanup(func() { b.check(gate.Close()) })
	return gate
}

// BenchmarkOpenGate opens a gate with all tools, and one for golem apply.
func BenchmarkOpenGate(tb *testing.B) {
	for name, v := range map[string]program.WorkerOptions{"all": {}, "apply": {SingleCall: true, Tools: []string{"apply_changes"}}} {
		tb.Run(name, func(tb *testing.B) {
			b := &bench{tb}
			p := b.load()
			tb.ReportAllocs()
			for tb.Loop() {
				gate, err := p.OpenWorker(v)
				b.check(err)
				tb.StopTimer()
				b.check(gate.Close())
				tb.StartTimer()
			}
		})
	}
}

// readFile reads the file of openGate with the tool.
func (b *bench) readFile(gate *program.OpenWorker) {
	if r := gate.Do(context.Background(), policy.Model, tool.Call{Tool: "read_file", Args: []byte(`{"path":"/in/f.txt"}`)}); !r.OK() {
		b.Fatal(r.Err)
	}
}

// BenchmarkReadFile is the row of a journaled read, to profile it.
func BenchmarkReadFile(tb *testing.B) {
	b := &bench{tb}
	gate := b.openGate()
	tb.ReportAllocs()
	for tb.Loop() {
		b.readFile(gate)
	}
}

// gate measures a decision and a read.
func (b *bench) gate(t *benchtable.Table) {
	gate := b.openGate()
	effect := policy.Effect{Verb: policy.Read, Target: "/in/f.txt"}
	decide := func() { gate.Grant.Decide(effect) }
	took := benchtable.Turns(benchtable.ManyRounds, benchtable.Burst, benchtable.Repeat(decide))[0].Median()
	t.Row("decide a call", benchtable.Duration(took), "", "", "1 µs", t.Judge(took <= 1e-6))
	allocs := testing.AllocsPerRun(1000, decide)
	t.Row("decide a call", fmt.Sprint(allocs, " allocations"), "", "", "0", t.Judge(allocs == 0))

	got := benchtable.Turns(benchtable.ManyRounds, benchtable.Burst,
		benchtable.Repeat(func() { b.readFile(gate) }),
		benchtable.Repeat(func() { _, err := gate.Files.Read("/in/f.txt"); b.check(err) }),
	)
	const most = 60e-6
	t.Row("read_file of 4 KiB, journaled", benchtable.Duration(got[0].Median()), benchtable.Duration(got[1].Median())+" Sandbox.Read alone",
		fmt.Sprintf("%.2f×", got[0].Over(got[1])), benchtable.Duration(most), t.Judge(got[0].Median() <= most))
}

// lines returns a text of a size.
func lines(size int) []byte {
	var text []byte
	for len(text) < size {
		text = fmt.Appendf(text, "line %d of a text that is read\n", len(text))
	}
	return text[:size]
}

func record() audit.Record {
	return audit.Record{Kind: audit.Intent, Call: "5f0c2d9e8a7b6c41", Origin: "model", Workers: []string{"main", "summarise"}, Tool: "write_file",
		Args: map[string]any{"path": "/out/summary.md", "content": "1832 bytes"}, Effects: []string{"write /out/summary.md"},
		Decision: "yes", By: "user", Digest: "18b1ce9e4e824fde6c0706c419112965bf89726fdb5abbda1c3f6ee3d7636ea5"}
}

// appends writes durable records from several callers at once. For comparison it writes
// the same records as plain lines with a sync each.
func (b *bench) appends(t *benchtable.Table, callers int) {
	folder, err := state.Open(b.TempDir())
	b.check(err)
	defer folder.Close()
	j, err := audit.Open(folder, audit.Options{Now: time.Now})
	b.check(err)
	defer j.Close()
	file, err := os.OpenFile(filepath.Join(b.TempDir(), "log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	b.check(err)
	defer file.Close()
	plain := func() error {
		line, err := json.Marshal(record())
		if err == nil {
			_, err = file.Write(append(line, '\n'))
		}
		if err == nil {
			err = file.Sync()
		}
		return err
	}
	got := benchtable.Turns(51, 100*time.Millisecond,
		b.shared(callers, func() error { return j.Write(record(), audit.Durable) }),
		b.shared(callers, plain),
	)
	t.Against(fmt.Sprintf("journal append, %d callers", callers), got[0], "a line and a sync each", got[1], 0)
	t.Row(fmt.Sprintf("journal append, %d callers", callers), benchtable.Thousands(int(1/got[0].Median()))+"/s", benchtable.Thousands(int(1/got[1].Median()))+"/s", "", "", "")
}

// shared divides work among callers.
func (b *bench) shared(callers int, work func() error) func(int) {
	return func(times int) {
		var group sync.WaitGroup
		for c := range callers {
			group.Go(func() {
				for i := c; i < times; i += callers {
					if err := work(); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		group.Wait()
	}
}

// verify compares the time to verify a million records with the time to hash their bytes.
func (b *bench) verify(t *benchtable.Table) {
	const n = 1_000_000
	dir := b.TempDir()
	folder, err := state.Open(dir)
	b.check(err)
	defer folder.Close()
	j, err := audit.Open(folder, audit.Options{Now: time.Now})
	b.check(err)
	for range n {
		b.check(j.Write(record(), audit.Queued))
	}
	b.check(j.Close())
	got := benchtable.Turns(5, benchtable.Once,
		benchtable.Repeat(func() {
			r, err := audit.Verify(context.Background(), folder, nil)
			if err != nil || r.Bad != nil || r.Records != n {
				b.Fatalf("got %+v, %v", r.Bad, err)
			}
		}),
		benchtable.Repeat(func() { b.check(hashAll(dir)) }),
	)
	t.Against("verify 1,000,000 records", got[0], "sha256 of the same files", got[1], 0)
}

// hashAll hashes the files of the journal, the minimum work to check the same bytes.
func hashAll(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "journal*.jsonl"))
	if err != nil || len(names) == 0 {
		return fmt.Errorf("no journal: %w", err)
	}
	h := sha256.New()
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		_, err = io.Copy(h, f)
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
