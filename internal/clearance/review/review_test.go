package review_test

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/files/patch"
	"github.com/golem-forge/golem/internal/people/visible"
)

// newFileChange returns the change from one content to another. "-" means no file.
func newFileChange(path, old, new string) review.FileChange {
	c := review.FileChange{Path: path, Operation: "update", OldMode: "100644", Mode: "100644"}
	if old == "-" {
		c.Operation, c.OldMode, old = "create", "000000", ""
	} else {
		c.Old = []byte(old)
	}
	if new == "-" {
		c.Operation, c.Mode, new = "delete", "000000", ""
	} else {
		c.New = []byte(new)
	}
	c.OldSize, c.Size = int64(len(old)), int64(len(new))
	c.Binary = strings.Contains(old+new, "\x00")
	if !c.Binary {
		c.Diff = patch.Unified("a/"+strings.TrimPrefix(path, "/"), "b/"+strings.TrimPrefix(path, "/"), old, new)
	}
	return c
}

func with(c review.FileChange, set func(*review.FileChange)) review.FileChange {
	set(&c)
	return c
}

// TestFlags checks the flags of single files.
func TestFlags(t *testing.T) {
	linked := func(path, to string) review.FileChange {
		return with(newFileChange(path, "-", to), func(c *review.FileChange) { c.Mode = "120000" })
	}
	modes := func(old, new string) review.FileChange {
		return with(newFileChange("a/b", "x\n", "x\n"), func(c *review.FileChange) { c.OldMode, c.Mode = old, new })
	}
	for _, test := range []struct {
		name   string
		change review.FileChange
		want   []string // parts of the expected flags, in order
	}{
		{"nothing", newFileChange("a/b.txt", "-", "hello\n"), nil},
		{"an agent's rules", newFileChange("x/AGENTS.md", "-", "hello\n"), []string{"/x/AGENTS.md: becomes code: read by coding agents as instructions"}},
		{"deleted", newFileChange(".github/workflows/ci.yml", "a\n", "-"), []string{"code: runs in CI; it is deleted"}},
		{"mode", modes("100644", "100755"), []string{"/a/b: mode: MODE 100644 -> 100755"}},
		{"mode back", modes("100755", "100644"), []string{"MODE 100755 -> 100644"}},
		{"a program", with(newFileChange("run", "-", "x\n"), func(c *review.FileChange) { c.Mode = "100755" }), []string{"MODE 100755: a program"}},
		{"to a link", with(linked("a", "b"), func(c *review.FileChange) { c.OldMode, c.Operation = "100644", "update" }), []string{"MODE 100644 -> 120000", "SYMLINK -> b"}},
		{"link", linked("a/b", "c"), []string{"link: SYMLINK -> c"}},
		{"link up", linked("a/b", "../c"), []string{"SYMLINK -> ../c"}},
		{"link out", linked("a/b", "../../c"), []string{"SYMLINK -> ../../c leaves the repository"}},
		{"link out by and by", linked("a/b", "x/../../../c"), []string{"leaves the repository"}},
		{"link up and down", linked("a/b", "x/../y"), []string{"another symlink on the way"}},
		{"absolute link", linked("a", "/etc/passwd"), []string{"SYMLINK -> /etc/passwd leaves the repository"}},
		{"link on Windows", linked("a", `..\..\x`), []string{"leaves the repository"}},
		{"link to a drive", linked("a", `C:\x`), []string{"leaves the repository"}},
		{"link into git", linked("a", ".Git/config"), []string{"points into git's own files"}},
		{"link with a line end", linked("a", "x\n\x1b[2J"), []string{`SYMLINK -> "x\n\x1b[2J"`}},
		{"link that is not known", with(linked("a", "x"), func(c *review.FileChange) { c.New, c.Cut = nil, true }), []string{"too long to be shown"}},
		{"submodule", with(newFileChange("dep", "-", "submodule 0123\n"), func(c *review.FileChange) { c.Mode = "160000" }), []string{"submodule: SUBMODULE"}},
		{"hard link", with(newFileChange("a", "-", "x\n"), func(c *review.FileChange) { c.Links = 2 }), []string{"hardlink: the file that was staged had 2 names"}},
		{"passed through", with(newFileChange("a", "-", "x\n"), func(c *review.FileChange) { c.Passed = "/in/x" }), []string{"unchanged: its bytes are those of /in/x"}},
		{"binary", newFileChange("a.bin", "-", "x\x00"), []string{"binary: 2 bytes, application/octet-stream, binary, sha256 "}},
		{"a binary program", newFileChange("a", "-", "\x7fELF\x00"), []string{"binary: a program for Linux, "}},
		{"a zero byte in a script", newFileChange("a.sh", "-", "rm -rf ~\n\x00"), []string{"code: a script", "binary: zero bytes in code"}},
		{"large", with(newFileChange("a", "-", "x"), func(c *review.FileChange) { c.Cut, c.Size, c.New, c.Diff = true, 50_000_000, nil, "" }),
			[]string{"not looked at: nothing of 50 MB was looked at", "large: 50 MB"}},
		{"cut", with(newFileChange("a", "-", "x\u202e"), func(c *review.FileChange) { c.Cut, c.Size, c.Diff = true, 50_000_000, "" }),
			[]string{":1: bidi", "not looked at: only the first 4 bytes of 50 MB", "large: 50 MB"}},
		{"minified", newFileChange("a.js", "-", "ok\n"+strings.Repeat("x", 3000)), []string{"/a.js:2: minified: a line of 3000 bytes"}},
		{"beyond the screen", newFileChange("a.js", "-", "ok()"+strings.Repeat(" ", 200)+";evil()\n"), []string{"/a.js:1: invisible: a gap of 200 columns, and behind it, on no screen: ;evil()"}},
		{"indented beyond the screen", newFileChange("AGENTS.md", "-", strings.Repeat("\t", 20)+"obey\n"), []string{"code: ", "invisible: a gap of 160 columns"}},
		{"nothing beyond the screen", newFileChange("a.js", "-", "ok()"+strings.Repeat(" ", 200)+"\n"), nil},
		{"a table", newFileChange("a.txt", "-", "a"+strings.Repeat(" ", 200)+"b\n"), nil},
		{"unmerged", newFileChange("a", "x\n", "x\n<<<<<<< ours\ny\n=======\nz\n>>>>>>> theirs\n"), []string{"/a:2: unmerged: both sides of a merge"}},
		{"a worker in YAML", newFileChange("workers/new.yml", "-", "instructions: x\n"), []string{"code: has the keys of a worker of golem"}},
		{"a worker by its new content", newFileChange("main.YAML", "a: 1\n", "a: 1\ntoolsets: [shell]\n"), []string{"code: has the keys of a worker of golem"}},
		{"a worker no more", newFileChange("main.yaml", "prompt: x\n", "a: 1\n"), []string{"code: has the keys of a worker of golem"}},
		{"other YAML", newFileChange("workers/notes.yml", "-", "a: 1\nmore: {prompt: x}\n"), nil},
		{"keys of a worker in a text", newFileChange("workers/notes.txt", "-", "instructions: x\n"), nil},
		{"a line of arrows", newFileChange("a", "-", ">>>>>>> x\n<<<<<<< y\n"), nil},
		{"a long hunk", newFileChange("a", "x\n", "x\n"+strings.Repeat("line\n", 2000)), []string{"/a:2: large: more than 1500 lines"}},
		{"trojan source", newFileChange("a.py", "a\nb\nc\n", "a\nb\nif x != \"user\u202e \u2066# admin\u2069 \u2066\": c\n"),
			[]string{"/a.py:3: bidi: U+202E right-to-left override, shown as ⟨U+202E⟩: if x != \"user⟨U+202E⟩", "U+2066", "U+2069", "U+2066"}},
		{"only what is added", newFileChange("a.md", "x\u202ey\nb\n", "x\u202ey\nc\n"), nil},
		{"what goes", newFileChange("a.md", "x\u202ey\nb\n", "b\n"), nil},
		{"tags", newFileChange("b.md", "-", "x\U000e0072\U000e0075\U000e006e\n"), []string{`/b.md:1: invisible: 3 tag characters hide the text "run", shown as ⟨U+…⟩: x⟨U+E0072⟩⟨U+E0075⟩⟨U+E006E⟩`}},
		{"soft hyphen", newFileChange("b.md", "-", "\nso\u00adft"), []string{"/b.md:2: invisible: U+00AD soft hyphen"}},
		{"byte order mark", newFileChange("b.md", "-", "\ufeffok\n"), nil},
		{"byte order mark later", newFileChange("b.md", "-", "ok\n\ufeffx\n"), []string{":2: invisible"}},
		{"emoji", newFileChange("b.md", "-", "👩\u200d🚀 ❤\ufe0f 🇩🇪\n"), nil},
		{"line ends of Windows", newFileChange("b.md", "-", "a\r\nb\r\n"), nil},
		{"escape", newFileChange("b.md", "-", "\x1b[8mhidden\n"), []string{`:1: control: U+001B escape, shown as ⟨U+001B⟩: ⟨U+001B⟩[8mhidden`}},
		{"look-alike", newFileChange("b.go", "-", "var p\u0430ss int\n"), []string{":1: lookalike: letters of other scripts in a word that looks like pass, shown as ⟨U+…⟩: var p⟨U+0430⟩ss int"}},
		{"prose", newFileChange("b.md", "-", "Привет, роса\n"), nil},
		{"many", newFileChange("b.md", "-", strings.Repeat("\u200b\n", 500)), append(slices.Repeat([]string{"zero width space"}, 10), "and 490 more in this file")},
		{"a name", newFileChange("a\u202egpj.exe", "-", ""), []string{"bidi: U+202E"}},
		{"a name with lines", newFileChange("a\n@@ -1 +7 @@", "x\ny\n", "x\ny\n\u200b\n"), []string{"control: a line end in the name", ":3: invisible"}},
		{"a name that looks like another", newFileChange("p\u0430ss.txt", "-", ""), []string{"lookalike: "}},
	} {
		flags := review.Flags(test.change)
		ok := len(flags) == len(test.want)
		for i, f := range flags {
			ok = ok && strings.Contains(f.String(), test.want[i])
			mustBeSafe(t, f.String(), "")
		}
		if !ok {
			t.Errorf("%s: got %q, want %q", test.name, flags, test.want)
		}
	}
}

