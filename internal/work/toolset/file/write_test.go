package file

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/sandbox"
)

func TestWriteNew(t *testing.T) {
	s := newScene(t, nil)
	for _, name := range []string{"write_file", "sandbox_write_text"} {
		r := s.must(name, args{"path": name + "/deep/é.md", "content": "é\n"})
		s.want("proj/"+name+"/deep/é.md", "é\n")
		got, want := r.Data.(Written), Written{"/" + name + "/deep/é.md", true, 3, filecontent.Hash([]byte("é\n"))}
		if got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		if len(r.Changes) != 1 || r.Changes[0].Op != tool.Create || r.Changes[0].Original != nil ||
			r.Changes[0].Diff != "--- /dev/null\n+++ b/"+name+"/deep/é.md\n@@ -0,0 +1 @@\n+é\n" {
			t.Errorf("%+v", r.Changes)
		}
		if !strings.HasPrefix(r.Text, "created /"+name) {
			t.Errorf("%q", r.Text)
		}
	}
	for _, k := range s.kept {
		if c, ok := k.Args["content"]; ok && c != "3 bytes" {
			t.Errorf("the journal keeps %v", c)
		}
	}
}

func TestWriteOver(t *testing.T) {
	s := newScene(t, map[string]string{"a": "one\ntwo\n", "run.sh": "#!/bin/sh\n", "large": strings.Repeat("x\n", 60_000)})
	check(t, os.Chmod(s.host("proj/run.sh"), 0o755))
	r := s.must("write_file", args{"path": "/a", "content": "one\nTWO"})
	if w := r.Data.(Written); w.IsNew || w.BytesWritten != 7 || r.Text != "wrote /a: 7 bytes, version "+w.Version {
		t.Errorf("%+v %q", w, r.Text)
	}
	c := r.Changes[0]
	if c.Op != tool.Update || c.Base != filecontent.Hash([]byte("one\ntwo\n")) || c.Original == nil || *c.Original != "one\ntwo\n" {
		t.Errorf("%+v", c)
	}
	if want := "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n one\n-two\n+TWO\n\\ No newline at end of file\n"; c.Diff != want {
		t.Errorf("%s\nwant\n%s", c.Diff, want)
	}
	if !strings.Contains(r.String(), "+TWO") {
		t.Errorf("the diff is not in %s", r)
	}
	s.must("write_file", args{"path": "/run.sh", "content": "#!/bin/bash\n"})
	if info, err := os.Stat(s.host("proj/run.sh")); err != nil || info.Mode() != 0o755 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if r := s.must("write_file", args{"path": "/large", "content": "x\n"}); r.Changes[0].Original != nil {
		t.Errorf("an original of %d bytes", len(*r.Changes[0].Original))
	}
}

// TestWriteUnchanged checks that writing the same content reveals no more than another
// write.
func TestWriteUnchanged(t *testing.T) {
	s := newScene(t, map[string]string{"a": "one\n"})
	same := s.must("write_file", args{"path": "/a", "content": "one\n"})
	other := s.must("write_file", args{"path": "/a", "content": "two\n"})
	if a, b := strings.Fields(same.Text), strings.Fields(other.Text); len(a) != len(b) || a[0] != b[0] || same.Data.(Written).BytesWritten != 4 {
		t.Errorf("got %q and %q", same.Text, other.Text)
	}
	if same.Changes[0].Diff != "" {
		t.Errorf("a diff of nothing: %s", same.Changes[0].Diff)
	}
}

func TestWriteIfVersion(t *testing.T) {
	for _, name := range []string{"write_file", "edit_file"} {
		s := newScene(t, map[string]string{"a": "one\n"})
		call := func(path, version string) args {
			a := oneEdit(path, "one", "two")
			if name == "write_file" {
				a = args{"path": path, "content": "two\n"}
			}
			a["if_version"] = version
			return a
		}
		s.fails(sandbox.ErrConflict, name, call("/a", filecontent.Hash([]byte("older"))), "read it again")
		s.fails(sandbox.ErrInvalid, name, call("/a", "yesterday"), "read_file")
		if name == "write_file" {
			s.fails(sandbox.ErrConflict, name, call("/none", filecontent.Hash([]byte("one\n"))), "no such file")
		}
		s.want("proj/a", "one\n")
		s.must(name, call("/a", filecontent.Hash([]byte("one\n"))))
		s.want("proj/a", "two\n")
		info, err := s.gate.Files.Stat("/a")
		check(t, err)
		s.put("proj/a", "one\n")
		s.fails(sandbox.ErrConflict, name, call("/a", info.Version().String()))
	}
}

// TestWriteLimits checks that golem refuses contents, sizes and names that a mount does
// not accept. It does so before it writes anything or asks for approval.
func TestWriteLimits(t *testing.T) {
	small := sandbox.NewMemory(map[string]sandbox.Object{"a.md": {Content: "one"}, "d.md/x.md": {Content: "x"}})
	box, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/small", Backend: small, Access: sandbox.ReadWrite,
		Suffixes: []string{".md", ".txt"}, MaxFileBytes: 10}}})
	check(t, err)
	s := newScene(t, nil)
	s.over(box)
	long := strings.Repeat("x", 11)
	s.fails(sandbox.ErrTooLarge, "write_file", args{"path": "/small/b.md", "content": long}, "at most 10")
	s.fails(sandbox.ErrTooLarge, "edit_file", oneEdit("/small/a.md", "one", long), "at most 10")
	s.fails(sandbox.ErrSuffix, "write_file", args{"path": "/small/b.exe", "content": "x"}, ".md, .txt")
	s.fails(sandbox.ErrIsDir, "write_file", args{"path": "/small/d.md", "content": "x"})
	s.fails(sandbox.ErrIsDir, "write_file", args{"path": "/small", "content": "x"})
	s.fails(sandbox.ErrNotDir, "write_file", args{"path": "/small/a.md/b.md", "content": "x"})
	if len(s.asked) != 0 {
		t.Errorf("asked about %v", s.asked[0].Effects)
	}
	if got := small.Files(); len(got) != 2 || got["a.md"] != "one" {
		t.Errorf("left: %v", got)
	}
}

