package parcel_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/files/parcel"
)

// A store holds contents in memory.
type store map[string][]byte

func (s store) put(_ context.Context, hash string, size int64, content io.Reader) error {
	data, err := io.ReadAll(content)
	if err == nil && int64(len(data)) != size {
		err = fmt.Errorf("%d bytes, want %d", len(data), size)
	}
	s[hash] = data
	return err
}

func (s store) get(_ context.Context, hash string) (io.ReadCloser, error) {
	data, ok := s[hash]
	if !ok {
		return nil, os.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// file stores a content and returns an entry of a file with it.
func (s store) file(name, content string) parcel.Entry {
	sum := sha256.Sum256([]byte(content))
	hash := hex.EncodeToString(sum[:])
	s[hash] = []byte(content)
	return parcel.Entry{Name: name, Kind: parcel.File, Mode: 0o644, Size: int64(len(content)), Hash: hash, Modified: when}
}

var when = time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)

func dir(name string) parcel.Entry {
	return parcel.Entry{Name: name, Kind: parcel.Dir, Mode: 0o755, Modified: when}
}

func sorted(t parcel.Tree) parcel.Tree {
	slices.SortFunc(t, func(a, b parcel.Entry) int { return strings.Compare(a.Name, b.Name) })
	return t
}

// randomTree returns a tree with every kind of entry.
func randomTree(r *rand.Rand, s store) (t parcel.Tree) {
	names := []string{"a", "b", "a-b", "with space", "ünicode", "-x", "..x"}
	if runtime.GOOS == "linux" {
		names = append(names, "\xff\xfe raw", `back\slash`, "new\nline")
	}
	modes := []uint32{0o644, 0o755, 0o600, 0o444, 0o000}
	var fill func(at string, depth int)
	fill = func(at string, depth int) {
		for _, base := range names {
			name := path.Join(at, base)
			at := when.Add(time.Duration(r.IntN(1e9)) * time.Microsecond)
			switch r.IntN(7) {
			case 0, 1:
				e := s.file(name, strings.Repeat("content ", r.IntN(3)*r.IntN(1000)))
				if e.Mode, e.Modified = modes[r.IntN(len(modes))], at; runtime.GOOS == "linux" && r.IntN(3) == 0 {
					e.Attributes = map[string][]byte{parcel.Origin: {}}
				}
				t = append(t, e)
			case 2:
				t = append(t, parcel.Entry{Name: name, Kind: parcel.Link, Target: []string{"/etc/passwd", "../../..", "a", "nowhere"}[r.IntN(4)]})
			case 3:
				if runtime.GOOS == "linux" {
					t = append(t, parcel.Entry{Name: name, Kind: parcel.Gone})
				}
			case 4, 5:
				e := dir(name)
				if e.Mode, e.Modified = []uint32{0o755, 0o700, 0o555, 0o000}[r.IntN(4)], at; runtime.GOOS == "linux" && r.IntN(2) == 0 {
					e.Attributes = map[string][]byte{parcel.Opaque: []byte("y"), parcel.Origin: {}}
				}
				if t = append(t, e); depth < 2 {
					fill(name, depth+1)
				}
			}
		}
	}
	fill("", 0)
	return sorted(t)
}

// TestRoundTrip: a tree that is written over another one, sent as JSON, is read as it was.
func TestRoundTrip(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("its permission bits are not those of a tree")
	}
	r := rand.New(rand.NewPCG(1, 2))
	s := store{}
	top := filepath.Join(t.TempDir(), "top")
	for i := range 60 {
		want := randomTree(r, s)
		data, err := json.Marshal(want)
		must(t, err)
		var sent parcel.Tree
		must(t, json.Unmarshal(data, &sent))
		if i%5 == 0 {
			top = filepath.Join(t.TempDir(), "top")
			last := top
			t.Cleanup(func() { reopen(last) })
		}
		must(t, parcel.Write(t.Context(), top, sent, parcel.Limits{}, s.get))
		got := store{}
		read := &parcel.Reader{Put: got.put, Now: time.Now}
		tree, err := read.Read(t.Context(), top)
		must(t, err)
		if !reflect.DeepEqual(tree, want) {
			t.Fatalf("%d: got\n%+v\nwant\n%+v", i, tree, want)
		}
		for _, e := range want {
			if e.Size > 0 && !bytes.Equal(got[e.Hash], s[e.Hash]) {
				t.Fatalf("%s: content not put", e.Name)
			}
		}
		fetched := 0
		must(t, parcel.Write(t.Context(), top, want, parcel.Limits{}, func(ctx context.Context, hash string) (io.ReadCloser, error) {
			fetched++
			return s.get(ctx, hash)
		}))
		if again, err := read.Read(t.Context(), top); fetched > 0 || err != nil || !reflect.DeepEqual(again, want) {
			t.Fatalf("written again: %d contents fetched, %v", fetched, err)
		}
	}
}

