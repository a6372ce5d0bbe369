package file

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/sandbox"
)

var tree = map[string]string{
	"a.md":         "alpha\nneedle\n",
	"b/c.md":       "Needle again\n",
	"b/d/e.txt":    "needle (1)\n",
	"b/d/f/g.md":   "",
	"b.d":          "between b and b/\n",
	"z/image.png":  "\x89PNG\x00needle",
	"z/long/x.txt": strings.Repeat("-", 1000) + "needle" + strings.Repeat("-", 1000) + "\n",
}

// newBothGates returns gates to the tree on the host and in memory.
func newBothGates(t *testing.T) map[string]*tool.Gate {
	disk, _ := newGate(t, tree)
	return map[string]*tool.Gate{"disk": disk, "memory": memoryGate(t, tree)}
}

func TestListFiles(t *testing.T) {
	for kind, g := range newBothGates(t) {
		for args, want := range map[string]string{
			`{}`:                               "a.md\nb/\nb.d\nz/\n",
			`{"path":"b"}`:                     "c.md\nd/\n",
			`{"path":"/b","depth":2}`:          "c.md\nd/\nd/e.txt\nd/f/\n",
			`{"path":"/b","depth":4611686018}`: "c.md\nd/\nd/e.txt\nd/f/\nd/f/g.md\n",
			`{"path":"/b","depth":-1}`:         "c.md\nd/\n",
			`{"path":"b","pattern":"*.md"}`:    "c.md\nd/f/g.md\n",
			`{"pattern":"b/**/*.md"}`:          "b/c.md\nb/d/f/g.md\n",
			`{"pattern":"*.go"}`:               "no file below / matches *.go\n",
			`{"cursor":"b"}`:                   "b.d\nz/\n",
			`{"cursor":"bb"}`:                  "z/\n",
			`{"depth":9,"cursor":"b/d/e.txt"}`: "b/d/f/\nb/d/f/g.md\nb.d\nz/\nz/image.png\nz/long/\nz/long/x.txt\n",
			`{"cursor":"zz"}`:                  "/: nothing here\n",
		} {
			if got := callOK(t, g, "list_files", args); got != want {
				t.Errorf("%s, %s:\ngot  %q\nwant %q", kind, args, got, want)
			}
		}
		checkContains(t, callRefused(t, g, "list_files", `{"path":"/bb"}`, sandbox.ErrNotFound), "list /bb", "there is /b")
		checkContains(t, callRefused(t, g, "list_files", `{"path":"/a.md"}`, sandbox.ErrNotDir), "the path needs a directory where there is a file")
	}
}

// TestListLinks checks that a list shows the targets of symlinks that stay inside.
func TestListLinks(t *testing.T) {
	g, dir := newGate(t, tree)
	for name, target := range map[string]string{"in": "b/c.md", "gone": "b/none", "out": "../../etc/passwd", "abs": "/etc/passwd", "loop": "loop", "dir": "b", "odd -> b": "b"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	got := callOK(t, g, "list_files", `{"depth":5}`)
	for _, line := range []string{"in -> b/c.md", "gone -> b/none", "dir -> b", `"odd -> b" -> b`,
		"out -> (not followed: it points out of the mounts)", "abs -> (not followed: it points out of the mounts)"} {
		checkContains(t, "\n"+got, "\n"+line+"\n")
	}
	if strings.Contains(got, "passwd") || strings.Contains(got, "dir/") {
		t.Errorf("a symlink was followed, or names an outside file: %s", got)
	}
}

// TestListPages reads long lists by their cursors. A page has 1,000 names, and all pages
// together are the list.
func TestListPages(t *testing.T) {
	files := map[string]string{}
	var names []string
	for i := range 2500 {
		name := fmt.Sprintf("d%d/f%05d.txt", i%3, i)
		files[name] = "hit\n"
		names = append(names, name)
	}
	slices.Sort(names)
	g := memoryGate(t, files)
	for _, c := range []struct {
		tool, args string
		pages      int
		want       []string
	}{
		{"list_files", `"path":"/d0"`, 1, trimPrefixes(names, "d0/")},
		{"list_files", `"depth":2`, 3, slices.Sorted(slices.Values(append([]string{"d0", "d1", "d2"}, names...)))},
		{"list_files", `"pattern":"**/*.txt"`, 3, names},
		{"find_files", `"pattern":"*"`, 3, filterPrefix(names, "/")},
	} {
		var got []string
		pages := 0
		for cursor := "-"; cursor != ""; pages++ {
			args := c.args
			if pages > 0 {
				args += fmt.Sprintf(`,"cursor":%q`, cursor)
			}
			r := call(t, g, c.tool, "{"+args+"}")
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			d := r.Data.(*listData)
			if cursor = d.Cursor; cursor != "" {
				checkContains(t, r.Text, "continue with cursor "+cursor+"]")
				if len(d.Entries) != 1000 {
					t.Errorf("%s: a page of %d", c.args, len(d.Entries))
				}
			}
			for _, e := range d.Entries {
				got = append(got, e.Name)
			}
		}
		if !slices.Equal(got, c.want) || pages != c.pages {
			t.Errorf("%s %s: %d names on %d pages, want %d on %d", c.tool, c.args, len(got), pages, len(c.want), c.pages)
		}
	}
	checkContains(t, callOK(t, g, "list_files", `{"depth":2}`), "[more follow; continue with cursor d1/")
	checkContains(t, callOK(t, g, "find_files", `{"pattern":"*"}`), "[more follow; continue with cursor /d1/")
}

// trimPrefixes returns the names that have the prefix, without it.
func trimPrefixes(names []string, prefix string) (list []string) {
	for _, name := range names {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			list = append(list, rest)
		}
	}
	return list
}

