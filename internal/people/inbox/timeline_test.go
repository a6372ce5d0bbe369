package inbox

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/records/state/statetest"
	"github.com/golem-forge/golem/internal/records/storage"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/run"
)

// TestTimelines checks that golem reads only what was appended to the log of a run, and
// everything if another log is there.
func TestTimelines(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "golem-forge.config.yaml"), []byte("sandbox:\n  mounts:\n    - {source: ., target: /docs, mode: ro}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := program.Load(program.Options{Dir: dir, State: t.TempDir(), Now: time.Now, Histories: &storage.Histories{}})
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(string(p.Storage.Dir()), "sessions", "abcdef")
	var all Timelines
	check := func(what, want string) {
		t.Helper()
		one, err := p.Storage.Sessions.Find("abcdef")
		if err != nil {
			t.Fatal(err)
		}
		list, err := all.Of(ProgramSession{one, p})
		var texts []string
		for _, e := range list {
			texts = append(texts, e.Title+": "+e.Text)
		}
		if got := strings.Join(texts, ", "); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", what, got, err, want)
		}
	}
	call := `{"kind":"message","in":"run","messages":[{"role":"assistant","parts":[{"text":"one"},{"call":{"id":"c","tool":"shell","args":"{}"}}]}]}`
	statetest.AppendRun(t, at, call)
	check("at first", "writes: one, calls shell: ")
	file := filepath.Join(at, "run.jsonl")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// An entry never changes. A change of one shows whether golem reads it again.
	if err := os.WriteFile(file, bytes.Replace(data, []byte("one"), []byte("two"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	check("again", "writes: one, calls shell: ")
	statetest.AppendRun(t, at, `{"kind":"result","in":"run","call":"c","result":{"text":"done"}}`)
	check("after a result", "writes: one, calls shell: , shell: done")
	if err := os.RemoveAll(at); err != nil {
		t.Fatal(err)
	}
	statetest.AppendRun(t, at, `{"kind":"begin","in":"run","worker":"boss","model":"m"}`)
	check("another log", "boss begins, with the model m: ")
}

// TestPausedRun checks that a run that waits for an answer has not failed.
func TestPausedRun(t *testing.T) {
	for end, want := range map[run.End]Event{
		run.Paused: {Kind: EventNote, Title: "waits", Text: "a call waits for your approval"},
		run.Failed: {Kind: EventEnd, Title: "ended: failed", Text: "a call waits for your approval", Failed: true},
	} {
		got := entryEvents(run.Entry{Kind: "end", Outcome: &run.Outcome{End: end, Why: "a call waits for your approval"}}, nil)
		if len(got) != 1 || got[0] != want {
			t.Errorf("%s: got %+v, want %+v", end, got, want)
		}
	}
}
