package state_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/records/state"
)

// findOnly returns the single file that a pattern matches.
func findOnly(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if len(found) != 1 || err != nil {
		t.Fatalf("%s: %q, %v", pattern, found, err)
	}
	return found[0]
}

var damage = map[string]func(name string) error{
	"empty":       func(name string) error { return os.WriteFile(name, nil, 0o600) },
	"cut":         func(name string) error { return os.Truncate(name, 100) },
	"longer":      func(name string) error { return addTo(name, "x") },
	"other":       func(name string) error { return os.WriteFile(name, bytes.Repeat([]byte("x"), 5000), 0o600) },
	"huge":        func(name string) error { return os.Truncate(name, 1<<40) },
	"a directory": func(name string) error { return errors.Join(os.Remove(name), os.Mkdir(name, 0o700)) },
	"a link": func(name string) error {
		return errors.Join(os.Rename(name, name+"x"), os.Symlink(filepath.Base(name)+"x", name))
	},
	"a far link": func(name string) error { return errors.Join(os.Remove(name), os.Symlink("/dev/zero", name)) },
}

func addTo(name, text string) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}

// TestDamagedDecisions checks that a damaged decision is not returned, and that no new
// decision replaces it.
func TestDamagedDecisions(t *testing.T) {
	for what, do := range damage {
		dir := filepath.Join(t.TempDir(), "state")
		once, _ := openDir(t, dir).Once("answers")
		if _, _, err := once.Decide("k", bytes.Repeat([]byte("yes"), 100)); err != nil {
			t.Fatal(err)
		}
		if err := do(findOnly(t, filepath.Join(dir, "answers.once", strings.Repeat("?", 64)))); err != nil {
			t.Fatal(err)
		}
		if value, ok, err := once.Look("k"); ok || value != nil || err == nil || !strings.Contains(err.Error(), "move it away") {
			t.Errorf("%s: %.20q, %t, %v", what, value, ok, err)
		}
		if value, first, err := once.Decide("k", []byte("no")); first || value != nil || err == nil {
			t.Errorf("%s: decided %.20q, %t, %v", what, value, first, err)
		}
	}
}

// TestDecisionOfAnotherKey checks that the file of another key does not count as a
// decision of this one.
func TestDecisionOfAnotherKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	once, _ := openDir(t, dir).Once("answers")
	if _, _, err := once.Decide("k", []byte("yes")); err != nil {
		t.Fatal(err)
	}
	k := findOnly(t, filepath.Join(dir, "answers.once", strings.Repeat("?", 64)))
	if err := os.Rename(k, k+"x"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := once.Decide("kk", []byte("no")); err != nil {
		t.Fatal(err)
	}
	kk := findOnly(t, filepath.Join(dir, "answers.once", strings.Repeat("?", 64)))
	if err := os.Rename(k+"x", kk); err != nil {
		t.Fatal(err)
	}
	if value, ok, err := once.Look("kk"); ok || err == nil {
		t.Errorf("the decision of another key: %q, %t, %v", value, ok, err)
	}
}

// TestDecisionLeftTwice checks a kill after a decision got its name, which leaves the
// file under a second name too. The next write under that name must not change the
// decision.
func TestDecisionLeftTwice(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	once, _ := openDir(t, dir).Once("answers")
	if _, _, err := once.Decide("k", []byte("yes")); err != nil {
		t.Fatal(err)
	}
	room := filepath.Join(dir, "answers.once")
	if err := os.Link(findOnly(t, filepath.Join(room, strings.Repeat("?", 64))), filepath.Join(room, "decide.new")); err != nil {
		t.Fatal(err)
	}
	if _, first, err := once.Decide("other", []byte("no")); !first || err != nil {
		t.Errorf("another key: %t, %v", first, err)
	}
	if value, ok, err := once.Look("k"); string(value) != "yes" || !ok || err != nil {
		t.Errorf("the first key: %q, %t, %v", value, ok, err)
	}
	if got := listNames(t, room); len(got) != 2 {
		t.Errorf("files %q", got)
	}
}

// TestDamagedContents checks that damaged contents are reported.
func TestDamagedContents(t *testing.T) {
	for what, do := range damage {
		dir := filepath.Join(t.TempDir(), "state")
		blobs, _ := openDir(t, dir).Blobs("staged")
		hash, err := blobs.Put(strings.NewReader(strings.Repeat("text", 100)))
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, "staged.blobs", hash)
		if err := do(name); err != nil {
			t.Fatal(err)
		}
		if data, err := blobs.Get(hash, 1<<20); err == nil || data != nil {
			t.Errorf("%s: got %.20q, %v", what, data, err)
		}
	}
}

