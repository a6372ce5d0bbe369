package session

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/sandbox"
)

// TestExamined checks that a review reads only files that have changed since the last one,
// and finds the same as a review that reads everything.
func TestExamined(t *testing.T) {
	t.Parallel()
	s, dir := newStore(t), t.TempDir()
	s.Project = &project.Project{Mounts: []project.Mount{{Target: "/", Source: sandbox.Host(dir), Mode: project.Overlay}}}
	s.Examined, s.Now = &Examined{}, time.Now
	one := s.start(t, Options{})
	overlays, err := changes.Open(sandbox.Host(one.dir), s.OverlayMounts(), false)
	if err != nil {
		t.Fatal(err)
	}
	overlays.Close()
	found, err := filepath.Glob(filepath.Join(one.dir, "0", "upper*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("got %v, %v", found, err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(found[0], name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	review := func() *Review {
		t.Helper()
		got, err := s.Review(one, nil, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		without := *s
		without.Examined = nil
		want, err := without.Review(one, nil, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		return got
	}
	write("a.txt", "one\n")
	write("b.txt", "plain\n")
	write("c.bin", "\x00")
	review()
	if n := len(s.Examined.of(one)); n != 0 {
		t.Errorf("golem relies on the times of %d files that were written just now", n)
	}
	time.Sleep(3500 * time.Millisecond)
	review()
	known := s.Examined.of(one)
	if len(known) != 3 {
		t.Fatalf("golem keeps %v", known)
	}
	if r := review(); len(r.Flags) != 1 || r.Flags[0].Path != "/c.bin" {
		t.Errorf("the second review: got %v", r.Flags)
	}
	known = s.Examined.of(one)
	a := known["/a.txt"]
	a.added = 77 // proves that the next review does not read the file
	known["/a.txt"] = a
	write("b.txt", "\u202etxt\n") // the same size
	r, err := s.Review(one, nil, false, nil)
	if err != nil || len(r.Flags) != 2 || r.Flags[0].Path != "/b.txt" {
		t.Errorf("after a change: got %+v, %v", r, err)
	}
	for _, f := range r.Files {
		if f.Path == "/a.txt" && f.Added != 77 {
			t.Errorf("golem has read a file that has not changed: %+v", f)
		}
	}
	if err := os.Remove(filepath.Join(found[0], "a.txt")); err != nil {
		t.Fatal(err)
	}
	if review(); len(s.Examined.of(one)) != 1 {
		t.Errorf("golem keeps %v", s.Examined.of(one))
	}
}
