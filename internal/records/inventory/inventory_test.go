package inventory_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/records/inventory"
	"github.com/golem-forge/golem/internal/records/state"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// openState makes the state directory of a program in base.
func openState(t *testing.T, base, name string) (dir *state.Dir, path string) {
	t.Helper()
	path = filepath.Join(base, name)
	dir, err := state.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	return dir, path
}

// TestNames checks that the name of a state directory is unique, and that the name of the
// program can be read from it.
func TestNames(t *testing.T) {
	names := map[string]string{}
	for _, root := range []string{"/a/shop", "/b/shop", "/a/shop-2", "/a/my-shop"} {
		name := inventory.StateName(root)
		if other := names[name]; other != "" {
			t.Errorf("%s and %s have the same name %s", root, other, name)
		}
		names[name] = root
		for _, dir := range []string{name, name + inventory.BareSuffix} {
			if got := inventory.NameOf("/state/" + dir); got != filepath.Base(root) {
				t.Errorf("%s: got the program %q, want %q", dir, got, filepath.Base(root))
			}
		}
	}
}

// TestVersions checks that golem reads state of its own and of older versions, and refuses
// that of newer ones.
func TestVersions(t *testing.T) {
	for name, test := range map[string]struct{ description, want string }{
		"none":       {"", ""},
		"unnumbered": {`{"version":0}`, ""},
		"older":      {`{"version":1,"directory":"/p"}`, ""},
		"current":    {`{"version":2,"directory":"/p"}`, ""},
		"newer":      {`{"version":3,"directory":"/p"}`, "a newer golem wrote it"},
		"damaged":    {`{"version`, "is damaged; move this file away"},
	} {
		dir, path := openState(t, t.TempDir(), "p-0")
		if test.description != "" {
			if err := dir.Update("state.json", func([]byte) ([]byte, error) { return []byte(test.description), nil }); err != nil {
				t.Fatal(err)
			}
		}
		err := inventory.Check(path)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
		if test.want != "" {
			continue
		}
		if err := inventory.Describe(dir, path, "/p"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if data, err := os.ReadFile(filepath.Join(path, "state.json")); err != nil || string(data) != `{"version":2,"directory":"/p"}` {
			t.Errorf("%s: the description is %s, %v", name, data, err)
		}
	}
}

// TestOlderChanges checks that golem refuses the changes of an older version, and that the
// state can be used after the command that the error names.
func TestOlderChanges(t *testing.T) {
	for _, name := range []string{"sessions/a", "layers/applied", "undo/1"} {
		dir, path := openState(t, t.TempDir(), "p-0")
		err := dir.Update("state.json", func([]byte) ([]byte, error) { return []byte(`{"version":1,"directory":"/p"}`), nil })
		if err := errors.Join(err, os.MkdirAll(filepath.Join(path, name), 0o700)); err != nil {
			t.Fatal(err)
		}
		err = inventory.Check(path)
		if err == nil {
			t.Fatalf("%s: golem reads changes of version 1", name)
		}
		text, command, found := strings.Cut(err.Error(), "; apply or discard them with that golem, then type rm -r ")
		if want := filepath.Join(path, filepath.Dir(name)); !found || command != want || !strings.Contains(text, "an older golem wrote its changes") {
			t.Errorf("%s: got %v", name, err)
		}
		if err := errors.Join(os.RemoveAll(command), inventory.Check(path)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPrograms checks which directories golem finds in the state of all programs.
func TestPrograms(t *testing.T) {
	base := t.TempDir()
	if list, err := inventory.Programs(filepath.Join(base, "missing")); err != nil || len(list) > 0 {
		t.Errorf("missing directory: got %v, %v", list, err)
	}
	known, path := openState(t, base, inventory.StateName("/p/known"))
	if err := inventory.Describe(known, path, "/p/known"); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{inventory.StateName("/p/lost") + "/sessions", inventory.DevicesName + "/sessions", "other"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(base, "usage.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := inventory.Programs(base)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, k := range list {
		got[k.Name] = string(k.Directory)
	}
	want := map[string]string{"known": "/p/known", "lost": ""}
	if len(got) != len(want) || got["known"] != want["known"] || got["lost"] != want["lost"] {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestLimit checks when golem refuses to store more, and that it uses a recent measurement.
func TestLimit(t *testing.T) {
	base := t.TempDir()
	write := func(size int) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(base, "p"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(base, "p", "file"), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(100_000)
	limit := inventory.Limit{Base: base, Bytes: 1_000_000, From: "config.yaml:3"}
	if err := limit.Check(start); err != nil {
		t.Fatal(err)
	}
	write(5_000_000)
	if err := limit.Check(start.Add(9 * time.Minute)); err != nil {
		t.Errorf("the last measurement is recent: got %v", err)
	}
	for name, at := range map[string]time.Time{"later": start.Add(11 * time.Minute), "clock set back": start.Add(-time.Hour)} {
		os.Remove(filepath.Join(base, "usage.json"))
		write(100_000)
		limit.Measure(start)
		write(5_000_000)
		if err := limit.Check(at); err == nil || !strings.Contains(err.Error(), "config.yaml:3") || !strings.Contains(err.Error(), "golem sessions rm") {
			t.Errorf("%s: got %v, want an error with the place of the limit and a command", name, err)
		}
	}
	if err := (inventory.Limit{Base: base}).Check(start.Add(time.Hour)); err != nil {
		t.Errorf("the default: got %v", err)
	}
	if u := limit.Measure(start); u.Bytes < 5_000_000 || u.Limit != 1_000_000 || u.From != "config.yaml:3" || !u.At.Equal(start) {
		t.Errorf("got %+v", u)
	}
}