// TestChanges: a Reader puts only contents that its last tree did not have, and sees a change that keeps size and time.
func TestChanges(t *testing.T) {
	top := t.TempDir()
	name := filepath.Join(top, "a")
	must(t, os.WriteFile(name, []byte("one"), 0o644))
	must(t, os.WriteFile(filepath.Join(top, "big"), bytes.Repeat([]byte("x"), 3<<20), 0o644))
	puts := 0
	s := store{}
	read := &parcel.Reader{Now: time.Now, Put: func(ctx context.Context, hash string, size int64, content io.Reader) error {
		puts++
		return s.put(ctx, hash, size, content)
	}}
	info, err := os.Stat(name)
	must(t, err)
	for i, text := range []string{"one", "one", "two", "six", "one"} {
		must(t, os.WriteFile(name, []byte(text), 0o644))
		must(t, os.Chtimes(name, info.ModTime(), info.ModTime()))
		if i == 3 {
			time.Sleep(100 * time.Millisecond) // long enough for the Reader to remember it
		}
		tree, err := read.Read(t.Context(), top)
		must(t, err)
		if got := string(s[tree[0].Hash]); got != text || tree[1].Size != 3<<20 {
			t.Errorf("%d: got %q, want %q", i, got, text)
		}
	}
	if puts != 5 {
		t.Errorf("%d puts, want 5: one, two, six, the large file, and one again, which the last tree did not have", puts)
	}
	failing := &parcel.Reader{Put: func(context.Context, string, int64, io.Reader) error { return errors.New("full") }}
	if _, err := failing.Read(t.Context(), top); err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("got %v", err)
	}
	known := &parcel.Reader{Known: func(hash string) bool { return s[hash] != nil }, Put: failing.Put}
	if _, err := known.Read(t.Context(), top); err != nil {
		t.Error(err)
	}
	skip := &parcel.Reader{Skip: func(name string) bool { return name == "big" }}
	if tree, err := skip.Read(t.Context(), top); err != nil || len(tree) != 1 {
		t.Errorf("got %v, %v", tree, err)
	}
	small := &parcel.Reader{Limits: parcel.Limits{Bytes: 1 << 20}}
	if _, err := small.Read(t.Context(), top); err == nil || !strings.Contains(err.Error(), "no more are allowed") {
		t.Errorf("got %v", err)
	}
}

// TestRefused: Write refuses hostile trees and changes nothing outside its directory.
func TestRefused(t *testing.T) {
	s := store{}
	empty := s.file("a", "")
	change := func(e parcel.Entry, do func(*parcel.Entry)) parcel.Tree {
		do(&e)
		return parcel.Tree{e}
	}
	a := s.file("a", "content")
	var deep parcel.Tree
	for at := "d"; len(deep) < 300; at += "/d" {
		deep = append(deep, dir(at))
	}
	for name, tree := range map[string]parcel.Tree{
		"above":                   {s.file("../a", "x")},
		"above in the middle":     {dir("b"), s.file("b/../../a", "x")},
		"absolute":                {s.file("/a", "x")},
		"empty name":              {s.file("", "x")},
		"the directory itself":    {dir(".")},
		"not clean":               {dir("b"), s.file("b//a", "x")},
		"ends in a slash":         {dir("b/")},
		"zero byte":               {s.file("a\x00b", "x")},
		"long part":               {s.file(strings.Repeat("x", 256), "x")},
		"long name":               {s.file(strings.Repeat("x/", 3000)+"x", "x")},
		"deep":                    deep,
		"twice":                   {a, a},
		"not sorted":              {s.file("b", "x"), a},
		"below a symlink":         {{Name: "b", Kind: parcel.Link, Target: ".."}, s.file("b/a", "x")},
		"below a file":            {a, s.file("a/b", "x")},
		"below a mark":            {{Name: "b", Kind: parcel.Gone}, s.file("b/a", "x")},
		"below nothing":           {s.file("b/a", "x")},
		"unknown kind":            change(a, func(e *parcel.Entry) { e.Kind = "device" }),
		"setuid":                  change(a, func(e *parcel.Entry) { e.Mode = 0o4755 }),
		"setgid directory":        change(dir("b"), func(e *parcel.Entry) { e.Mode = 0o2755 }),
		"go setuid":               change(a, func(e *parcel.Entry) { e.Mode = uint32(os.ModeSetuid) | 0o755 }),
		"no hash":                 change(a, func(e *parcel.Entry) { e.Hash = "" }),
		"bad hash":                change(a, func(e *parcel.Entry) { e.Hash = "../../../../etc/passwd" }),
		"upper case hash":         change(a, func(e *parcel.Entry) { e.Hash = strings.ToUpper(e.Hash) }),
		"negative size":           change(a, func(e *parcel.Entry) { e.Size = -1 }),
		"empty with a size":       change(empty, func(e *parcel.Entry) { e.Size = 4 }),
		"content without a size":  change(a, func(e *parcel.Entry) { e.Size = 0 }),
		"huge":                    change(a, func(e *parcel.Entry) { e.Size = 1 << 60 }),
		"sum too large":           {change(a, func(e *parcel.Entry) { e.Size = 40 << 30 })[0], change(a, func(e *parcel.Entry) { e.Name, e.Size = "b", 40<<30 })[0]},
		"symlink without target":  {{Name: "b", Kind: parcel.Link}},
		"zero byte in the target": {{Name: "b", Kind: parcel.Link, Target: "a\x00"}},
		"symlink with a hash":     {{Name: "b", Kind: parcel.Link, Target: "a", Hash: a.Hash}},
		"mark with a mode":        {{Name: "b", Kind: parcel.Gone, Mode: 0o644}},
		"capability":              change(a, func(e *parcel.Entry) { e.Attributes = map[string][]byte{"security.capability": {1}} }),
		"redirect":                change(dir("b"), func(e *parcel.Entry) { e.Attributes = map[string][]byte{"user.overlay.redirect": []byte("/etc")} }),
		"trusted attribute":       change(dir("b"), func(e *parcel.Entry) { e.Attributes = map[string][]byte{"trusted.overlay.opaque": []byte("y")} }),
		"origin with a value":     change(a, func(e *parcel.Entry) { e.Attributes = map[string][]byte{parcel.Origin: []byte("handle")} }),
		"opaque file":             change(a, func(e *parcel.Entry) { e.Attributes = map[string][]byte{parcel.Opaque: []byte("y")} }),
		"other content":           change(a, func(e *parcel.Entry) { e.Hash = s.file("", "CONTENT").Hash; s[e.Hash] = []byte("content") }),
		"short content":           change(a, func(e *parcel.Entry) { e.Size++ }),
		"long content":            change(a, func(e *parcel.Entry) { e.Size-- }),
		"missing content":         change(a, func(e *parcel.Entry) { e.Hash = strings.Repeat("ab", 32) }),
	} {
		t.Run(name, func(t *testing.T) {
			above := t.TempDir()
			top := filepath.Join(above, "top")
			must(t, os.Mkdir(top, 0o700))
			if err := parcel.Write(t.Context(), top, tree, parcel.Limits{}, s.get); err == nil {
				t.Error("it was written")
			} else if len(err.Error()) > 800 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			if list, err := os.ReadDir(above); err != nil || len(list) != 1 {
				t.Errorf("outside: got %v, %v", list, err)
			}
			if list, err := os.ReadDir(top); err != nil || len(list) != 0 {
				t.Errorf("inside: got %v, %v", list, err)
			}
		})
	}
	if err := parcel.Write(t.Context(), t.TempDir(), parcel.Tree{a, s.file("b", "x")}, parcel.Limits{Entries: 1}, s.get); err == nil || !strings.Contains(err.Error(), "at most 1 are allowed") {
		t.Errorf("got %v", err)
	}
}

