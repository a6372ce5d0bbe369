package audit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/records/state"
)

// shareWork divides the work of a benchmark among callers.
func shareWork(b *testing.B, callers int, write func(i int) error) {
	b.ResetTimer()
	var group sync.WaitGroup
	for c := range callers {
		group.Go(func() {
			for i := c; i < b.N; i += callers {
				if err := write(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	b.StopTimer()
}

// BenchmarkWrite writes durable records. For comparison it writes the same records with
// one write and one sync each, without chain or seal.
func BenchmarkWrite(b *testing.B) {
	for _, callers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("journal/%d", callers), func(b *testing.B) {
			j := openJournal(b, b.TempDir(), audit.Options{})
			shareWork(b, callers, func(i int) error { return j.Write(newIntent("c"), audit.Durable) })
		})
		b.Run(fmt.Sprintf("one sync each/%d", callers), func(b *testing.B) {
			file, err := os.OpenFile(filepath.Join(b.TempDir(), "log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
			ok(b, err)
			defer file.Close()
			shareWork(b, callers, func(i int) error {
				line, err := json.Marshal(newIntent("c"))
				if err == nil {
					_, err = file.Write(append(line, '\n'))
				}
				if err == nil {
					err = file.Sync()
				}
				return err
			})
		})
	}
}

// BenchmarkQueued measures a record that no caller waits for.
func BenchmarkQueued(b *testing.B) {
	j := openJournal(b, b.TempDir(), audit.Options{Secrets: []string{"correct horse", "battery staple"}})
	b.ReportAllocs()
	shareWork(b, 1, func(i int) error { return j.Write(newIntent("c"), audit.Queued) })
}

// writeMillion returns the directory of a journal with a million records.
func writeMillion(b *testing.B) *state.Dir {
	dir := b.TempDir()
	j := openJournal(b, dir, audit.Options{Session: "s"})
	for i := range 500_000 {
		call := fmt.Sprint("call", i)
		ok(b, j.Write(newIntent(call), audit.Queued))
		ok(b, j.Write(newOutcome(call), audit.Queued))
	}
	ok(b, j.Close())
	return openState(b, dir)
}

// BenchmarkLast finds the last records of a million: any records, those of a kind, and
// those that do not exist.
func BenchmarkLast(b *testing.B) {
	folder := writeMillion(b)
	for name, f := range map[string]audit.Filter{
		"any": {}, "kind": {Kind: "intent"}, "none": {Tool: "none"}, "since": {Since: clock().Add(1)},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				ok(b, audit.Last(folder, f, 20, func(audit.Record, []byte) error { return nil }))
			}
		})
	}
}

// BenchmarkVerify checks a million records.
func BenchmarkVerify(b *testing.B) {
	const n = 1_000_000
	f := writeMillion(b)
	for b.Loop() {
		r, err := audit.Verify(context.Background(), f, nil)
		if err != nil || r.Bad != nil || r.Records != n {
			b.Fatalf("got %+v, %v", r, err)
		}
	}
	b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