// filterPrefix returns the names with a prefix.
func filterPrefix(names []string, prefix string) (list []string) {
	for _, name := range names {
		list = append(list, prefix+name)
	}
	return list
}

func TestFindFiles(t *testing.T) {
	for kind, g := range newBothGates(t) {
		for args, want := range map[string]string{
			`{"pattern":"*.md"}`:                      "/a.md\n/b/c.md\n/b/d/f/g.md\n",
			`{"path":"b/d","pattern":"**/*"}`:         "/b/d/e.txt\n/b/d/f/g.md\n",
			`{"path":"b","pattern":"d/*"}`:            "/b/d/e.txt\n",
			`{"pattern":"*.md","cursor":"/b/c.md"}`:   "/b/d/f/g.md\n",
			`{"pattern":"{a,c}.md"}`:                  "/a.md\n/b/c.md\n",
			`{"pattern":"*.md","cursor":"/zzz"}`:      "no file below / matches *.md\n",
			`{"path":"/b/d/f/","pattern":"/b/**/g*"}`: "/b/d/f/g.md\n",
		} {
			if got := callOK(t, g, "find_files", args); got != want {
				t.Errorf("%s, %s:\ngot  %q\nwant %q", kind, args, got, want)
			}
		}
		for _, pattern := range []string{"[", "", "{a", `\`, strings.Repeat("{a,b}", 20)} {
			for _, name := range []string{"find_files", "list_files", "sandbox_list"} {
				if name == "list_files" && pattern == "" {
					continue
				}
				checkContains(t, callRefused(t, g, name, fmt.Sprintf(`{"pattern":%q}`, pattern), sandbox.ErrInvalid), "is not a pattern; *.md")
			}
		}
		callRefused(t, g, "find_files", `{}`, "invalid_args")
		callRefused(t, g, "find_files", `{"path":"/none","pattern":"*"}`, sandbox.ErrNotFound)
		if got, want := callOK(t, g, "sandbox_list", `{}`), "/a.md\n/b.d\n/b/c.md\n/b/d/e.txt\n/b/d/f/g.md\n/z/image.png\n/z/long/x.txt\n"; got != want {
			t.Errorf("%s, sandbox_list:\ngot  %q\nwant %q", kind, got, want)
		}
		if got, want := callOK(t, g, "sandbox_list", `{"path":"b","pattern":"**/*.md"}`), "/b/c.md\n/b/d/f/g.md\n"; got != want {
			t.Errorf("%s, sandbox_list:\ngot  %q\nwant %q", kind, got, want)
		}
	}
}

func TestSearchFiles(t *testing.T) {
	for kind, g := range newBothGates(t) {
		long := strings.Repeat("-", 100) + "needle" + strings.Repeat("-", 294)
		for args, want := range map[string]string{
			`{"pattern":"needle"}`:                               "/a.md:2: needle\n/b/d/e.txt:1: needle (1)\n/z/long/x.txt:1: …" + long + "…\n[6 files searched, 1 binary skipped]\n",
			`{"pattern":"needle","ignore_case":true,"path":"b"}`: "/b/c.md:1: Needle again\n/b/d/e.txt:1: needle (1)\n[3 files searched]\n",
			`{"pattern":"^n.*\\d\\)$","glob":"*.txt"}`:           "/b/d/e.txt:1: needle (1)\n[2 files searched]\n",
			`{"pattern":"(1)","literal":true,"path":"/b"}`:       "/b/d/e.txt:1: needle (1)\n[3 files searched]\n",
			`{"pattern":"needle","path":"/a.md"}`:                "/a.md:2: needle\n[1 file searched]\n",
			`{"pattern":"needle","path":"/b/c.md"}`:              "no match\n[1 file searched]\n",
			`{"pattern":"needle","path":"b","limit":1}`:          "/b/d/e.txt:1: needle (1)\n[3 files searched]\n",
		} {
			if got := callOK(t, g, "search_files", args); got != want {
				t.Errorf("%s, %s:\ngot  %q\nwant %q", kind, args, got, want)
			}
		}
		checkContains(t, callRefused(t, g, "search_files", `{"pattern":"f(x"}`, sandbox.ErrInvalid), "missing closing )", "literal: true")
		for _, args := range []string{`{"pattern":""}`, `{"pattern":"a\nb"}`, `{"pattern":"x","glob":"["}`, `{"pattern":"x","cursor":"x"}`, `{"pattern":"x","cursor":"x:y"}`} {
			callRefused(t, g, "search_files", args, sandbox.ErrInvalid)
		}
		callRefused(t, g, "search_files", `{"pattern":"x","path":"/none"}`, sandbox.ErrNotFound)
	}
}

// TestSearchPages reads matches by their cursors and checks the limit of a page.
func TestSearchPages(t *testing.T) {
	files := map[string]string{}
	var got, want []string
	for i := range 5 {
		name := fmt.Sprintf("f%d:x", i)
		files[name] = strings.Repeat("hit\nmiss\n", 100)
		for line := 1; line < 200; line += 2 {
			want = append(want, fmt.Sprintf("/%s:%d", name, line))
		}
	}
	g := memoryGate(t, files)
	for args := `{"pattern":"hit"}`; args != ""; {
		r := call(t, g, "search_files", args)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		d := r.Data.(*searchData)
		for _, m := range d.Matches {
			got = append(got, fmt.Sprintf("%s:%d", m.Path, m.Line))
		}
		if args = ""; d.Cursor != "" {
			checkContains(t, r.Text, "[more follow; continue with cursor "+d.Cursor+"]")
			args = `{"pattern":"hit","limit":77,"cursor":"` + d.Cursor + `"}`
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %d matches, want %d, each once", len(got), len(want))
	}
	g = memoryGate(t, map[string]string{"f": strings.Repeat(strings.Repeat("€", 130)+"\n", 9000)})
	if r := call(t, g, "search_files", `{"pattern":"€","limit":1000000}`); len(r.Text) > maxPage+1000 || r.Data.(*searchData).Cursor == "" {
		t.Errorf("a page of %d bytes", len(r.Text))
	}
}

// TestPagesAreComplete reads more results than one page has, in one file and in many.
// Each result occurs exactly once.
func TestPagesAreComplete(t *testing.T) {
	one := map[string]string{"f": strings.Repeat("hit\n", 15_000)}
	many := map[string]string{}
	for i := range 40 {
		many[fmt.Sprintf("d%02d/f%02d", i%7, i)] = strings.Repeat("hit\n", 1000)
	}
	names := map[string]string{}
	for i := range 12_000 {
		names[fmt.Sprintf("d%03d/f%06d", i%300, i)] = ""
	}
	for _, c := range []struct {
		files map[string]string
		tool  string
		args  string
		want  int
	}{
		{one, "search_files", `"pattern":"hit","path":"/f","limit":5000`, 15_000},
		{many, "search_files", `"pattern":"hit","limit":3000`, 40_000},
		{names, "find_files", `"pattern":"**"`, 12_000},
		{names, "list_files", `"pattern":"**"`, 12_000},
	} {
		g := memoryGate(t, c.files)
		seen, last := 0, ""
		for args := c.args; args != ""; {
			r := call(t, g, c.tool, "{"+args+"}")
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			cursor, got := pageOf(r.Data)
			for _, one := range got {
				if seen++; one <= last {
					t.Fatalf("%s: %s after %s", c.tool, one, last)
				}
				last = one
			}
			if args = ""; cursor != "" {
				args = c.args + `,"cursor":` + quoteJSON(cursor)
			}
		}
		if seen != c.want {
			t.Errorf("%s %s: %d results, want %d", c.tool, c.args, seen, c.want)
		}
	}
	checkContains(t, call(t, memoryGate(t, names), "sandbox_list", `{}`).String(), "/d249/f011949\n", "these are only the first")
}

// pageOf returns the cursor of a page and its results in order.
func pageOf(data any) (cursor string, list []string) {
	switch d := data.(type) {
	case *listData:
		for _, e := range d.Entries {
			list = append(list, e.Name)
		}
		return d.Cursor, list
	case *searchData:
		for _, m := range d.Matches {
			list = append(list, fmt.Sprintf("%s:%08d", m.Path, m.Line))
		}
		return d.Cursor, list
	}
	return "", nil
}

// TestCutHasNoCursor checks that an incomplete walk shows its results without a cursor.
func TestCutHasNoCursor(t *testing.T) {
	d := &searchData{Cut: sandbox.CutTime}
	text := d.fill(slices.Repeat([]sandbox.Match{{Path: "/f", Line: 1, Text: strings.Repeat("x", 300)}}, 2000))
	checkContains(t, text, " more were found and are not shown]", "other files may be anywhere: it took too long; name a directory further down")
	if d.Cursor != "" || strings.Contains(text, "cursor") {
		t.Errorf("the incomplete result has the cursor %q", d.Cursor)
	}
	ctx, end := context.WithCancel(t.Context())
	end()
	g := memoryGate(t, map[string]string{"f": "x"})
	r, err := findPage(ctx, g.Files, findArgs{Path: "/", Pattern: "*"}, false)
	if found := r.Data.(*listData); err != nil || found.Cut != sandbox.CutCancelled || found.Cursor != "" {
		t.Errorf("got %+v, %v", found, err)
	}
}

// TestCursorAsShown passes cursors back exactly as the text shows them, with quotes.
func TestCursorAsShown(t *testing.T) {
	files := map[string]string{}
	for i := range 1500 {
		files[fmt.Sprintf("note%04d \u2764\ufe0f.txt", i)] = "hit\n"
	}
	g := memoryGate(t, files)
	for name, args := range map[string]string{"list_files": `"depth":1`, "find_files": `"pattern":"*"`, "search_files": `"pattern":"hit","limit":1000`} {
		first := call(t, g, name, "{"+args+"}")
		_, rest, _ := strings.Cut(first.Text, "continue with cursor ")
		cursor, _, _ := strings.Cut(rest, "]\n")
		if given, _ := pageOf(first.Data); given != cursor || !strings.HasPrefix(cursor, `"`) {
			t.Errorf("%s: the cursor is %q, shown as %q", name, given, cursor)
		}
		checkContains(t, callOK(t, g, name, "{"+args+`,"cursor":`+quoteJSON(cursor)+"}"), "note1000 ", "note1499 ")
		checkContains(t, callRefused(t, g, name, "{"+args+`,"cursor":"\"x"}`, sandbox.ErrInvalid), "a cursor is what an earlier answer gave")
	}
	checkContains(t, callRefused(t, g, "read_file", `{"path":"\"/note0000 \\u2764\\ufe0f.txt\""}`, sandbox.ErrNotFound), "printed in quotes without them")
	checkContains(t, callRefused(t, g, "edit_file", `{"path":"/\"note0000 \\u2764\\ufe0f.txt\"","edits":[{"old":"a","new":"b"}]}`, sandbox.ErrNotFound), "printed in quotes")
}