// TestContentLeftovers checks that files left by killed writers are reused.
func TestContentLeftovers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	blobs, _ := openDir(t, dir).Blobs("staged")
	if _, err := blobs.Put(strings.NewReader("a")); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(dir, "staged.blobs", "new-00")
	if err := os.WriteFile(left, []byte("left behind, and longer"), 0o600); err != nil {
		t.Fatal(err)
	}
	hash, err := blobs.Put(strings.NewReader("b"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := blobs.Get(hash, 10); string(got) != "b" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the leftover file still exists: %v", err)
	}
}

// TestHostileLeases checks damaged lease files and things in place of them.
func TestHostileLeases(t *testing.T) {
	for what, do := range damage {
		dir := filepath.Join(t.TempDir(), "state")
		leases, _ := openDir(t, dir).Leases()
		release, err := leases.Take(context.Background(), "l", "me")
		if err != nil {
			t.Fatal(err)
		}
		name := findOnly(t, filepath.Join(dir, "leases", "*"))
		data, err := os.ReadFile(name)
		if err := errors.Join(err, release(), os.WriteFile(name, data, 0o600), do(name)); err != nil {
			t.Fatal(err)
		}
		regular := !strings.HasPrefix(what, "a ")
		release, err = leases.Take(t.Context(), "l", "me")
		if (err == nil) != regular {
			t.Errorf("%s: %v", what, err)
		}
		if err == nil {
			release()
		}
	}
}

// FuzzTail opens logs with arbitrary files. It replaces an invalid head with a valid one
// that has the numbers that follow it.
func FuzzTail(f *testing.F) {
	f.Add([]byte("one\ntwo\n"), []byte(nil), []byte(nil), uint64(0), uint64(2), uint64(1), int64(8))
	f.Add([]byte("one\ntwo\nthr"), []byte(nil), []byte("old\n"), uint64(1), uint64(3), uint64(2), int64(8))
	f.Add([]byte("three\n"), []byte(nil), []byte("one\ntwo\n"), uint64(1), uint64(2), uint64(1), int64(8))
	f.Add([]byte("\n\n\n"), []byte("damaged"), []byte("old"), uint64(3), uint64(0), uint64(0), int64(0))
	f.Add([]byte("0"), []byte("damaged"), []byte("00000"), uint64(3), uint64(0), uint64(0), int64(0))
	f.Add([]byte("three\n"), []byte(nil), []byte("one\ntwo\n"), uint64(1), uint64(0), uint64(1), int64(8))
	f.Add([]byte("0"), []byte(nil), []byte("onjjjj\n\xf0twoe"), uint64(1), uint64(1), uint64(1), int64(83))
	f.Fuzz(func(t *testing.T, current, head, old []byte, oldFirst, count, first uint64, size int64) {
		dir := filepath.Join(t.TempDir(), "state")
		l := openLog(t, openDir(t, dir), 10)
		if len(head) == 0 {
			head = state.Slot(count, first, size)
		}
		files := map[string][]byte{"journal.jsonl": current, "journal.head": head}
		if oldFirst > 0 {
			files[segmentName(oldFirst)] = old
		}
		for name, data := range files {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		tail, err := l.Tail()
		if err != nil {
			return
		}
		if text, err := readRecords(l); err == nil && text != "" && uint64(strings.Count(text, " ")) < tail.Count-1 {
			t.Errorf("read %q of %d records", text, tail.Count)
		}
		for range 2 {
			err := l.Append(false, func(got state.Tail) ([][]byte, []byte, error) {
				if got.Count != tail.Count {
					t.Errorf("the callback got %+v, Tail returned %+v", got, tail)
				}
				return [][]byte{[]byte("next")}, []byte("mark"), nil
			})
			if err != nil {
				return
			}
			before := tail.Count
			tail, err = l.Tail()
			if tail.Count != before+1 || string(tail.Mark) != "mark" || tail.Torn != 0 || tail.Beyond != nil || tail.Lost != 0 || err != nil {
				t.Errorf("appended to %d records: %+v, %v", before, tail, err)
			}
		}
	})
}
