package state_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/golem-forge/golem/internal/records/state"
)

// BenchmarkAppend measures appending a record.
func BenchmarkAppend(b *testing.B) {
	for name, sync := range map[string]bool{"nosync": false, "sync": true} {
		b.Run(name, func(b *testing.B) {
			l := openLog(b, openDir(b, filepath.Join(b.TempDir(), "state")), 0)
			batch, mark := [][]byte{bytes.Repeat([]byte("x"), 400)}, make([]byte, 64)
			next := func(state.Tail) ([][]byte, []byte, error) { return batch, mark, nil }
			b.ReportAllocs()
			for b.Loop() {
				if err := l.Append(sync, next); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRead measures reading a log.
func BenchmarkRead(b *testing.B) {
	const records = 1_000_000
	l := openLog(b, openDir(b, filepath.Join(b.TempDir(), "state")), 0)
	batch := make([][]byte, 10_000)
	for i := range batch {
		batch[i] = bytes.Repeat([]byte("x"), 400)
	}
	for range records / len(batch) {
		err := l.Append(false, func(state.Tail) ([][]byte, []byte, error) { return batch, nil, nil })
		if err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		n := 0
		err := l.Read(1, func(uint64, []byte) error { n++; return nil })
		if n != records || err != nil {
			b.Fatalf("read %d records, %v, want %d", n, err, records)
		}
	}
	b.ReportMetric(records*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