// TestSearchLarge checks that a search reports files that are too large to search.
func TestSearchLarge(t *testing.T) {
	g, _ := newGate(t, map[string]string{"large": strings.Repeat(strings.Repeat("x", 99)+"\n", sandbox.MaxSearch/100+1), "small": "x\n"})
	checkContains(t, callRefused(t, g, "search_files", `{"pattern":"x","path":"/large"}`, sandbox.ErrTooLarge), "16 MiB", "read_file")
	checkContains(t, callOK(t, g, "search_files", `{"pattern":"x"}`), "/small:1: x\n[1 file searched]\n[1 file larger than 16 MiB not searched")
}

func TestFileInfo(t *testing.T) {
	g, dir := newGate(t, map[string]string{"a.sh": "echo\n", ".git/config": "x"})
	os.Chmod(filepath.Join(dir, "a.sh"), 0o750)
	os.Symlink("a.sh", filepath.Join(dir, "link"))
	os.Link(filepath.Join(dir, "a.sh"), filepath.Join(dir, "hard"))
	info, err := os.Stat(filepath.Join(dir, "a.sh"))
	if err != nil {
		t.Fatal(err)
	}
	modified := info.ModTime().UTC().Format("2006-01-02T15:04:05Z")
	for _, c := range []struct {
		path string
		want infoData
	}{
		{"a.sh", infoData{Path: "/a.sh", Size: 5, Modified: modified, Mode: "0750", Links: 2, Writable: true}},
		{"link", infoData{Path: "/link", LeadsTo: "/a.sh", Size: 5, Modified: modified, Mode: "0750", Links: 2, Writable: true}},
		{".git/config", infoData{Path: "/.git/config", Size: 1, Mode: "0644"}},
	} {
		r := call(t, g, "file_info", `{"path":"`+c.path+`"}`)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		got := r.Data.(infoData)
		checkContains(t, r.Text, c.want.Path+": file, ", "; mode "+got.Mode, "; modified "+got.Modified, "; version "+got.Version)
		if v, err := sandbox.ParseVersion(got.Version); err != nil || v.IsZero() {
			t.Errorf("%s: version %q", c.path, got.Version)
		}
		if got.Version = ""; c.want.Modified == "" {
			got.Modified = ""
		}
		if got != c.want {
			t.Errorf("got  %+v\nwant %+v", got, c.want)
		}
	}
	checkContains(t, callOK(t, g, "file_info", `{"path":"link"}`), "points to /a.sh", "2 hard links", "may be written")
	checkContains(t, callOK(t, g, "file_info", `{"path":".git/config"}`), "may not be written")
	checkContains(t, callOK(t, g, "file_info", `{"path":"/"}`), "/: directory; mode ")
	callRefused(t, g, "file_info", `{"path":"/none"}`, sandbox.ErrNotFound)
	callRefused(t, g, "file_info", `{"path":"/a.sh/b"}`, sandbox.ErrNotDir)
	b, err := json.Marshal(call(t, g, "file_info", `{"path":"/"}`).Data)
	if err != nil {
		t.Fatal(err)
	}
	checkContains(t, string(b), `"path":"/"`, `"isDirectory":true`, `"writable":true`)
}

