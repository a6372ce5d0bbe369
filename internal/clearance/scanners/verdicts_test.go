package scanners

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/golem-forge/golem/internal/records/state"
)

// openCache opens a state directory.
func openCache(t *testing.T, dir string) *state.Dir {
	t.Helper()
	folder, err := state.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { folder.Close() })
	return folder
}

// TestVerdicts checks that verdicts stay from one process to the next, and that a
// damaged file counts as empty.
func TestVerdicts(t *testing.T) {
	dir := t.TempDir()
	folder := openCache(t, dir)
	open := func() *verdicts {
		t.Helper()
		v, err := newVerdicts(folder)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	first, second := open(), open()
	first.Put("a", []byte(`{"held":true}`))
	first.Put("b", []byte("no JSON"))
	second.Put("c", []byte(`{}`))
	first.save()
	second.save()
	third := open()
	for key, want := range map[string]string{"a": `{"held":true}`, "b": "", "c": "{}"} {
		if got, ok := third.Get(key); ok != (want != "") || string(got) != want {
			t.Errorf("%s: got %q, %v, want %q", key, got, ok, want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, verdictsName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := open().Get("a"); ok {
		t.Error("a damaged file has a verdict")
	}
}
