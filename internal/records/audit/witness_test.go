package audit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/records/state"
)

// TestDeletedJournalAndClockSetBack checks that a journal that was deleted while the
// rest of the state stays is reported as missing, and a journal started after that as
// another one. A clock that was set back is not trusted.
func TestDeletedJournalAndClockSetBack(t *testing.T) {
	dir := t.TempDir()
	folder, err := state.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	write := func(now time.Time) {
		t.Helper()
		j, err := audit.Open(folder, audit.Options{Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Write(audit.Record{Kind: audit.Refusal, Tool: "x"}, audit.Durable); err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	seen := func(now time.Time) time.Time {
		t.Helper()
		latest, err := audit.Witness(folder, now)
		if err != nil {
			t.Fatal(err)
		}
		return latest
	}
	report := func() string {
		t.Helper()
		r, err := audit.Verify(t.Context(), folder, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Bad == nil {
			return ""
		}
		return r.Bad.What
	}
	if what := report(); what != "" {
		t.Errorf("before there is a journal: %s", what)
	}
	write(start.Add(2 * time.Hour))
	if got := seen(start); !got.Equal(start.Add(2 * time.Hour)) {
		t.Errorf("the last record is later than the clock: got %v", got)
	}
	write(start) // with the clock set back, the last record is not the latest
	if got := seen(start); !got.Equal(start.Add(2 * time.Hour)) {
		t.Errorf("a record made after the clock was set back: got %v", got)
	}
	if got, want := seen(start.Add(3*time.Hour)), start.Add(3*time.Hour); !got.Equal(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if what := report(); what != "" {
		t.Errorf("whole: %s", what)
	}
	names, err := filepath.Glob(filepath.Join(dir, "journal*"))
	if err != nil || len(names) < 3 {
		t.Fatalf("got %v, %v", names, err)
	}
	for _, name := range names {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if what := report(); !strings.Contains(what, "the journal is missing") {
		t.Errorf("deleted: got %q", what)
	}
	yield := func(audit.Record, []byte) error { return nil }
	for _, err := range []error{audit.Read(folder, audit.Filter{}, yield), audit.Last(folder, audit.Filter{}, 5, yield)} {
		if err == nil || !strings.Contains(err.Error(), "the journal is missing") {
			t.Errorf("reading a deleted journal: got %v", err)
		}
	}
	write(start.Add(4 * time.Hour))
	seen(start.Add(4 * time.Hour))
	if what := report(); !strings.Contains(what, "another journal") {
		t.Errorf("new journal: got %q", what)
	}
	if err := os.Remove(filepath.Join(dir, "clock.json")); err != nil {
		t.Fatal(err)
	}
	if what := report(); what != "" {
		t.Errorf("accepted: got %q", what)
	}
}