func TestFileExists(t *testing.T) {
	g, dir := newGate(t, tree)
	os.Symlink("b", filepath.Join(dir, "in"))
	os.Symlink("/etc", filepath.Join(dir, "out"))
	for path, want := range map[string]string{
		"/a.md": "file", "b": "directory", "/": "directory", "in": "directory", "in/c.md": "file",
		"/none": "", "/a.md/b": "", "/none/x": "", "in/none": "", "in/c.md/x": "",
	} {
		r := call(t, g, "file_exists", `{"path":"`+path+`"}`)
		if r.Err != nil {
			t.Errorf("%s: %v", path, r.Err)
			continue
		}
		if got := r.Data.(existsData); got.Type != want || got.Exists != (want != "") {
			t.Errorf("%s: got %+v, want %q", path, got, want)
		}
	}
	callRefused(t, g, "file_exists", `{"path":""}`, sandbox.ErrInvalid)
	callRefused(t, g, "file_exists", `{"path":"../x"}`, sandbox.ErrInvalid)
	callRefused(t, g, "file_exists", `{"path":"out/passwd"}`, sandbox.ErrOutside)
}

// TestSmallGrant: a worker that has two directories sees the path to them and nothing
// else.
func TestSmallGrant(t *testing.T) {
	g, _ := newGate(t, tree)
	g.Grant.Files = policy.AllFiles().With(sandbox.Limit{Path: "/b/d", Access: sandbox.ReadOnly}, sandbox.Limit{Path: "/z", Access: sandbox.ReadWrite})
	var err error
	if g.Files, err = g.Grant.Files.Apply(g.Files); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ tool, args, want string }{
		{"list_files", `{}`, "b/\nz/\n"},
		{"list_files", `{"path":"b"}`, "d/\n"},
		{"list_files", `{"depth":3}`, "b/\nb/d/\nb/d/e.txt\nb/d/f/\nz/\nz/image.png\nz/long/\nz/long/x.txt\n"},
		{"find_files", `{"pattern":"*.md"}`, "/b/d/f/g.md\n"},
		{"search_files", `{"pattern":"needle","path":"/b"}`, "/b/d/e.txt:1: needle (1)\n[2 files searched]\n"},
		{"file_exists", `{"path":"/a.md"}`, "/a.md: no\n"},
		{"file_exists", `{"path":"/b"}`, "/b: yes, a directory\n"},
		{"sandbox_list", `{"path":"/b"}`, "/b/d/e.txt\n/b/d/f/g.md\n"},
	} {
		if got := callOK(t, g, c.tool, c.args); got != c.want {
			t.Errorf("%s %s:\ngot  %q\nwant %q", c.tool, c.args, got, c.want)
		}
	}
	checkContains(t, callRefused(t, g, "read_file", `{"path":"/a.md"}`, sandbox.ErrNotFound), "list / to see what is there")
	callRefused(t, g, "read_file", `{"path":"/b"}`, sandbox.ErrIsDir)
	checkContains(t, callOK(t, g, "file_info", `{"path":"/b/d/e.txt"}`), "may not be written")
	checkContains(t, callOK(t, g, "file_info", `{"path":"/z/image.png"}`), "may be written")
}