// TestChangesTogether checks the flags of changes as a whole.
func TestChangesTogether(t *testing.T) {
	made := func(paths ...string) []review.FileChange {
		var list []review.FileChange
		for _, p := range paths {
			op := "create"
			if p[0] == '-' {
				op, p = "delete", p[1:]
			}
			list = append(list, review.FileChange{Path: p, Operation: op})
		}
		return list
	}
	for _, test := range []struct {
		changes []review.FileChange
		beside  []string
		want    []string
	}{
		{made("a", "b/a", "c"), nil, nil},
		{made("-README", "readme"), nil, []string{"/readme: case: RENAME-CASE /README -> /readme"}},
		{made("a/X", "a/x"), nil, []string{"/a/X: case: the same as /a/x"}},
		{made("/a/X", "/a/x"), nil, []string{"/a/X: case: the same as /a/x"}},
		{made("Docs/a", "docs/b"), nil, []string{"/Docs: case: the same as /docs"}},
		{made("a/b", "A"), nil, []string{"case: the same as /a "}},
		{made("caf\u00e9", "cafe\u0301"), nil, []string{"case: "}},
		{made("\u00c9", "e\u0301"), nil, []string{"case: "}},
		{made("K", "\u212a"), nil, []string{"case: "}},
		{made("a.", "a"), nil, []string{"case: "}},
		{made("\xff", "\xfe"), nil, nil},
		{made("makefile"), []string{"Makefile"}, []string{"/makefile: case: the same as /Makefile"}},
		{made("x"), []string{"Makefile", "makefile"}, nil},
		{made("x/HEAD", "x/objects/y", "x/refs/z"), nil, []string{"/x: bare repository: HEAD, objects and refs"}},
		{made("x/HEAD", "x/commondir"), nil, []string{"/x: bare repository: HEAD and commondir"}},
		{made("HEAD", "commondir"), nil, []string{"bare repository: "}},
		{made("x/HEAD", "x/objects/y"), []string{"x/refs/z"}, []string{"/x: bare repository: "}},
		{made("x/HEAD", "-x/objects/y", "x/refs/z"), nil, nil},
		{made("HEAD", "objects"), nil, nil},
		{made("-a", "-b"), nil, []string{"delete many: DELETE 2 files"}},
		{made("-a", "b"), nil, nil},
		{[]review.FileChange{{Path: "d", Operation: "delete", Files: 100}, {Path: "e", Operation: "create"}}, nil, nil}, // the directory has its own flag
		{[]review.FileChange{{Path: "d", Operation: "delete", Files: 100}, {Path: "x", Operation: "delete"}, {Path: "e", Operation: "create"}}, nil, []string{"DELETE 101 files"}},
		{made("-a", "-b", "-c", "-d", "-e", "-f", "-g", "-h", "-i", "-j", "k"), nil, []string{"DELETE 10 files"}},
	} {
		flags := review.All(test.changes, test.beside...)
		ok := len(flags) == len(test.want)
		if strings.HasPrefix(test.changes[0].Path, "/") && (len(flags) == 0 || flags[0].Path != test.changes[0].Path) {
			t.Errorf("%v: a flag is about another path: %v", test.changes, flags)
		}
		for i, f := range flags {
			ok = ok && strings.Contains(f.String(), test.want[i])
		}
		if !ok {
			t.Errorf("%v beside %v: got %v, want %q", test.changes, test.beside, flags, test.want)
		}
	}
}