// TestExistingLinks: Write follows no symlink that is in its directory already, and changes
// no file that has another name outside.
func TestExistingLinks(t *testing.T) {
	above := t.TempDir()
	top, mine := filepath.Join(above, "top"), filepath.Join(above, "mine")
	must(t, os.MkdirAll(top, 0o700))
	must(t, os.MkdirAll(mine, 0o700))
	must(t, os.WriteFile(filepath.Join(mine, "a"), []byte("mine"), 0o600))
	must(t, os.Symlink(mine, filepath.Join(top, "b")))
	must(t, os.Symlink(filepath.Join(mine, "a"), filepath.Join(top, "c")))
	must(t, os.Link(filepath.Join(mine, "a"), filepath.Join(top, "d")))
	s := store{}
	same := s.file("d", "mine")
	same.Mode = 0o600
	want := parcel.Tree{dir("b"), s.file("b/a", "x"), s.file("c", "y"), same}
	must(t, parcel.Write(t.Context(), top, want, parcel.Limits{}, s.get))
	data, err := os.ReadFile(filepath.Join(mine, "a"))
	if info, _ := os.Stat(filepath.Join(mine, "a")); err != nil || string(data) != "mine" || info.ModTime().Equal(when) {
		t.Errorf("got %q, %v", data, err)
	}
	tree, err := (&parcel.Reader{}).Read(t.Context(), top)
	must(t, err)
	if runtime.GOOS != "windows" && !reflect.DeepEqual(tree, want) {
		t.Errorf("got %+v, want %+v", tree, want)
	}
}

// TestSecondRead checks that later reads of a large directory store only what has changed.
func TestSecondRead(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("a Reader remembers files only on Linux")
	}
	top := t.TempDir()
	for i := range 10_000 {
		name := filepath.Join(top, fmt.Sprint("d", i%100), fmt.Sprint("f", i))
		must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must(t, os.WriteFile(name, fmt.Appendf(nil, "content %d", i), 0o644))
	}
	time.Sleep(100 * time.Millisecond)
	puts := 0
	read := &parcel.Reader{Now: time.Now, Put: func(context.Context, string, int64, io.Reader) error { puts++; return nil }}
	first, err := read.Read(t.Context(), top)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(top, "d7", "f7"), []byte("changed"), 0o644))
	puts = 0
	var second parcel.Tree
	for range 2 {
		second, err = read.Read(t.Context(), top)
		must(t, err)
	}
	if len(second) != 10_100 || len(first) != len(second) || puts != 1 {
		t.Errorf("got %d and %d entries, %d puts", len(first), len(second), puts)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