// stopping is a journal that cancels the context of a call after the call has started.
type stopping struct{ end context.CancelFunc }

func (s stopping) Write(r audit.Record, wait audit.Wait) error {
	if wait < r.Least() {
		return errors.New("the journal is not waited for")
	}
	if r.Kind == audit.Intent {
		s.end()
	}
	return nil
}

// TestCancelled cancels calls that have started. Each returns and says that it was
// stopped.
func TestCancelled(t *testing.T) {
	g, dir := newGate(t, tree)
	bigFile(t, filepath.Join(dir, "big"), 5_000_000)
	for _, c := range []tool.Call{
		{Tool: "list_files", Args: []byte(`{"depth":5}`)},
		{Tool: "list_files", Args: []byte(`{"pattern":"*"}`)},
		{Tool: "find_files", Args: []byte(`{"pattern":"*"}`)},
		{Tool: "search_files", Args: []byte(`{"pattern":"needle"}`)},
		{Tool: "sandbox_list"},
		{Tool: "read_file", Args: []byte(`{"path":"big"}`)},
		{Tool: "read_files", Args: []byte(`{"paths":["big"]}`)},
	} {
		ctx, end := context.WithCancel(t.Context())
		g.Journal = stopping{end}
		r := g.Do(ctx, policy.Model, c)
		if r.Err != nil && r.Err.Code != errTimeout {
			t.Errorf("%s: %v", c.Tool, r.Err)
		}
		checkContains(t, r.String(), "it was stopped")
	}
}