// TestScripts checks which changes of a manifest are reported.
func TestScripts(t *testing.T) {
	for _, test := range []struct{ old, new, want string }{
		{"-", `{"name":"x","scripts":{"postinstall":"curl"}}`, "these change: scripts.postinstall"},
		{`{"version":"1","scripts":{"test":"a"}}`, `{"version":"2","scripts":{"test":"a"}}`, "do not change"},
		{`{"scripts":{"test":"a","x":"y"}}`, `{"scripts":{"test":"b","x":"y"}}`, "these change: scripts.test"},
		{`{"bin":"a"}`, `{"bin":"b"}`, "these change: bin"},
		{`{}`, `{"dependencies":{"evil":"1","a\u001b":"2"}}`, `these change: dependencies.a\x1b, dependencies.evil`},
		{`{"a":1}`, `{"name":1,"scripts":{},"scripts":{"test":"x"}}`, "what it names"},
		{`{}`, `{`, "what it names"},
		{`nonsense`, `{}`, "what it names"},
	} {
		flags := review.Flags(newFileChange("x/package.json", test.old, test.new))
		if len(flags) != 1 || !strings.HasSuffix(flags[0].Text, test.want) {
			t.Errorf("%s to %s: got %v, want %s", test.old, test.new, flags, test.want)
		}
	}
}

