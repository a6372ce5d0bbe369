package state_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/records/state"
)

func openDir(t testing.TB, dir string) *state.Dir {
	t.Helper()
	f, err := state.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestDocuments checks reading and updating documents.
func TestDocuments(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	f := openDir(t, dir)
	if data, err := f.Read("x"); data != nil || err != nil {
		t.Errorf("a missing document: %q, %v", data, err)
	}
	for _, text := range []string{"one", "two", ""} {
		err := f.Update("x", func([]byte) ([]byte, error) { return []byte(text), nil })
		if err != nil {
			t.Fatal(err)
		}
		if data, err := openDir(t, dir).Read("x"); string(data) != text || err != nil {
			t.Errorf("read %q, %v, want %q", data, err, text)
		}
	}
	no := errors.New("no")
	if err := f.Update("x", func([]byte) ([]byte, error) { return []byte("three"), no }); err != no {
		t.Errorf("an update that fails: %v", err)
	}
	if data, _ := f.Read("x"); string(data) != "" {
		t.Errorf("an update that failed left %q", data)
	}
	for range 2 { // the second has no document to remove
		if err := f.Update("x", func([]byte) ([]byte, error) { return nil, nil }); err != nil {
			t.Errorf("an update that removes: %v", err)
		}
		if _, err := os.Lstat(filepath.Join(dir, "x")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("an update that removes left the file: %v", err)
		}
	}
}

// TestDirectoryIsPrivate checks that other users have no access to the directory.
func TestDirectoryIsPrivate(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "state")
	f := openDir(t, dir)
	if err := f.Update("x", func([]byte) ([]byte, error) { return []byte("x"), nil }); err != nil {
		t.Fatal(err)
	}
	err := filepath.Walk(dir, func(name string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is %s", name, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(top, "open")
	if err := os.Mkdir(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"open": open, "file": filepath.Join(dir, "x"), "below a file": filepath.Join(dir, "x", "y")} {
		if _, err := state.Open(path); err == nil || !strings.Contains(err.Error(), "--state") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := state.Open(filepath.Join(open, "mine")); err == nil || !strings.Contains(err.Error(), "--state") {
		t.Errorf("in a directory that everybody may change: %v", err)
	}
	link := filepath.Join(top, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if _, err := state.Open(link); err == nil {
		t.Error("a symlink was accepted as a state directory")
	}
}

// TestNoDocumentOutside checks that documents stay inside the directory, whatever their
// names and whatever symlinks are there.
func TestNoDocumentOutside(t *testing.T) {
	top := t.TempDir()
	f := openDir(t, filepath.Join(top, "state"))
	os.WriteFile(filepath.Join(top, "secret"), []byte("CANARY"), 0o600)
	os.Symlink("../secret", filepath.Join(top, "state", "link"))
	for _, name := range []string{"../secret", "link", "/etc/hostname"} {
		if data, err := f.Read(name); err == nil && data != nil {
			t.Errorf("read %s: %q", name, data)
		}
	}
}

const partVariable = "STATE_TEST_PART"

// TestPart is the other process of the tests below.
func TestPart(t *testing.T) {
	dir := os.Getenv(partVariable)
	if dir == "" {
		return
	}
	f := openDir(t, dir)
	for range 200 {
		if err := f.Update("n", countUp); err != nil {
			t.Fatal(err)
		}
	}
}

// countUp increments a number that is followed by as many bytes.
func countUp(old []byte) ([]byte, error) {
	n := 0
	if old != nil {
		var err error
		if n, err = readNumber(old); err != nil {
			return nil, err
		}
	}
	return fmt.Appendf(nil, "%d\n%s", n+1, bytes.Repeat([]byte("x"), n+1)), nil
}

func readNumber(data []byte) (int, error) {
	line, rest, _ := strings.Cut(string(data), "\n")
	n, err := strconv.Atoi(line)
	if err == nil && len(rest) != n {
		err = fmt.Errorf("torn: %d bytes after %d", len(rest), n)
	}
	return n, err
}

func startPart(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestPart$")
	cmd.Env = append(os.Environ(), partVariable+"="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// TestProcessesLoseNoUpdate checks that concurrent processes lose no update of a document.
func TestProcessesLoseNoUpdate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	openDir(t, dir)
	parts := []*exec.Cmd{startPart(t, dir), startPart(t, dir), startPart(t, dir)}
	for _, p := range parts {
		if err := p.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	data, _ := openDir(t, dir).Read("n")
	if n, err := readNumber(data); n != 600 || err != nil {
		t.Errorf("counted %d, %v, want 600", n, err)
	}
}

// TestKillTearsNothing checks that a kill leaves a document whole.
func TestKillTearsNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	f := openDir(t, dir)
	for round := range 40 {
		p := startPart(t, dir)
		time.Sleep(time.Duration(5+3*round) * time.Millisecond)
		p.Process.Kill()
		p.Wait()
		data, err := f.Read("n")
		if err != nil {
			t.Fatal(err)
		}
		if data == nil {
			continue
		}
		if _, err := readNumber(data); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if err := f.Update("n", countUp); err != nil {
			t.Fatalf("round %d: after the kill: %v", round, err)
		}
	}
}
