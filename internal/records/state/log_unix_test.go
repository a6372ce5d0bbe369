//go:build unix

package state_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/golem-forge/golem/internal/records/state"
)

// hostile makes things that may stand in place of a file.
var hostile = map[string]func(name string) error{
	"a directory":            func(name string) error { return os.Mkdir(name, 0o700) },
	"a pipe":                 func(name string) error { return syscall.Mkfifo(name, 0o600) },
	"a link out":             func(name string) error { return os.Symlink("../canary", name) },
	"a link inside":          func(name string) error { return os.Symlink("inside", name) },
	"a link to nothing":      func(name string) error { return os.Symlink("nothing", name) },
	"a link to what streams": func(name string) error { return os.Symlink("/dev/zero", name) },
}

// TestHostileFiles checks things that stand in place of a file of a log.
func TestHostileFiles(t *testing.T) {
	for _, file := range []string{"journal.jsonl", "journal.head"} {
		for what, make := range hostile {
			dir := filepath.Join(t.TempDir(), "state")
			l := openLog(t, openDir(t, dir), 1)
			if err := appendRecords(l, false, "one"); err != nil {
				t.Fatal(err)
			}
			l = openLog(t, openDir(t, dir), 1)
			canary := filepath.Join(filepath.Dir(dir), "canary")
			inside := filepath.Join(dir, "inside")
			if err := errors.Join(os.WriteFile(canary, []byte("CANARY\n"), 0o600), os.WriteFile(inside, []byte("CANARY\n"), 0o600)); err != nil {
				t.Fatal(err)
			}
			os.Remove(filepath.Join(dir, file))
			if err := make(filepath.Join(dir, file)); err != nil {
				t.Fatal(err)
			}
			err := appendRecords(l, true, "two")
			if err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "move it away") {
				t.Errorf("%s is %s: append: %v", file, what, err)
			}
			readRecords(l)
			l.Tail()
			for _, name := range []string{canary, inside} {
				if got, _ := os.ReadFile(name); string(got) != "CANARY\n" {
					t.Errorf("%s is %s: written elsewhere: %q", file, what, got)
				}
			}
		}
	}
}

// TestHostileSegments checks that an entry named like an older segment that is not a file
// is skipped and reported.
func TestHostileSegments(t *testing.T) {
	for what, make := range hostile {
		dir := filepath.Join(t.TempDir(), "state")
		l := openLog(t, openDir(t, dir), 1)
		if err := errors.Join(appendRecords(l, false, "one"), make(filepath.Join(dir, segmentName(1)))); err != nil {
			t.Fatal(err)
		}
		for _, l := range []state.Log{l, openLog(t, openDir(t, dir), 1)} {
			if err := appendRecords(l, true, "two"); err != nil {
				t.Errorf("%s: append: %v", what, err)
			}
		}
		if err := os.Remove(filepath.Join(dir, "journal.head")); err != nil {
			t.Fatal(err)
		}
		if err := appendRecords(l, true, "three"); err != nil {
			t.Errorf("%s: append without a head: got %v", what, err)
		}
		if got, err := readAll(l); got != "one two two three" || err == nil || !strings.HasPrefix(err.Error(), segmentName(1)+": ") {
			t.Errorf("%s: read %q, %v", what, got, err)
		}
	}
}

// TestModes checks that other users have no access to any file, whatever the umask.
func TestModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	f := openDir(t, dir)
	l := openLog(t, f, 1)
	if err := errors.Join(appendRecords(l, true, "one"), appendRecords(l, true, "two"), f.Update("x", func([]byte) ([]byte, error) { return []byte("x"), nil })); err != nil {
		t.Fatal(err)
	}
	once, _ := f.Once("answers")
	leases, _ := f.Leases()
	blobs, _ := f.Blobs("staged")
	_, _, decided := once.Decide("k", []byte("v"))
	_, taken := leases.Take(context.Background(), "l", "me")
	_, put := blobs.Put(strings.NewReader("x"))
	if err := errors.Join(decided, taken, put); err != nil {
		t.Fatal(err)
	}
	seen := 0
	err := filepath.Walk(dir, func(name string, info os.FileInfo, err error) error {
		want := os.FileMode(0o600)
		if info.IsDir() {
			want = 0o700
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s is %s", name, info.Mode())
		}
		seen++
		return err
	})
	if seen < 11 || err != nil {
		t.Errorf("got %d files and directories, %v", seen, err)
	}
}

// TestFirstRecordBeyond checks that a kill before the first mark leaves records after it
// and no damage. A log has a head before it has records.
func TestFirstRecordBeyond(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	l, current := openLog(t, openDir(t, dir), 0), filepath.Join(dir, "journal.jsonl")
	err := l.Append(false, func(state.Tail) ([][]byte, []byte, error) {
		return [][]byte{[]byte("one")}, []byte("one"), os.Remove(current) // fails before the mark is written
	})
	if err == nil {
		t.Fatal("records were written to a deleted file")
	}
	if err := os.WriteFile(current, []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	appendTwice(t, l, state.Tail{Count: 1, Beyond: [][]byte{[]byte("one")}}, "one")
}
