package durable_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/files/durable"
)

const variable = "DURABLE_TEST"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestWriters is the process that TestWritersSync traces.
func TestWriters(t *testing.T) {
	dir := os.Getenv(variable)
	if dir == "" {
		return
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"file", "alone"} { // each has its directory, so that no other writer syncs it
		must(t, os.Mkdir(at(name), 0o700))
	}
	must(t, durable.WriteFile(at("file/a"), []byte("1"), 0o644))
	must(t, durable.WriteFile(at("file/a"), []byte("2"), 0o600))
	must(t, durable.WriteAlone(at("alone/b"), []byte("1"), 0o600))
	must(t, os.WriteFile(at("c.tmp"), []byte("1"), 0o600))
	must(t, os.Mkdir(at("d"), 0o700))
	must(t, durable.Move(at("c.tmp"), at("d/c")))
	must(t, os.MkdirAll(at("new/e"), 0o700))
	must(t, os.WriteFile(at("new/e/f"), []byte("1"), 0o600))
	must(t, durable.SyncTree(at("new")))
	must(t, durable.Rename(at("new"), at("whole")))
	if os.Getenv(variable+"_BAD") != "" {
		must(t, os.WriteFile(at("x"), []byte("1"), 0o600))
		must(t, os.Rename(at("x"), at("y")))
	}
}

// TestWritersSync traces every writer. The content must be synced before the file gets
// its name, and the directory afterwards. The trace must also find a plain rename.
func TestWritersSync(t *testing.T) {
	for _, bad := range []string{"", "1"} {
		dir := t.TempDir()
		cmd := exec.Command(os.Args[0], "-test.run=^TestWriters$")
		cmd.Env = append(os.Environ(), variable+"="+dir, variable+"_BAD="+bad)
		calls := testutil.Trace(t, cmd)
		list := testutil.Unsynced(calls, dir)
		if bad == "" && len(list) > 0 {
			t.Errorf("got %s", strings.Join(list, "\n"))
		}
		if bad != "" && (len(list) != 2 || !strings.HasPrefix(list[0], dir+"/y got its name")) {
			t.Errorf("a rename without syncs: got %q", list)
		}
		moved := slices.Index(calls, testutil.FileCall{Op: testutil.Rename, Path: filepath.Join(dir, "c.tmp"), To: filepath.Join(dir, "d/c")})
		if next := calls[moved+1:]; moved < 0 || !slices.Contains(next[:2], testutil.FileCall{Op: testutil.Sync, Path: dir}) {
			t.Error("the directory of the old name was not synced after a move")
		}
		if !testutil.Wrote(calls, filepath.Join(dir, "alone/b.new")) {
			t.Error("the trace is empty")
		}
	}
}

// TestWriteFile checks the result of a write: the mode, a single file, and the old
// file after a failure.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a")
	must(t, durable.WriteFile(name, []byte("old"), 0o666))
	if is, err := os.Stat(name); err != nil || is.Mode().Perm() != 0o666 { // whatever the umask is
		t.Errorf("got %v, %v", is, err)
	}
	no := errors.New("no")
	if err := durable.Replace(name, "a.new", 0o600, func(f *os.File) error { f.WriteString("half"); return no }); !errors.Is(err, no) {
		t.Errorf("got %v", err)
	}
	must(t, os.WriteFile(filepath.Join(dir, "b.new"), []byte("left by a killed writer"), 0o600))
	must(t, durable.WriteAlone(filepath.Join(dir, "b"), []byte("b"), 0o600))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := durable.WriteFile(filepath.Join(dir, "c"), []byte("c"), 0o600); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	list, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range list {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		must(t, err)
		names = append(names, e.Name()+"="+string(data))
	}
	if got := strings.Join(names, " "); got != "a=old b=b c=c" {
		t.Errorf("got %s", got)
	}
}
