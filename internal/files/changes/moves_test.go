package changes

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/files/overlay"
)

// fakeFiles are the files of deleted directories, by directory. The files in other have other
// contents.
type fakeFiles struct {
	old   map[string][]string
	other []string
}

func (f fakeFiles) oldFiles(c *Change, left *int) (list []OldFile) {
	for _, name := range f.old[c.Path] {
		list = append(list, OldFile{Path: name, Kind: overlay.File, Size: 1, In: c})
		*left--
	}
	return list
}

func (f fakeFiles) Content(c Change, _ int64) (old, new []byte, err error) {
	if slices.Contains(f.other, c.Path) {
		return []byte("3"), []byte("2"), nil
	}
	return []byte("1"), []byte("1"), nil
}

// makeChange returns a change of a file of one byte, or of a directory.
func makeChange(name string, op overlay.Op, kind overlay.Kind) Change {
	c := Change{PathChange: overlay.PathChange{Path: name, Op: op, Kind: kind, Size: 1}}
	if op == overlay.Delete {
		c.Kind, c.OldKind = overlay.Nothing, kind
	}
	return c
}

// TestFindMoves describes moves as FROM>TO:FILES-MISSING. Each file has one byte. In a
// deleted directory its name follows the directory and a colon. Files in other have other
// contents.
func TestFindMoves(t *testing.T) {
	for _, c := range []struct{ deleted, made, want, other string }{
		{"src:a src:b", "lib/ lib/a lib/b", "src>lib:2-0", ""},
		{"src:a src:b/c", "new/ new/lib/ new/lib/a new/lib/b/ new/lib/b/c", "src>new/lib:2-0", ""},
		{"src:a src:b src:c", "lib/ lib/a lib/b", "src>lib:2-1", ""},
		{"src:a src:b src:c", "lib/ lib/a", "", ""},
		// A new file belongs to one move. The other directory is deleted.
		{"a:in/f a:in/g b:f b:g", "c/ c/in/ c/in/f c/in/g", "a>c:2-0", ""},
		{"a:f b:f", "c/ c/f", "a>c:1-0", ""},
		// A directory that kept its name comes first, in any order.
		{"p/0:f p/1:f p/2:f", "q/ q/1/ q/1/f q/2/ q/2/f", "p/1>q/1:1-0 p/2>q/2:1-0", ""},
		{"a:f p/x:f", "q/ q/x/ q/x/f r/ r/f", "a>r:1-0 p/x>q/x:1-0", ""},
		// A directory is moved only if a file in it is as it was. Then it may be another new one.
		{"a:f", "c/ c/f", "", "c/f"},
		{"a:f a:g", "c/ c/f c/g", "a>c:2-0", "c/f"},
		{"a:f", "c/ c/f d/ d/f e/ e/f", "a>e:1-0", "c/f d/f"},
		{"a:f b:f", "c/ c/f d/ d/f", "b>d:1-0", "c/f a/f"},
		// A directory that is whole in the new one comes before one that shares a file with it.
		{"e:c e:l f:c f:l", "g/ g/c g/l", "f>g:2-0", "e/c"},
		{"e:c e:l f:c f:l", "g/ g/e/ g/e/c g/e/l", "f>g/e:2-0", "e/c"},
	} {
		var list []Change
		files := fakeFiles{other: strings.Fields(c.other), old: make(map[string][]string)}
		for word := range strings.FieldsSeq(c.deleted) {
			dir, file, _ := strings.Cut(word, ":")
			if files.old[dir] == nil {
				list = append(list, makeChange(dir, overlay.Delete, overlay.Dir))
			}
			files.old[dir] = append(files.old[dir], file)
		}
		for word := range strings.FieldsSeq(c.made) {
			if dir, ok := strings.CutSuffix(word, "/"); ok {
				list = append(list, makeChange(dir, overlay.Create, overlay.Dir))
			} else {
				list = append(list, makeChange(word, overlay.Create, overlay.File))
			}
		}
		l := NewLosses(files, 1)
		l.FindMoves(list)
		var got []string
		moved := 0
		for _, m := range l.Moves {
			got = append(got, fmt.Sprintf("%s>%s:%d-%d", m.From[1:], m.To[1:], m.Files, m.Missing))
			moved += m.Files
		}
		if strings.Join(got, " ") != c.want || moved != len(l.Was) || moved != len(l.Kept) {
			t.Errorf("%s, %s: got %q, new files %v, old files %v, want %q", c.deleted, c.made, got, l.Was, l.Kept, c.want)
		}
	}
}

// TestFindMovesOfMany checks that the work grows with the number of moved directories, and
// not with its square: all have the same file, and none has kept its name. The work is
// counted in allocations, of which each comparison of paths makes one.
func TestFindMovesOfMany(t *testing.T) {
	work := func(count int) float64 {
		var list []Change
		files := fakeFiles{old: make(map[string][]string)}
		for i := range count {
			dir := fmt.Sprintf("old/%06d", i)
			list = append(list, makeChange(dir, overlay.Delete, overlay.Dir))
			files.old[dir] = []string{"f"}
		}
		for i := range count {
			dir := fmt.Sprintf("new/dir%06d", i)
			list = append(list, makeChange(dir, overlay.Create, overlay.Dir), makeChange(dir+"/f", overlay.Create, overlay.File))
		}
		return testing.AllocsPerRun(1, func() {
			l := NewLosses(files, 1)
			l.FindMoves(list)
			for i, m := range l.Moves {
				if i != 0 && m.To <= l.Moves[i-1].To {
					t.Fatalf("%v, want the new directories in order", l.Moves[:i+1])
				}
			}
			if len(l.Moves) != count {
				t.Errorf("got %d moves, want %d", len(l.Moves), count)
			}
		})
	}
	if few, many := work(500), work(4000); many > 12*few {
		t.Errorf("%.0f allocations for 500 directories, %.0f for 4,000", few, many)
	}
}

// TestLosses checks what Losses says about the files of a moved directory, and of one with too
// many names.
func TestLosses(t *testing.T) {
	gone := makeChange("a", overlay.Delete, overlay.Dir)
	l := NewLosses(fakeFiles{old: map[string][]string{"a": {"f", "g", "h"}}}, 1)
	l.FindMoves([]Change{gone, makeChange("b", overlay.Create, overlay.Dir), makeChange("b/f", overlay.Create, overlay.File), makeChange("b/g", overlay.Create, overlay.File)})
	if was := l.Was["/b/f"]; l.Moved["/a"].Missing != 1 || was.Name() != "/a/f" || !l.Kept["/a/g"] || l.Kept["/a/h"] || l.Left != maxOldNames-3 {
		t.Errorf("got %+v, %v, %v, %d names left", l.Moved, was, l.Kept, l.Left)
	}
	if lines, ok := l.CountLines(l.List(gone)[2]); lines != 1 || !ok {
		t.Errorf("got %d lines, %v", lines, ok)
	}
	l = NewLosses(fakeFiles{old: map[string][]string{"a": {"f"}}}, 1)
	l.Left = 0
	if l.FindMoves([]Change{gone}); len(l.List(gone)) != 0 || len(l.Moves) != 0 {
		t.Errorf("got %v, %v", l.List(gone), l.Moves)
	}
}