// TestHandedBytes checks the limit on bytes that leave.
func TestHandedBytes(t *testing.T) {
	for _, test := range []struct {
		in, out int64
		most    float64
		want    bool
	}{{100, 100, 0, false}, {100, 100, 1, false}, {100, 101, 1, true}, {0, 2, 1, true}, {1000, 200, 0.1, true}, {0, 0, 0.1, false}} {
		if _, got := review.Handed(test.in, test.out, test.most); got != test.want {
			t.Errorf("%v: got %v", test, got)
		}
	}
}

// TestSummary checks the lines that describe a change.
func TestSummary(t *testing.T) {
	linked := with(newFileChange("l", "-", "/etc/passwd"), func(c *review.FileChange) { c.Mode = "120000" })
	changes := []review.FileChange{
		newFileChange("a.md", "-", strings.Repeat("x\n", 25)),
		newFileChange("/x.go", "a\nb\n", "a\nc\nd\ne\n"),
		newFileChange("old.txt", "1\n2\n", "-"),
		newFileChange("empty", "-", ""),
		newFileChange("p.png", "-", "\x89PNG\r\n\x1a\n\x00"+strings.Repeat("x", 118_000)),
		with(newFileChange("run.sh", "x\n", "x\n"), func(c *review.FileChange) { c.Mode = "100755" }),
		with(newFileChange("new.sh", "-", "x\n"), func(c *review.FileChange) { c.Mode = "100755" }),
		linked,
		with(newFileChange("dep", "-", "submodule 0123\n"), func(c *review.FileChange) { c.Mode = "160000" }),
		with(newFileChange("big", "-", ""), func(c *review.FileChange) { c.Cut, c.New, c.Size = true, nil, 20_000_000 }),
		newFileChange("a b\n\x1b[2J", "-", "x\n"),
	}
	var out strings.Builder
	for _, c := range changes {
		for _, line := range review.Lines(c) {
			fmt.Fprintln(&out, line)
		}
	}
	want := `A /a.md (+25)
M /x.go (+3 -1)
D /old.txt (-2)
A /empty (empty)
A /p.png (118 KB, image/png, binary, sha256 SUM)
MODE 100644 -> 100755 /run.sh
A /new.sh (+1)
MODE 100755: a program /new.sh
A SYMLINK /l -> /etc/passwd leaves the repository
A SUBMODULE /dep submodule 0123
A /big (20 MB, too large to be compared)
A "/a b\n\x1b[2J" (+1)
`
	got := out.String()
	if i := strings.Index(got, "sha256 "); i >= 0 && len(got) > i+71 {
		got = got[:i+7] + "SUM" + got[i+71:]
	}
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestText checks how a diff is printed.
func TestText(t *testing.T) {
	c := newFileChange("a\n@@ x", "a\nb\nc\n", "a\n\x1b[2J\u202e\nc\n")
	for _, test := range []struct {
		colours bool
		most    int
		want    string
	}{
		{false, 100, `M "/a\n@@ x" (+1 -1)
  @ @@ -1,3 +1,3 @@
  │ a
  - b
  + \x1b[2J\u202e
  │ c
`},
		{true, 3, "M \"/a\\n@@ x\" (+1 -1)\n  \x1b[36m@ @@ -1,3 +1,3 @@\x1b[0m\n  │ a\n  \x1b[31m- b\x1b[0m\n  \x1b[33m… 3 of 5 lines shown; look there\x1b[0m\n"},
		{false, -1, "M \"/a\\n@@ x\" (+1 -1)\n  … 0 of 5 lines shown; look there\n"},
	} {
		var out strings.Builder
		if err := review.Text(&out, c, review.How{Page: visible.Page{Colours: test.colours}, Most: test.most, More: "look there"}); err != nil || out.String() != test.want {
			t.Errorf("%v %d: got %v\n%s\nwant\n%s", test.colours, test.most, err, out.String(), test.want)
		}
	}
	var out strings.Builder
	long := newFileChange("x", "-", strings.Repeat("é", 5000))
	review.Text(&out, long, review.How{Most: 10, More: "look there"})
	if !strings.Contains(out.String(), "bytes omitted)…é") || out.Len() > 3000 || !strings.Contains(out.String(), "long lines: 1 shown in part; look there") {
		t.Errorf("a long line: got %d bytes, %.100q", out.Len(), out.String())
	}
	out.Reset()
	if review.Text(&out, long, review.How{}); strings.Count(out.String(), "é") != 5000 {
		t.Errorf("all of a long line: got %d bytes", out.Len())
	}
}

// TestTextOfLargeFile checks that a file too large to compare is shown line by line.
func TestTextOfLargeFile(t *testing.T) {
	content := "one\n\x1b[2J\n" + strings.Repeat("x", 100_000) + "\nlast"
	c := review.FileChange{Path: "x", Operation: "create", OldMode: "000000", Mode: "100644", Size: int64(len(content)), Cut: true}
	var out strings.Builder
	if err := review.Text(&out, c, review.How{Most: 10, More: "look there"}); err != nil || !strings.Contains(out.String(), "too large to be compared; look there") {
		t.Errorf("got %v\n%s", err, out.String())
	}
	out.Reset()
	err := review.Text(&out, c, review.How{Whole: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content)), nil }})
	if err != nil || !strings.Contains(out.String(), "  + one\n  + \\x1b[2J\n  + xxx") || !strings.HasSuffix(out.String(), "x\n  + last\n") || strings.Count(out.String(), "x") < 100_000 {
		t.Errorf("got %v, %d bytes", err, out.Len())
	}
	c.Size++
	if err := review.Text(&out, c, review.How{Whole: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content)), nil }}); err == nil {
		t.Error("incomplete content was accepted as complete")
	}
}

