package parcel_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/files/parcel"
)

// FuzzTree reads lists of files that another machine sent. A list that Check accepts survives
// JSON, and has no name outside its directory.
func FuzzTree(f *testing.F) {
	s := store{}
	for _, tree := range []parcel.Tree{{s.file("a", "content")}, {dir("b"), s.file("b/a", "x"), {Name: "c", Kind: parcel.Link, Target: "../.."}}, {{Name: "d\xff", Kind: parcel.Gone}}} {
		data, err := json.Marshal(tree)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`[{"raw_name":"Li4vYQ==","kind":"dir"},{"name":"x","kind":"link","raw_target":"/w=="}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var tree parcel.Tree
		if json.Unmarshal(data, &tree) != nil || tree.Check(parcel.Limits{}) != nil {
			return
		}
		for _, e := range tree {
			if !filepath.IsLocal(filepath.FromSlash(e.Name)) || e.Mode > 0o777 || e.Size < 0 {
				t.Fatalf("Check accepts %+v", e)
			}
		}
		data, err := json.Marshal(tree)
		must(t, err)
		var again parcel.Tree
		must(t, json.Unmarshal(data, &again))
		must(t, again.Check(parcel.Limits{}))
		for i, e := range again {
			want := tree[i]
			if !e.Modified.Equal(want.Modified) || len(e.Attributes) != len(want.Attributes) {
				t.Fatalf("got %+v, want %+v", e, want)
			}
			e.Modified, want.Modified, e.Attributes, want.Attributes = time.Time{}, time.Time{}, nil, nil
			if !reflect.DeepEqual(e, want) {
				t.Fatalf("got %+v, want %+v", e, want)
			}
		}
	})
}

// FuzzWrite writes one forged tree over another one. Nothing outside the directory changes, and
// a tree that was written is read as it is.
func FuzzWrite(f *testing.F) {
	f.Add("file a 644 content\ndir b 755\nfile b/c 600 x", "link b ../mine\nfile a 0 other")
	f.Add("link a ../mine\nlink b ../mine/file", "dir a 0\nfile a/file 644 x\nfile b 644 y\ngone c")
	f.Add("dir a 555\ngone a/b\nfile a/c 0", "link a/b ../../mine\nfile ../mine/file 644 x")
	f.Add("dir a 700\ndir a/b 700\nlink a/b/c ../../../mine", "dir a 700\nlink a/b ../../mine\nfile a/b/file 644 x")
	f.Fuzz(func(t *testing.T, first, second string) {
		above := t.TempDir()
		top, mine := filepath.Join(above, "top"), filepath.Join(above, "mine")
		must(t, os.Mkdir(mine, 0o700))
		must(t, os.WriteFile(filepath.Join(mine, "file"), []byte("mine"), 0o640))
		before := look(t, mine)
		defer reopen(top)
		for _, text := range []string{first, second} {
			s := store{}
			tree := forged(s, text)
			err := parcel.Write(t.Context(), top, tree, parcel.Limits{}, s.get)
			if checked := tree.Check(parcel.Limits{}); checked != nil && err == nil {
				t.Fatalf("Write accepts what Check refuses: %v", checked)
			}
			if got := look(t, mine); got != before {
				t.Fatalf("outside: got %s, want %s", got, before)
			}
			if list, err := os.ReadDir(above); err != nil || len(list) > 2 {
				t.Fatalf("outside: got %v, %v", list, err)
			}
			if err != nil || runtime.GOOS == "windows" {
				continue
			}
			got, err := (&parcel.Reader{}).Read(t.Context(), top)
			must(t, err)
			if len(got)+len(tree) > 0 && !reflect.DeepEqual(got, tree) {
				t.Fatalf("got %+v, want %+v", got, tree)
			}
		}
	})
}

// forged reads a tree from lines such as "file NAME MODE CONTENT", "dir NAME MODE", "link NAME
// TARGET" and "gone NAME".
func forged(s store, text string) (t parcel.Tree) {
	for line := range strings.Lines(text) {
		words := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
		for len(words) < 4 {
			words = append(words, "")
		}
		var mode uint32
		for _, digit := range words[2] {
			mode = mode<<3 + uint32(digit-'0')&7
		}
		e := parcel.Entry{Name: words[1], Kind: parcel.Kind(words[0])}
		switch e.Kind {
		case parcel.File:
			e = s.file(words[1], words[3])
			e.Mode = mode
		case parcel.Dir:
			e.Mode, e.Modified = mode, when
		case parcel.Link:
			e.Target = words[2]
		}
		if words[3] == "origin" && runtime.GOOS == "linux" {
			e.Attributes = map[string][]byte{parcel.Origin: {}}
		}
		t = append(t, e)
	}
	return t
}

// look describes a directory with everything that Write could change.
func look(t *testing.T, dir string) string {
	t.Helper()
	tree, err := (&parcel.Reader{}).Read(t.Context(), dir)
	must(t, err)
	data, err := json.Marshal(tree)
	must(t, err)
	return string(data)
}

// reopen lets the test remove directories that a tree has closed.
func reopen(dir string) {
	filepath.WalkDir(dir, func(name string, e os.DirEntry, _ error) error {
		if e != nil && e.IsDir() {
			os.Chmod(name, 0o700)
		}
		return nil
	})
}