func TestMakeDirectory(t *testing.T) {
	s := newScene(t, map[string]string{"file": "x"})
	r := s.must("make_directory", args{"path": "/a/b"})
	if len(r.Changes) != 1 || r.Changes[0].Op != tool.Create || r.Text != "made /a/b" {
		t.Errorf("%+v", r)
	}
	r = s.must("make_directory", args{"path": "/a/b"})
	if len(r.Changes) != 0 || !strings.HasPrefix(r.Text, "exists already") {
		t.Errorf("%+v", r)
	}
	s.fails(sandbox.ErrExists, "make_directory", args{"path": "/file"}, "a file has this name")
	s.want("proj/file", "x")
}

// TestChangeWithoutDiff: a file that is binary or too large has no diff. The approval
// still covers the exact bytes.
func TestChangeWithoutDiff(t *testing.T) {
	s := newScene(t, map[string]string{"bin": "a\x00b"})
	f, err := os.Create(s.host("proj/huge"))
	check(t, err)
	check(t, f.Truncate(sandbox.MaxRead+1))
	check(t, f.Close())
	digests := map[string]bool{}
	for _, content := range []string{"new", "neu"} {
		for _, path := range []string{"/bin", "/huge"} {
			s.asked = nil
			s.gate.Approver = refuser{s}
			s.do("write_file", args{"path": path, "content": content})
			c := s.asked[0].Changes[0]
			if c.Diff != "" || c.Original != nil || c.Becomes != filecontent.Hash([]byte(content)) || !strings.Contains(c.About, "3 bytes") || c.Base == "" {
				t.Errorf("%+v", c)
			}
			digests[s.asked[0].Digest] = true
		}
	}
	if len(digests) != 4 {
		t.Errorf("%d digests of 4 changes", len(digests))
	}
	s.gate.Approver = s
	s.must("write_file", args{"path": "/huge", "content": "new"})
	s.want("proj/huge", "new")
}

// refuser records the request and declines it.
type refuser struct{ *scene }

func (r refuser) Approve(ctx context.Context, q tool.Request) tool.Answer {
	r.scene.Approve(ctx, q)
	return tool.Answer{}
}

func TestDiff(t *testing.T) {
	if got, want := filecontent.Diff("/a", "/a", "one\r\ntwo\r\n", "one\r\n2\r\n"), "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n one\r\n-two\r\n+2\r\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := filecontent.Diff("/x\n+++ b/y", "/x\n+++ b/y", "a\n", "b\n"); strings.Count(got, "\n+++") != 1 {
		t.Errorf("a name forges a line of the diff:\n%s", got)
	}
	var old, new strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&old, "old %d\n", i)
		fmt.Fprintf(&new, "new %d\n", i)
	}
	got := filecontent.Diff("/a", "/a", old.String(), new.String())
	if strings.Count(got, "\n-old ") != 100_000 || strings.Count(got, "\n+new ") != 100_000 {
		t.Errorf("%d bytes, %.200q…", len(got), got)
	}
	c := tool.DescribeChange("/a", sandbox.Version{}.With([]byte("x")), []byte(strings.Repeat("x\n", filecontent.MaxCompared/2)), []byte("y\n"))
	if c.Diff != "" || !strings.Contains(c.About, fmt.Sprintf("%d → 1 lines", filecontent.MaxCompared/2)) {
		t.Errorf("%.200s %s", c.Diff, c.About)
	}
	if got := filecontent.Diff("/a", "/a", filecontent.Decode([]byte("caf\xe9\n"), false), filecontent.Decode([]byte("caf\xe8\n"), false)); !strings.Contains(got, "-café\n+cafè\n") {
		t.Errorf("%q", got)
	}
}

// TestDiffOfEncodings checks that a diff shows a change of the encoding. It also shows
// that a byte becomes the characters of its escape.
func TestDiffOfEncodings(t *testing.T) {
	for _, row := range []struct {
		why, old, new, diff string
		changes             bool
	}{
		{"to UTF-8", "caf\xe9\nline\n", "café\nline\n", "-caf\\xE9\n+café\n line\n", true},
		{"to ASCII", "caf\xe9\n", "cafe\n", "-caf\\xE9\n+cafe\n", true},
		{"to its escape", "caf\xe9\n", `caf\xE9` + "\n", "-caf\\xE9\n+caf\\\\xE9\n", true},
		{"behind a backslash", "\\\xe9\n", `\\xE9` + "\n", `-\\\xE9` + "\n" + `+\\\\xE9` + "\n", true},
		{"one of two, both mixed", "\xe9 \xff é\n", "é \xff é\n", "-\\xE9 \\xFF é\n+é \\xFF é\n", false},
		{"Latin-1 as before", "caf\xe9\n", "th\xe9\n", "-café\n+thé\n", false},
	} {
		c := tool.DescribeChange("/f", sandbox.Version{}.With([]byte(row.old)), []byte(row.old), []byte(row.new))
		if _, got, _ := strings.Cut(c.Diff, "@@\n"); got != row.diff {
			t.Errorf("%s: got %q, want %q", row.why, got, row.diff)
		}
		if got := strings.Contains(c.About, "encoding changes"); got != row.changes {
			t.Errorf("%s: %s", row.why, c.About)
		}
	}
}