// TestOutputLimits checks that the output is limited, and that a flag reports what was not
// examined.
func TestOutputLimits(t *testing.T) {
	var diff strings.Builder
	diff.Grow(201 << 20)
	diff.WriteString("--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+a\u200b")
	for range 200 {
		diff.WriteString(strings.Repeat("x", 1<<20))
	}
	c := review.FileChange{Path: "x", Operation: "create", OldMode: "000000", Mode: "100644", Size: 200 << 20, Diff: diff.String()}
	flags := review.Flags(c)
	if len(flags) != 4 || flags[0].Kind != review.Invisible || flags[1].Kind != review.NotSeen {
		t.Errorf("a line of 200 MB: got %v", flags)
	}
	var out bytes.Buffer
	if err := review.Text(&out, c, review.How{Page: visible.Page{Colours: true}, Most: 100}); err != nil || out.Len() > 10_000 {
		t.Errorf("a line of 200 MB: got %d bytes, %v", out.Len(), err)
	}

	diff.Reset()
	diff.WriteString("--- a/x\n+++ b/x\n")
	for i := range 100_000 {
		fmt.Fprintf(&diff, "@@ -%d,1 +%d,2 @@\n a\n+\u202e\n", i*10+1, i*10+1)
	}
	c.Diff = diff.String()
	if flags := review.Flags(c); len(flags) != 12 || flags[0].Line != 2 || flags[2].Line != 12 {
		t.Errorf("100,000 hunks: got %d, %v", len(flags), flags)
	}
	out.Reset()
	if err := review.Text(&out, c, review.How{Page: visible.Page{Colours: true}, Most: 10}); err != nil || !strings.Contains(out.String(), "10 of 300000 lines shown") {
		t.Errorf("100,000 hunks: got %s, %v", out.String(), err)
	}

	var many []review.FileChange
	for i := range 10_000 {
		deep := strings.Repeat("d/", 100) + fmt.Sprint(i)
		many = append(many, review.FileChange{Path: deep, Operation: "create"}, review.FileChange{Path: strings.ToUpper(fmt.Sprintf("f%x", i)) + "/" + deep, Operation: "create"},
			review.FileChange{Path: fmt.Sprintf("f%x", i), Operation: "create"})
	}
	if flags := review.All(many); len(flags) != 101 {
		t.Errorf("10,000 files: got %d flags", len(flags))
	}
}

