package storage_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/records/state/statetest"
	"github.com/golem-forge/golem/internal/records/storage"
	"github.com/golem-forge/golem/internal/work/session"
)

// TestHistories checks that golem reads only what was appended to the log of a run, and
// everything if another log is there.
func TestHistories(t *testing.T) {
	t.Parallel()
	s := storage.Storage{Sessions: session.Sessions{State: t.TempDir(), Now: time.Now}, Histories: &storage.Histories{}}
	at := filepath.Join(string(s.Dir()), "sessions", "abcdef")
	check := func(what, want string) {
		t.Helper()
		one, err := s.Sessions.Find("abcdef")
		if err != nil {
			t.Fatal(err)
		}
		sum, err := s.Runs().Summary(one)
		got := fmt.Sprintf("%v %s %q %s", sum.HasRun, sum.Begin.Worker, sum.Input, sum.End)
		for _, u := range sum.Uses {
			got += fmt.Sprintf(", %s %d turns %d tokens", u.Worker, u.Turns, u.Tokens.Input)
		}
		if err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", what, got, err, want)
		}
	}
	statetest.AppendRun(t, at, `{"kind":"begin","in":"run","worker":"boss","model":"m"}`, `{"kind":"message","in":"run","messages":[{"role":"user","parts":[{"text":"Do it\nnow"}]}]}`, `{"kind":"message","in":"run","usage":{"input":1}}`)
	check("at first", `true boss "Do it …" , boss 1 turns 1 tokens`)
	file := filepath.Join(at, "run.jsonl")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// An entry never changes. A change of one shows whether golem reads it again.
	if err := os.WriteFile(file, bytes.Replace(data, []byte(`"input":1`), []byte(`"input":9`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	statetest.AppendRun(t, at, `{"kind":"message","in":"run","usage":{"input":2}}`, `{"kind":"end","in":"run","outcome":{"end":"finished"}}`)
	check("after two more", `true boss "Do it …" finished, boss 2 turns 3 tokens`)
	check("without a change", `true boss "Do it …" finished, boss 2 turns 3 tokens`)
	if err := os.RemoveAll(at); err != nil {
		t.Fatal(err)
	}
	statetest.AppendRun(t, at, `{"kind":"begin","in":"run","worker":"other","model":"m"}`)
	check("after another session took its place", `true other "" , other 0 turns 0 tokens`)
}
