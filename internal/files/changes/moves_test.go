package changes

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/files/overlay"
)

// TestFindMoves describes moves as FROM>TO:FILES-MISSING. Each file has one byte. In a
// deleted directory its name follows the directory and a colon. New files in other have other
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
		{"a:f b:f", "c/ c/f d/ d/f", "b>d:1-0", "c/f"},
	} {
		var names []string
		var changes []overlay.PathChange
		old := make(map[string][]OldFile)
		for word := range strings.FieldsSeq(c.deleted) {
			dir, file, _ := strings.Cut(word, ":")
			if old[dir] == nil {
				names, changes = append(names, dir), append(changes, overlay.PathChange{Op: overlay.Delete, Kind: overlay.Dir})
			}
			old[dir] = append(old[dir], OldFile{Path: file, Kind: overlay.File, Size: 1})
		}
		for word := range strings.FieldsSeq(c.made) {
			one := overlay.PathChange{Op: overlay.Create, Kind: overlay.File, Size: 1}
			if strings.HasSuffix(word, "/") {
				one = overlay.PathChange{Op: overlay.Create, Kind: overlay.Dir}
			}
			names, changes = append(names, strings.TrimSuffix(word, "/")), append(changes, one)
		}
		moves, from := FindMoves(names, changes, old, func(dir string, _ OldFile, now string) bool {
			return !slices.Contains(strings.Fields(c.other), now) && (c.other != "c/f" || dir != "a" || now != "d/f")
		})
		var got []string
		files := 0
		for _, m := range moves {
			got = append(got, fmt.Sprintf("%s>%s:%d-%d", m.From, m.To, m.Files, m.Missing))
			files += m.Files
		}
		if strings.Join(got, " ") != c.want || files != len(from) {
			t.Errorf("%s, %s: got %q and %d new files, want %q", c.deleted, c.made, got, len(from), c.want)
		}
	}
}

// TestFindMovesOfMany checks that the work grows with the number of moved directories, and
// not with its square: all have the same file, and none has kept its name. The work is
// counted in allocations, of which each comparison of paths makes one.
func TestFindMovesOfMany(t *testing.T) {
	work := func(count int) float64 {
		var names []string
		var changes []overlay.PathChange
		old := make(map[string][]OldFile)
		for i := range count {
			dir := fmt.Sprintf("old/%06d", i)
			names, changes = append(names, dir), append(changes, overlay.PathChange{Op: overlay.Delete, Kind: overlay.Dir})
			old[dir] = []OldFile{{Path: "f", Kind: overlay.File, Size: 1}}
		}
		for i := range count {
			dir := fmt.Sprintf("new/dir%06d", i)
			names = append(names, dir, dir+"/f")
			changes = append(changes, overlay.PathChange{Op: overlay.Create, Kind: overlay.Dir}, overlay.PathChange{Op: overlay.Create, Kind: overlay.File, Size: 1})
		}
		return testing.AllocsPerRun(1, func() {
			moves, _ := FindMoves(names, changes, old, func(string, OldFile, string) bool { return true })
			for i, m := range moves {
				if i != 0 && m.To <= moves[i-1].To {
					t.Fatalf("%v, want the new directories in order", moves[:i+1])
				}
			}
			if len(moves) != count {
				t.Errorf("got %d moves, want %d", len(moves), count)
			}
		})
	}
	if few, many := work(500), work(4000); many > 12*few {
		t.Errorf("%.0f allocations for 500 directories, %.0f for 4,000", few, many)
	}
}
