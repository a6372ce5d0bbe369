package undo_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/files/undo"
	"github.com/golem-forge/golem/sandbox"
)

const syncedVariable = "GOLEM_TEST_UNDO_SYNCED"

// TestSaver is the process that TestSavedIsSynced traces. It saves one step more than there
// are files for steps, and writes a marker after each.
func TestSaver(t *testing.T) {
	dir := os.Getenv(syncedVariable)
	if dir == "" {
		return
	}
	files, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/m", Source: sandbox.Host(dir), Access: sandbox.ReadWrite}}})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "file"), []byte("old content"), 0o644))
	store := &undo.History{Dir: filepath.Join(dir, "undo"), Lock: func() (func() error, error) { return func() error { return nil }, nil }}
	for i := range undo.MaxSteps + 1 {
		saveStep(t, store, files, undo.Op{Verb: undo.Delete, Path: "/m/file"})
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprint("marker-", i)), nil, 0o600))
	}
}

// TestSavedIsSynced checks that the old content is on the disk when Save has ended, before the
// call may change the file: in a new file of a step, whose directory is synced too, and in one
// that is written again. Only the letter that marks the step as finished follows the sync.
func TestSavedIsSynced(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestSaver$")
	cmd.Env = append(os.Environ(), syncedVariable+"="+dir)
	calls := testutil.Trace(t, cmd)
	for i, isNew := range map[int]bool{0: true, 1: true, undo.MaxSteps: false} {
		from := 0
		if i > 0 {
			from = indexOf(t, calls, fmt.Sprint("marker-", i-1))
		}
		step := calls[from:indexOf(t, calls, fmt.Sprint("marker-", i))]
		var writes []int
		for k, c := range step {
			if c.Op == testutil.Write && strings.HasSuffix(c.Path, ".step") {
				writes = append(writes, k)
			}
		}
		if len(writes) < 2 {
			t.Fatalf("step %d: the trace has %d writes", i, len(writes))
		}
		content, letter := writes[len(writes)-2], writes[len(writes)-1]
		isSynced := func(name string) bool {
			return slices.Contains(step[content:letter], testutil.FileCall{Op: testutil.Sync, Path: name})
		}
		if !isSynced(step[content].Path) {
			t.Errorf("step %d: the content is not synced", i)
		}
		if isNew && !isSynced(filepath.Join(dir, "undo")) {
			t.Errorf("step %d: the directory of a new file is not synced", i)
		}
		if i == 0 && !slices.Contains(step, testutil.FileCall{Op: testutil.Sync, Path: dir}) {
			t.Error("the directory above the store is not synced")
		}
	}
}

// indexOf returns the first call on a file with a name.
func indexOf(t *testing.T, calls []testutil.FileCall, name string) int {
	t.Helper()
	i := slices.IndexFunc(calls, func(c testutil.FileCall) bool { return filepath.Base(c.Path) == name })
	if i < 0 {
		t.Fatalf("the trace has no %s", name)
	}
	return i
}
