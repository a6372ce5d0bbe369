package state_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/records/state"
)

const syncedVariable = "STATE_TEST_SYNCED"

// steps are calls with the files that must be on disk when they return. A * stands for
// one file.
var steps = []struct {
	name  string
	do    func(t *testing.T, f *state.Dir)
	files []string
}{
	{"a new document", func(t *testing.T, f *state.Dir) { putContent(t, f, "one") }, nil},
	{"a document replaced", func(t *testing.T, f *state.Dir) { putContent(t, f, "two") }, nil},
	{"a first record", func(t *testing.T, f *state.Dir) { appendN(t, f, 1) }, []string{"log.jsonl"}},
	{"many records", func(t *testing.T, f *state.Dir) { appendN(t, f, 40) }, []string{"log.jsonl"}},
	{"a blob", func(t *testing.T, f *state.Dir) {
		b, err := f.Blobs("b")
		if err == nil {
			_, err = b.Put(strings.NewReader("content"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}, nil},
	{"a decision", func(t *testing.T, f *state.Dir) {
		o, err := f.Once("o")
		if err == nil {
			_, _, err = o.Decide("key", []byte("value"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}, nil},
}

func putContent(t *testing.T, f *state.Dir, text string) {
	t.Helper()
	if err := f.Update("doc", func([]byte) ([]byte, error) { return []byte(text), nil }); err != nil {
		t.Fatal(err)
	}
}

// appendN appends records to a log with small segments. Only the last append waits for
// the disk.
func appendN(t *testing.T, f *state.Dir, n int) {
	t.Helper()
	l, err := f.Log("log", 1000)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for i := range n {
		err := l.Append(i == n-1, func(state.Tail) ([][]byte, []byte, error) {
			return [][]byte{[]byte(strings.Repeat("x", 100))}, []byte("mark"), nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestSteps is the traced process of the test below. It writes to a marker after each
// step.
func TestSteps(t *testing.T) {
	dir := os.Getenv(syncedVariable)
	if dir == "" {
		return
	}
	f := openDir(t, filepath.Join(dir, "state"))
	for i, s := range steps {
		s.do(t, f)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("marker-", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStateIsSynced checks that everything that a directory reports as kept is on
// disk. Content is synced before its name, the directory after it, and records before
// Append returns.
func TestStateIsSynced(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestSteps$")
	cmd.Env = append(os.Environ(), syncedVariable+"="+dir)
	calls := testutil.Trace(t, cmd)
	kept, at := filepath.Join(dir, "state"), 0
	for i, s := range steps {
		end := at
		for end < len(calls) && calls[end].Path != filepath.Join(dir, fmt.Sprint("marker-", i)) {
			end++
		}
		if end == len(calls) {
			t.Fatalf("%s: the step is not in the trace", s.name)
		}
		step := calls[at:end]
		at = end + 1
		if list := testutil.Unsynced(step, kept); len(list) > 0 {
			t.Errorf("%s: %s", s.name, strings.Join(list, "\n"))
		}
		wrote := false
		for _, c := range step {
			wrote = wrote || c.Op == testutil.Write && strings.HasPrefix(c.Path, kept+"/")
		}
		if !wrote {
			t.Errorf("%s: the process wrote nothing", s.name)
		}
		for _, name := range s.files {
			path := filepath.Join(kept, name)
			if !testutil.Wrote(step, path) || testutil.Dirty(step, path) {
				t.Errorf("%s: %s is not synced", s.name, name)
			}
		}
	}
	// Older segments were complete before they were renamed.
	old, _ := filepath.Glob(filepath.Join(kept, "log-*.jsonl"))
	if len(old) == 0 {
		t.Error("there is no older segment")
	}
}