// FuzzReview checks that any input gives only safe text, and not much of it.
func FuzzReview(f *testing.F) {
	f.Add("a.go", []byte("x\n"), []byte("x\n\x1b[2J\u202e\n"), uint8(0))
	f.Add("package.json", []byte(`{"scripts":{}}`), []byte(`{"scripts":{"a":"b"}}`), uint8(1))
	f.Add("l\n@@ -1 +1 @@\n", []byte(""), []byte("../../\xff\x00/\u200b"), uint8(2))
	f.Add("p\u0430y/.GIT.", []byte("\xff"), []byte("\U000e0041\ufe0f\ufe0f\r\n\f"), uint8(15))
	f.Fuzz(func(t *testing.T, path string, old, new []byte, way uint8) {
		c := newFileChange(path, string(old), string(new))
		c.Mode = []string{"100644", "100755", "120000", "160000"}[way%4]
		c.Cut = way&4 != 0
		if way&8 != 0 {
			c.Diff = string(old) // this is not a diff
		}
		if way&16 != 0 {
			c.Passed, c.Sum, c.OldMode = path, path, path
		}
		other := with(c, func(c *review.FileChange) { c.Path = strings.ToUpper(path) })
		for _, flag := range slices.Concat(review.Flags(c), review.All([]review.FileChange{c, other}, string(old))) {
			mustBeSafe(t, flag.String(), "")
			mustBeSafe(t, flag.Text, "")
		}
		var out strings.Builder
		for _, line := range slices.Concat(review.Lines(c), review.Lines(other)) {
			fmt.Fprintln(&out, line)
		}
		mustBeSafe(t, out.String(), "\n")
		out.Reset()
		review.Text(&out, c, review.How{Most: 100})
		mustBeSafe(t, out.String(), "\n\t")
		if lines := strings.Count(out.String(), "\n"); lines > 104 {
			t.Errorf("got %d lines", lines)
		}
	})
}

