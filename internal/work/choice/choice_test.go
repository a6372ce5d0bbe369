package choice

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/files/patch"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/internal/work/toolset/settle"
	"github.com/golem-forge/golem/sandbox"
)

// number returns lines 1 to 40, with some of them replaced.
func number(replaced map[int]string) string {
	var b strings.Builder
	for i := 1; i <= 40; i++ {
		text, ok := replaced[i]
		if !ok {
			text = fmt.Sprintf("line %d", i)
		}
		fmt.Fprintln(&b, text)
	}
	return b.String()
}

// newText returns a changed text file.
func newText(path, real, own string) *File {
	return &File{FileChange: session.FileChange{Path: path, Op: overlay.Modify, Kind: overlay.File, OldKind: overlay.File}, Real: []byte(real), Own: []byte(own)}
}

// apply returns the content that a part makes of a file.
func apply(t *testing.T, f *File, p settle.Part) string {
	t.Helper()
	if p.Whole {
		return string(f.Own)
	}
	hunks, err := patch.Parse(p.Patch)
	if err != nil {
		t.Fatal(err)
	}
	text, err := patch.Apply(string(f.Real), hunks)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestParts chooses items as the keys y, n, a, d, s and e do. Exactly the chosen ones are
// in the arguments.
func TestParts(t *testing.T) {
	real := number(nil)
	own := number(map[int]string{3: "three", 5: "five", 30: "thirty"})
	for _, c := range []struct {
		name   string
		choose func(items []*Item) []*Item
		want   string // "" if no part is left
		whole  bool
	}{
		{"yes, no", func(items []*Item) []*Item { items[0].Chosen = true; return items }, number(map[int]string{3: "three", 5: "five"}), false},
		{"no, yes", func(items []*Item) []*Item { items[1].Chosen = true; return items }, number(map[int]string{30: "thirty"}), false},
		{"all", func(items []*Item) []*Item {
			for _, it := range items {
				it.Chosen = true
			}
			return items
		}, own, true},
		{"none", func(items []*Item) []*Item { return items }, "", false},
		{"split, then the second", func(items []*Item) []*Item {
			parts := items[0].Split()
			if len(parts) != 2 {
				t.Fatalf("split: got %d parts", len(parts))
			}
			parts[1].Chosen = true
			return append(parts, items[1])
		}, number(map[int]string{5: "five"}), false},
		{"edited", func(items []*Item) []*Item {
			hunk, err := items[1].Hunk.Edit(strings.Replace(items[1].Hunk.String(), "thirty", "30!", 1), real)
			if err != nil {
				t.Fatal(err)
			}
			return []*Item{items[0], {File: items[1].File, Hunk: &hunk, Edited: true, Chosen: true}}
		}, number(map[int]string{30: "30!"}), false},
	} {
		f := newText("/a.txt", real, own)
		items := f.Items()
		if len(items) != 2 {
			t.Fatalf("got %d items, want 2", len(items))
		}
		parts, _, err := Parts(c.choose(items))
		switch {
		case err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want == "" && len(parts) > 0, c.want != "" && len(parts) != 1:
			t.Errorf("%s: got %d parts", c.name, len(parts))
		case c.want != "" && (apply(t, f, parts[0]) != c.want || parts[0].Whole != c.whole):
			t.Errorf("%s: whole %v, got\n%s", c.name, parts[0].Whole, apply(t, f, parts[0]))
		}
	}
}

// TestItems checks what can be chosen of a file.
func TestItems(t *testing.T) {
	text := newText("/a", "a\n", "b\n")
	text.OldMode, text.Mode = "644", "755"
	for name, c := range map[string]struct {
		file        *File
		items, mode int
	}{
		"a text with other permissions": {text, 2, 1},
		"a new file":                    {&File{FileChange: session.FileChange{Path: "/n", Op: overlay.Create, Kind: overlay.File}, Own: []byte("n\n")}, 1, 0},
		"binary":                        {newText("/b", "a\x00", "b\x00"), 1, 0},
		"a deleted file":                {&File{FileChange: session.FileChange{Path: "/d", Op: overlay.Delete, OldKind: overlay.File}, Real: []byte("d\n")}, 1, 0},
	} {
		items := c.file.Items()
		modes := 0
		for _, it := range items {
			if it.Mode {
				modes++
			}
			if it.Hunk == nil && it.Split() != nil {
				t.Errorf("%s: splits an item without a hunk", name)
			}
		}
		if len(items) != c.items || modes != c.mode {
			t.Errorf("%s: got %d items, %d of them for permissions", name, len(items), modes)
		}
	}
	items := text.Items()
	items[0].Chosen = true
	if parts, _, err := Parts(items); err != nil || len(parts) != 1 || !parts[0].Mode || parts[0].Patch != "" || parts[0].Whole {
		t.Errorf("only the permissions: got %+v, %v", parts, err)
	}
}

// approve returns whether an approval of a request is valid, if the question showed
// everything except the contents that the user saw before.
func approve(r tool.Request, before []string) error {
	rendered := slices.DeleteFunc(r.Items(), func(item string) bool {
		for i := range r.Changes {
			if item == tool.ItemContent(i) {
				return true
			}
		}
		return false
	})
	_, err := approval.CheckSeen(r, approval.Reply{Answer: tool.Answer{Verdict: tool.Approved}, Rendered: append(rendered, before...)})
	return err
}

// TestShown checks that an approval without the contents counts only for the versions that
// were on the screen.
func TestShown(t *testing.T) {
	choose := func(seen bool) (*File, Shown) {
		f := newText("/a.txt", number(nil), number(map[int]string{3: "three", 30: "thirty"}))
		items := f.Items()
		items[0].Chosen, items[0].Seen, items[1].Seen = true, seen, true
		_, shown, err := Parts(items)
		if err != nil {
			t.Fatal(err)
		}
		return f, shown
	}
	// request is what the gate asks: the change as it is on the disk then.
	request := func(real, becomes string) tool.Request {
		c := tool.DescribeChange("/a.txt", sandbox.Version{}.With([]byte(real)), []byte(real), []byte(becomes))
		return tool.Request{Digest: strings.Repeat("0123", 16), Tool: "apply_changes", Changes: []tool.Change{c}}
	}
	f, shown := choose(true)
	real, becomes := string(f.Real), number(map[int]string{3: "three"})
	for _, c := range []struct {
		name    string
		request tool.Request
		changed bool
	}{
		{"as shown", request(real, becomes), false},
		{"other content", request(real, number(map[int]string{3: "three", 4: "evil"})), true},
		{"all hunks in place of one", request(real, string(f.Own)), true},
		{"another file in the user's directory", request(number(map[int]string{40: "forty"}), becomes), true},
	} {
		before, changed := shown.Items(c.request), shown.Changed(c.request)
		if err := approve(c.request, before); (err != nil) != c.changed {
			t.Errorf("%s: approval: %v", c.name, err)
		}
		if (len(changed) == 1 && changed[0] == "/a.txt") != c.changed {
			t.Errorf("%s: changed: got %q", c.name, changed)
		}
	}
	if _, unseen := choose(false); len(unseen) > 0 {
		t.Errorf("a hunk that was not on the screen counts as shown: %v", unseen)
	}
	deleted := request(real, becomes)
	deleted.Changes[0].Op = tool.Delete
	if got := shown.Items(deleted); len(got) > 0 {
		t.Errorf("another operation counts as shown: %v", got)
	}
}

// TestObstacles checks which changes are not applied with the others.
func TestObstacles(t *testing.T) {
	paths := PathsOf(&session.Review{Files: []session.FileChange{{Path: "/new/a"}, {Path: "/new"}, {Path: "/new!"}, {Path: "/ne"}}})
	for _, c := range []struct {
		change session.FileChange
		named  bool
		want   Obstacle
	}{
		{session.FileChange{Path: "/a", Conflict: true}, true, Conflict},
		{session.FileChange{Path: "/Makefile", Protected: "Makefile"}, false, Protected},
		{session.FileChange{Path: "/Makefile", Protected: "Makefile"}, true, None},
		{session.FileChange{Path: "/pipe", Kind: overlay.Special}, true, Special},
		{session.FileChange{Path: "/new", Kind: overlay.Dir, Op: overlay.Create}, true, Covered},
		{session.FileChange{Path: "/ne", Kind: overlay.Dir, Op: overlay.Create}, true, None},
	} {
		if got := paths.ObstacleOf(c.change, c.named); got != c.want {
			t.Errorf("%+v, named %v: got %d, want %d", c.change, c.named, got, c.want)
		}
	}
}

// TestManyObstacles checks that the time for the obstacles of many new directories does not grow
// with the square of their number.
func TestManyObstacles(t *testing.T) {
	const many = 100_000 // their square takes a minute
	r := &session.Review{}
	for i := range many {
		r.Files = append(r.Files, session.FileChange{Path: fmt.Sprintf("/new/%d", i), Kind: overlay.Dir, Op: overlay.Create})
	}
	begin := time.Now()
	for paths, i := PathsOf(r), 0; i < many; i++ {
		if got := paths.ObstacleOf(r.Files[i], true); got != None {
			t.Fatalf("%s: got %d", r.Files[i].Path, got)
		}
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}