// slow is a memory backend in which the directory "slow" opens only when goOn is closed.
type slow struct {
	*sandbox.Memory
	reached, goOn chan struct{}
}

func (s slow) Open(name string) (sandbox.File, error) {
	if name == "slow" {
		close(s.reached)
		<-s.goOn
	}
	return s.Memory.Open(name)
}

// TestReadDoesNotWait reads a file during a search for names. The search continues only
// after the read.
func TestReadDoesNotWait(t *testing.T) {
	s := slow{sandbox.NewMemory(map[string]sandbox.Object{"a": {Content: "one\n"}, "slow/b": {}}), make(chan struct{}), make(chan struct{})}
	g := gateOf(t, sandbox.Mount{Target: "/", Backend: s, Access: sandbox.ReadOnly})
	found := make(chan tool.Result)
	go func() { found <- call(t, g, "find_files", `{"pattern":"*"}`) }()
	<-s.reached
	checkContains(t, callOK(t, g, "read_file", `{"path":"a"}`), "one")
	close(s.goOn)
	if r := <-found; r.Text != "/a\n/slow/b\n" {
		t.Errorf("found %q", r)
	}
}

// TestOlderNames checks that every unlisted tool is an older name of a listed one, so
// that rules about the listed one apply to it.
func TestOlderNames(t *testing.T) {
	offered := map[string]bool{}
	for _, tool := range Tools() {
		if !tool.Unlisted {
			offered[tool.Name] = true
		} else if !offered[tool.AliasOf] {
			t.Errorf("%s is an older name of %q, which is not offered", tool.Name, tool.AliasOf)
		}
	}
}