// mustBeSafe checks that a text is safe for a terminal.
func mustBeSafe(t *testing.T, text, kept string) {
	t.Helper()
	rest := strings.Map(func(r rune) rune {
		if strings.ContainsRune(kept, r) {
			return ' '
		}
		return r
	}, text)
	if got := visible.Text(rest); got != rest || strings.ContainsAny(rest, "\n\t") {
		t.Errorf("not safe: %q", text)
	}
}

// TestLostContent checks that a replaced directory and emptied files count as deleted.
func TestLostContent(t *testing.T) {
	var emptied, mixed []review.FileChange
	for i := range 10 {
		c := review.FileChange{Path: fmt.Sprint("f", i), Operation: "update", OldSize: 1}
		if i%2 == 0 {
			c = review.FileChange{Path: c.Path, Operation: "update", Size: 1, Emptied: true} // blank now
		}
		emptied = append(emptied, c)
		mixed = append(mixed, c, review.FileChange{Path: "new" + c.Path, Operation: "create", Size: 1}, review.FileChange{Path: "old" + c.Path, Operation: "delete"})
	}
	replaced := review.FileChange{Path: "src", Operation: "update", Files: 3}
	for want, changes := range map[string][]review.FileChange{
		"delete many: DELETE the content of 10 files":         emptied,
		"delete many: DELETE 10 files, and the content of 10": mixed,
		"delete many: DELETE 13 files, and the content of 10": append(mixed, replaced),
		"": {replaced, emptied[0], {Path: "new", Operation: "create"}},
	} {
		var got []string
		for _, f := range review.All(changes) {
			got = append(got, f.String())
		}
		if text := strings.Join(got, "\n"); text != want {
			t.Errorf("got %q, want %q", text, want)
		}
	}
	if flags := review.Flags(replaced); len(flags) != 1 || flags[0].String() != "/src: delete many: DELETE a directory with 3 files, and put a file or symlink in its place" {
		t.Errorf("a replaced directory: got %v", flags)
	}
}
