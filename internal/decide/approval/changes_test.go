package approval_test

import (
	"fmt"
	"github.com/golem-forge/golem/internal/decide/approval"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/sandbox"
)

func newFiles(t *testing.T) *sandbox.Sandbox {
	t.Helper()
	s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Backend: sandbox.NewMemory(nil), Access: sandbox.ReadWrite}}, Protect: []string{".git", "*.key"}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newCommandChange(name string, kind overlay.Kind) changes.Change {
	return changes.Change{PathChange: overlay.PathChange{Path: name, Op: overlay.Create, Kind: kind}, Target: "/"}
}

// TestSortsChanges checks that protected paths and devices are skipped with a reason,
// and that a protected path that the user names is applied, except in .git.
func TestSortsChanges(t *testing.T) {
	all := []changes.Change{newCommandChange("a.txt", overlay.File), newCommandChange("x.key", overlay.File), newCommandChange(".git/hooks/pre-commit", overlay.File), newCommandChange("pipe", overlay.Special)}
	for _, test := range []struct {
		op      string
		named   []string
		skipped []string // the reasons
	}{
		{"shell", nil, []string{"by *.key ", "in .git ", "pipes, sockets"}},
		{"apply_changes", []string{"/x.key"}, []string{"in .git ", "pipes, sockets"}},
		{"apply_changes", []string{"/.git/hooks/pre-commit", "/pipe"}, []string{"by *.key ", "in .git ", "pipes, sockets"}},
	} {
		notes := strings.Join(approval.Classify(test.op, newFiles(t), &changes.Transaction{Changes: all}, test.named...).Notes(), "\n")
		for _, reason := range []string{"a.txt", "by *.key ", "in .git ", "pipes, sockets"} {
			if got, want := strings.Contains(notes, reason), slices.Contains(test.skipped, reason); got != want {
				t.Errorf("%s %v: skipped for %s: %v, want %v\n%s", test.op, test.named, reason, got, want, notes)
			}
		}
	}
}

// TestNothingToApply checks that Deferred returns nil if all changes are skipped.
func TestNothingToApply(t *testing.T) {
	l := approval.Classify("shell", newFiles(t), &changes.Transaction{Changes: []changes.Change{newCommandChange("x.key", overlay.File)}})
	if l.Deferred() != nil || len(l.Notes()) == 0 {
		t.Errorf("got %+v, %v", l.Deferred(), l.Notes())
	}
}

// TestCarriedChanges checks how many changes a request carries, and that the digest of
// the others changes with each of them.
func TestCarriedChanges(t *testing.T) {
	carried := func(n int, last string) []tool.Change {
		rows := approval.NewReversalList()
		for i := range n {
			r := approval.Reversal{Name: fmt.Sprint("/", i), Now: overlay.State{Kind: overlay.Symlink, LinkTarget: "b"}}
			if i == n-1 {
				r.Now.LinkTarget = last
			}
			rows.Add(r)
		}
		return rows.Changes()
	}
	if got := carried(approval.MaxRows, "b"); len(got) != approval.MaxRows {
		t.Errorf("got %d", len(got))
	}
	first := carried(approval.MaxRows+3, "b")
	last := first[len(first)-1]
	if len(first) != approval.MaxRows+1 || !strings.Contains(last.About, "3 more") || last.Omitted == "" || last.Becomes == "" {
		t.Fatalf("got %d, %+v", len(first), last)
	}
	if other := carried(approval.MaxRows+3, "c"); other[len(other)-1].Becomes == last.Becomes {
		t.Error("another change has the same digest")
	}
}

// TestReversalShowsTheMode checks that a reversal shows permission bits that are not
// usual.
func TestReversalShowsTheMode(t *testing.T) {
	file := overlay.State{Kind: overlay.File, Mode: 0o755, Size: 2, Content: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("x\n")), nil }}
	usual := file
	usual.Mode = 0o644
	for _, row := range []struct {
		now, then overlay.State
		want      string
	}{
		{overlay.State{}, file, "2 bytes, mode 0755"},
		{overlay.State{}, usual, "2 bytes"},
		{overlay.State{Kind: overlay.Symlink, LinkTarget: "b"}, file, "2 bytes, in place of a symlink, mode 0755"},
		{overlay.State{}, overlay.State{Kind: overlay.Dir, Mode: 0o777}, "a directory, mode 0777"},
		{overlay.State{}, overlay.State{Kind: overlay.Dir, Mode: 0o755}, "a directory"},
		{usual, file, "2 bytes, permission bits 0644 → 0755"},
		{file, overlay.State{}, "2 bytes"},
		{overlay.State{}, overlay.State{Kind: overlay.Symlink, Mode: 0o777, LinkTarget: "b"}, "a symlink to b"},
	} {
		rows := approval.NewReversalList()
		rows.Add(approval.Reversal{Name: "/x", Now: row.now, Then: row.then})
		if got := rows.Changes()[0].About; got != row.want {
			t.Errorf("got %q, want %q", got, row.want)
		}
	}
}

// TestDeepRepositoryFilter checks that a deep tree costs a few questions for each name, and
// not some for each directory above each name.
func TestDeepRepositoryFilter(t *testing.T) {
	const depth = 1000
	var names []string
	after := make(map[string]bool)
	for i, name := 0, ""; i < depth; i++ {
		name += "/d"
		names = append(names, name, name+"/f")
		after[name], after[name+"/f"] = true, true
	}
	calls := 0
	ofGit := approval.NewRepositoryFilter(after, func(name string) bool {
		calls++
		return name == "/d/d/d/HEAD" || name == "/d/d/d/commondir"
	})
	for i, name := range names {
		if got, want := ofGit(name), i >= 5; got != want {
			t.Fatalf("%s: got %v, want %v", name, got, want)
		}
	}
	if calls > 4*len(names) {
		t.Errorf("asked %d times about %d names", calls, len(names))
	}
}
