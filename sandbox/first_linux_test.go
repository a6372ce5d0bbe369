package sandbox_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/sandbox"
)

// TestResultsInPages: a walk and a search return the first results in order, and the rest
// comes after the last of them. Page by page, no result is missing or returned twice.
func TestResultsInPages(t *testing.T) {
	objects := map[string]sandbox.Object{}
	var names, lines []string
	for i := range 2000 {
		name := fmt.Sprintf("d%d/e%d.x/f%04d", i%7, i%30, i)
		if i%11 == 0 {
			name = fmt.Sprintf("d%d.x", i)
		}
		objects[name] = sandbox.Object{Content: "hit\nmiss\nhit\n"}
		names = append(names, "/"+name)
	}
	slices.Sort(names)
	for _, name := range names {
		lines = append(lines, name+" 1", name+" 3")
	}
	s := newBox(t, sandbox.Mount{Target: "/", Backend: sandbox.NewMemory(objects), Access: sandbox.ReadOnly})
	for _, most := range []int{7, 100, 1999, 2000, 2001} {
		var got []string
		for more := true; more; {
			after := ""
			if len(got) > 0 {
				after = got[len(got)-1]
			}
			found, err := s.Find(context.Background(), "/", "**", sandbox.Budget{Results: most, After: after})
			if err != nil || len(found.Found) > most {
				t.Fatalf("%d found, %v", len(found.Found), err)
			}
			for _, f := range found.Found {
				got = append(got, f.Path)
			}
			more = found.Cut == sandbox.CutResults
		}
		if !slices.Equal(got, names) {
			t.Errorf("%d at a time: %d names, want %d", most, len(got), len(names))
		}
	}
	for _, most := range []int{333, 4000} {
		var got []string
		var last sandbox.Match
		for more := true; more; {
			found, err := s.Search(context.Background(), "/", sandbox.Query{Pattern: "hit", AfterLine: last.Line}, sandbox.Budget{Results: most, After: last.Path})
			if err != nil || len(found.Found) > most {
				t.Fatalf("%d found, %v", len(found.Found), err)
			}
			for _, m := range found.Found {
				got = append(got, fmt.Sprintf("%s %d", m.Path, m.Line))
				last = m
			}
			more = found.Cut == sandbox.CutResults
		}
		if !slices.Equal(got, lines) {
			t.Errorf("%d at a time: %d matches, want %d", most, len(got), len(lines))
		}
	}
}

// TestSearchCountsLarge: a search counts the files that are too large for it.
func TestSearchCountsLarge(t *testing.T) {
	s := newBox(t, sandbox.Mount{Target: "/", Access: sandbox.ReadOnly, Backend: sandbox.NewMemory(map[string]sandbox.Object{
		"large": {Content: strings.Repeat("x\n", sandbox.MaxSearch/2+1)}, "fits": {Content: strings.Repeat("y\n", sandbox.MaxSearch/2)}})})
	got, err := s.Search(context.Background(), "/", sandbox.Query{Pattern: "x"}, sandbox.Budget{})
	if err != nil || got.Large != 1 || got.Files != 1 || got.Unread != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// busyBackend is a backend that runs a function during a write: after the content is written,
// and before the call returns.
type busyBackend struct {
	*sandbox.Memory
	then func()
}

func (b busyBackend) Write(name string, content io.Reader, how sandbox.How) (sandbox.Attr, error) {
	attr, err := b.Memory.Write(name, content, how)
	b.then()
	return attr, err
}

// TestMoveBetweenMountsDuringWrite: a write during a move between mounts is not lost. The move
// returns a conflict and removes its copy, unless somebody has replaced the copy.
func TestMoveBetweenMountsDuringWrite(t *testing.T) {
	for _, row := range []struct{ why, from, to, wantFrom, wantTo string }{
		{"a write to the old name", "new work", "", "new work", ""},
		{"a write to both", "new work", "theirs", "new work", "theirs"},
	} {
		dir := t.TempDir()
		writeFile(t, dir+"/f", "copied")
		memory := sandbox.NewMemory(nil)
		b := busyBackend{memory, nil}
		var s *sandbox.Sandbox
		b.then = func() {
			_, err := s.Write("/a/f", []byte(row.from))
			ok(t, err)
			if row.to != "" {
				_, err := memory.Write("f", strings.NewReader(row.to), sandbox.How{})
				ok(t, err)
			}
		}
		s = newBox(t, mountAt("/a", dir), sandbox.Mount{Target: "/b", Backend: &b, Access: sandbox.ReadWrite})
		if err := s.Move("/a/f", "/b/f"); sandbox.CodeOf(err) != sandbox.ErrConflict || !strings.HasPrefix(err.Error(), "move /a/f: ") {
			t.Errorf("%s: %v, want a conflict", row.why, err)
		}
		if got, err := s.Read("/a/f"); err != nil || string(got) != row.wantFrom {
			t.Errorf("%s: the old name has %q, %v", row.why, got, err)
		}
		if got := memory.Files()["f"]; got != row.wantTo {
			t.Errorf("%s: the new name has %q, want %q", row.why, got, row.wantTo)
		}
	}
}
