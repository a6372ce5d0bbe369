package file

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/sandbox"
)

func TestMove(t *testing.T) {
	s := newScene(t, map[string]string{"a": "one", "d/x": "x", "d/e/y": "yy", "b": "two"})
	r := s.must("move_file", args{"from": "/a", "to": "/new/a"})
	s.want("proj/new/a", "one")
	s.want("proj/a", "(no such file or directory)")
	if r.Data != (Moved{"/a", "/new/a"}) || r.Changes[0].Op != tool.Move || r.Changes[0].To != "/new/a" || r.Changes[0].Base != filecontent.Hash([]byte("one")) {
		t.Errorf("%+v", r)
	}
	r = s.must("move_file", args{"from": "/d", "to": "/dir"})
	if s.want("proj/dir/e/y", "yy"); r.Text != "moved /d to /dir: a directory with 2 files, 1 directory, 3 bytes" {
		t.Errorf("%q", r.Text)
	}
	before := s.tree("proj")
	s.fails(sandbox.ErrExists, "move_file", args{"from": "/b", "to": "/new/a"}, "delete_file it first")
	s.fails(sandbox.ErrExists, "move_file", args{"from": "/b", "to": "/dir"}, "name the file: /dir/b")
	s.fails(sandbox.ErrExists, "move_file", args{"from": "/b", "to": "/b"}, "the same")
	s.fails(sandbox.ErrNotFound, "move_file", args{"from": "/none", "to": "/x"})
	s.fails(sandbox.ErrInvalid, "move_file", args{"from": "/dir", "to": "/dir/in/itself"})
	if after := s.tree("proj"); after != before {
		t.Errorf("%s\nwas\n%s", after, before)
	}
}

func TestCopy(t *testing.T) {
	s := newScene(t, map[string]string{"a": "one", "d/x": "x", "b": "two"})
	check(t, os.Chmod(s.host("proj/a"), 0o755))
	r := s.must("copy_file", args{"from": "/a", "to": "/new/a"})
	s.want("proj/new/a", "one")
	s.want("proj/a", "one")
	if info, err := os.Stat(s.host("proj/new/a")); err != nil || info.Mode() != 0o755 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if r.Changes[0].Op != tool.Copy || r.Changes[0].To != "/new/a" || r.Changes[0].Base == "" || r.Text != "copied /a to /new/a: 3 bytes" {
		t.Errorf("%+v", r)
	}
	before := s.tree("proj")
	s.fails(sandbox.ErrIsDir, "copy_file", args{"from": "/d", "to": "/e"}, "only files can be copied")
	s.fails(sandbox.ErrExists, "copy_file", args{"from": "/a", "to": "/d"}, "name the file: /d/a")
	s.fails(sandbox.ErrExists, "copy_file", args{"from": "/a", "to": "/b"})
	s.fails(sandbox.ErrNotFound, "copy_file", args{"from": "/none", "to": "/x"})
	if after := s.tree("proj"); after != before {
		t.Errorf("%s\nwas\n%s", after, before)
	}
}

// TestChangedAtThePrompt: an approval is for the state that the user saw. If that changes
// during the prompt, golem does nothing and keeps the foreign change.
func TestChangedAtThePrompt(t *testing.T) {
	files := map[string]string{"a": "one\n", "d/x": "x", "d/y": "y"}
	for _, row := range []struct {
		tool string
		args args
		then func(s *scene)
	}{
		{"write_file", args{"path": "/a", "content": "two\n"}, func(s *scene) { s.put("proj/a", "foreign\n") }},
		{"write_file", args{"path": "/a", "content": "two\n"}, func(s *scene) { check(s.t, os.Remove(s.host("proj/a"))) }},
		{"write_file", args{"path": "/new", "content": "two\n"}, func(s *scene) { s.put("proj/new", "foreign\n") }},
		{"edit_file", oneEdit("/a", "one", "two"), func(s *scene) { s.put("proj/a", "one\nforeign\n") }},
		{"move_file", args{"from": "/a", "to": "/b"}, func(s *scene) { s.put("proj/a", "ONE\n") }},
		{"move_file", args{"from": "/d", "to": "/b"}, func(s *scene) { s.put("proj/d/x", "foreign") }},
		{"copy_file", args{"from": "/a", "to": "/b"}, func(s *scene) { s.put("proj/a", "ONE\n") }},
		{"write_file", args{"path": "/a", "content": "two\n"}, func(s *scene) { check(s.t, os.Chmod(s.host("proj/a"), 0o755)) }},
		{"edit_file", oneEdit("/a", "one", "two"), func(s *scene) { check(s.t, os.Chmod(s.host("proj/a"), 0o755)) }},
		{"move_file", args{"from": "/a", "to": "/b"}, func(s *scene) { check(s.t, os.Chmod(s.host("proj/a"), 0o755)) }},
		{"copy_file", args{"from": "/a", "to": "/b"}, func(s *scene) { check(s.t, os.Chmod(s.host("proj/a"), 0o755)) }},
		{"move_file", args{"from": "/d", "to": "/b"}, func(s *scene) { check(s.t, os.Chmod(s.host("proj/d/x"), 0o755)) }},
		{"delete_file", args{"path": "/a"}, func(s *scene) { s.put("proj/a", "ONE\n") }},
		{"delete_file", args{"path": "/d", "recursive": true}, func(s *scene) { s.put("proj/d/z", "foreign") }},
		{"delete_file", args{"path": "/d", "recursive": true}, func(s *scene) { s.put("proj/d/x", "X") }},
		{"delete_file", args{"path": "/d", "recursive": true}, func(s *scene) { check(s.t, os.Remove(s.host("proj/d/x"))) }},
	} {
		s := newScene(t, files)
		after := ""
		s.during = func() { row.then(s); after = s.tree("proj") }
		s.fails(sandbox.ErrConflict, row.tool, row.args, "meanwhile")
		if got := s.tree("proj"); len(s.asked) != 1 || got != after {
			t.Errorf("%s %v: asked %d times; the files are\n%s\nand were\n%s", row.tool, row.args, len(s.asked), got, after)
		}
		if kept := s.kept[0]; kept.Digest != s.asked[0].Digest || kept.Digest == "" || s.asked[0].Changes[0].Base == "" && row.args["path"] != "/new" {
			t.Errorf("%s: the journal does not record what was shown: %+v", row.tool, kept)
		}
	}
	s := newScene(t, files)
	s.during = func() { s.put("proj/b", "foreign") }
	s.fails(sandbox.ErrExists, "move_file", args{"from": "/a", "to": "/b"})
	s.fails(sandbox.ErrExists, "copy_file", args{"from": "/a", "to": "/b"})
	s.want("proj/a", "one\n")
	s.want("proj/b", "foreign")
}

func TestDelete(t *testing.T) {
	s := newScene(t, map[string]string{"a": "one\ntwo", "bin": "\x00", "large": strings.Repeat("x\n", maxMourned), "d/x": "x", "d/e/y": "yy"})
	check(t, os.Mkdir(s.host("proj/empty"), 0o777))
	s.link("d", "proj/link")
	r := s.must("delete_file", args{"path": "/a"})
	if want := "--- a/a\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-two\n\\ No newline at end of file\n"; r.Changes[0].Diff != want || r.Changes[0].Op != tool.Delete {
		t.Errorf("%+v\nwant %s", r.Changes, want)
	}
	for _, name := range []string{"/bin", "/large", "/link", "/empty"} {
		r := s.must("delete_file", args{"path": name})
		if c := r.Changes[0]; c.Diff != "" || c.About == "" || c.Base == "" {
			t.Errorf("%+v", c)
		}
	}
	s.want("proj/d/x", "x")
	s.fails(sandbox.ErrNotEmpty, "delete_file", args{"path": "/d"}, "3 entries", "set recursive")
	s.want("proj/d/x", "x")
	asked := len(s.asked)
	r = s.must("delete_file", args{"path": "/d", "recursive": true})
	if r.Data != (Deleted{"/d", 2, 2}) || s.asked[asked].Changes[0].About != "a directory with 2 files, 1 directory, 3 bytes" {
		t.Errorf("%+v %+v", r.Data, s.asked[asked])
	}
	s.fails(sandbox.ErrNotFound, "delete_file", args{"path": "/d"})
	if got := s.tree("proj"); strings.Count(got, "\n") != 1 {
		t.Errorf("left: %s", got)
	}
}

// TestDeleteIsLimited checks that golem does not delete or move a directory with more
// than maxTree entries.
func TestDeleteIsLimited(t *testing.T) {
	objects := map[string]sandbox.Object{}
	for i := range maxTree + 1 {
		objects[fmt.Sprintf("d/%d/%d/%d", i%47, i/47%47, i)] = sandbox.Object{}
	}
	memory := sandbox.NewMemory(objects)
	box, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Backend: memory, Access: sandbox.ReadWrite}}})
	check(t, err)
	s := newScene(t, nil)
	s.over(box)
	s.fails(sandbox.ErrLimit, "delete_file", args{"path": "/d", "recursive": true}, "one by one")
	s.fails(sandbox.ErrLimit, "move_file", args{"from": "/d", "to": "/e"})
	if len(s.asked) != 0 || len(memory.Files()) != len(objects) {
		t.Errorf("asked %d times, %d of %d files left", len(s.asked), len(memory.Files()), len(objects))
	}
}

// TestModesAreShown checks that an approval request shows the permission bits that a file
// keeps or gets, and that its digest covers them.
func TestModesAreShown(t *testing.T) {
	for _, row := range []struct {
		tool string
		args args
		want string
	}{
		{"write_file", args{"path": "/a", "content": "two"}, "0755"},
		{"edit_file", oneEdit("/a", "one", "two"), "0755"},
		{"copy_file", args{"from": "/a", "to": "/b"}, "0755"},
		{"move_file", args{"from": "/a", "to": "/b"}, "4755"},
		{"move_file", args{"from": "/d", "to": "/b"}, "0750"},
		{"move_file", args{"from": "/l", "to": "/b"}, ""},
		{"write_file", args{"path": "/new", "content": "two"}, ""},
	} {
		s := newScene(t, map[string]string{"a": "one", "d/x": "x"})
		s.link("a", "proj/l")
		check(t, os.Chmod(s.host("proj/a"), 0o755|os.ModeSetuid))
		check(t, os.Chmod(s.host("proj/d"), 0o750))
		s.must(row.tool, row.args)
		if got := s.asked[0].Changes[0].Mode; got != row.want {
			t.Errorf("%s %v: mode %q, want %q", row.tool, row.args, got, row.want)
		}
	}
	digests := map[string]bool{}
	for _, mode := range []os.FileMode{0o644, 0o755} {
		s := newScene(t, map[string]string{"a": "one"})
		check(t, os.Chmod(s.host("proj/a"), mode))
		s.must("edit_file", oneEdit("/a", "one", "two"))
		digests[s.asked[0].Digest] = true
	}
	if len(digests) != 2 {
		t.Errorf("%d digests of 2 modes", len(digests))
	}
}

// TestEffectsReachBelow checks that effects say whether they include everything below a
// directory.
func TestEffectsReachBelow(t *testing.T) {
	s := newScene(t, map[string]string{"a": "one", "d/x": "x"})
	for _, row := range []struct {
		tool string
		args args
		want string
	}{
		{"list_files", args{"path": "/d"}, "read /d/**"},
		{"find_files", args{"path": "/d", "pattern": "*"}, "read /d/**"},
		{"search_files", args{"path": "/d", "pattern": "x"}, "read /d/**"},
		{"sandbox_list", args{"path": "/d"}, "read /d/**"},
		{"list_files", args{}, "read /**"},
		{"read_file", args{"path": "/a"}, "read /a"},
		{"file_info", args{"path": "/d"}, "read /d"},
		{"file_exists", args{"path": "/d"}, "read /d"},
		{"copy_file", args{"from": "/a", "to": "/b"}, "read /a, write /b"},
		{"move_file", args{"from": "/d", "to": "/e"}, "read /d/**, delete /d/**, write /e/**"},
		{"delete_file", args{"path": "/b"}, "delete /b"},
		{"delete_file", args{"path": "/e", "recursive": true}, "delete /e/**"},
	} {
		s.kept = nil
		s.must(row.tool, row.args)
		if got := strings.Join(s.kept[0].Effects, ", "); got != row.want {
			t.Errorf("%s %v: %s, want %s", row.tool, row.args, got, row.want)
		}
	}
}

// TestTooLargeToMove: a file that is too large for its target stays, and the error says
// what to do.
func TestTooLargeToMove(t *testing.T) {
	small := sandbox.Mount{Target: "/small", Backend: sandbox.NewMemory(nil), Access: sandbox.ReadWrite, MaxFileBytes: 10}
	s := newScene(t, map[string]string{"a": "more than ten bytes"}, small)
	s.fails(sandbox.ErrTooLarge, "copy_file", args{"from": "/a", "to": "/small/a"}, "19 bytes, at most 10", "use it where it is")
	if len(s.asked) > 0 {
		t.Error("golem asked about an impossible change")
	}
	s.fails(sandbox.ErrTooLarge, "move_file", args{"from": "/a", "to": "/small/a"}, "19 bytes, at most 10", "use it where it is")
	check(t, os.Truncate(s.host("proj/a"), sandbox.MaxCopy+1))
	s.fails(sandbox.ErrTooLarge, "copy_file", args{"from": "/a", "to": "/b"}, "use it where it is")
}

// TestDeleteNamesRecursive: without recursive, golem keeps a directory that is not empty,
// or is no longer empty.
func TestDeleteNamesRecursive(t *testing.T) {
	s := newScene(t, nil)
	check(t, os.Mkdir(s.host("proj/d"), 0o777))
	s.during = func() { s.put("proj/d/x", "x") }
	s.fails(sandbox.ErrConflict, "delete_file", args{"path": "/d"}, "meanwhile")
	s.during = nil
	s.fails(sandbox.ErrNotEmpty, "delete_file", args{"path": "/d"}, "set recursive")
	s.want("proj/d/x", "x")
}

// TestCopyAndMoveShowWhatTheyCarry: an approval request for a copy or a move holds the
// version of a file that stays in its mount. If the file moves to another mount or gets a
// name that programs run, the request holds its content, or says that it does not.
func TestCopyAndMoveShowWhatTheyCarry(t *testing.T) {
	t.Parallel()
	type files = map[string]string
	all := files{"in/note": "steal\n", "in/other": "x\n", "in/large": strings.Repeat("x\n", maxHashed), "in/program": "\x7fELF\x00", "in/empty": "",
		"a/plain": "all:\n", "a/b/c": "c", "d/workflows/ci.yml": "on: push\n", "e/x": "x",
		"tp/.github/workflows/ci.yml": "on: push\n", "tp/.husky/pre-commit": "x\n", "tp/x.sh": "x\n"}
	at := t.TempDir()
	for name, content := range all {
		check(t, os.MkdirAll(filepath.Dir(filepath.Join(at, name)), 0o755))
		check(t, os.WriteFile(filepath.Join(at, name), []byte(content), 0o644))
	}
	s := newScene(t, all, sandbox.Mount{Target: "/in", Source: sandbox.Host(filepath.Join(at, "in")), Access: sandbox.ReadWrite})
	for _, row := range []struct {
		tool, from, to string
		diff, omitted  string // parts of them, "" for none
	}{
		{"copy_file", "/a/plain", "/a/copy", "", ""},
		{"copy_file", "/in/note", "/in/copy", "", ""},
		{"copy_file", "/in/note", "/copy", "+steal", ""},
		{"copy_file", "/in/empty", "/empty", "", ""},
		{"copy_file", "/in/large", "/large", "", "too large"},
		{"copy_file", "/in/large", "/in/large2", "", ""},
		{"copy_file", "/in/program", "/program", "", "binary"},
		{"copy_file", "/a/plain", "/a/Makefile", "+all:", ""},
		{"copy_file", "/a/Makefile", "/a/b/Makefile", "+all:", ""},
		{"copy_file", "/tp/.github/workflows/ci.yml", "/.github/workflows/ci.yml", "+on: push", ""},
		{"copy_file", "/tp/x.sh", "/x.sh", "", ""},
		{"move_file", "/in/other", "/moved", "+x", ""},
		{"move_file", "/moved", "/moved2", "", ""},
		{"move_file", "/a/b/c", "/package.json", "+c", ""},
		{"move_file", "/e", "/f", "", ""},
		{"move_file", "/d", "/.forgejo", "", "2 names, which becomes code"},
		{"move_file", "/tp/.husky", "/.husky", "", "1 name, which becomes code"},
	} {
		r := s.must(row.tool, args{"from": row.from, "to": row.to})
		name := row.tool + " " + row.from + " " + row.to
		q := s.asked[len(s.asked)-1]
		if len(q.Changes) != 1 {
			t.Fatalf("%s: %d changes", name, len(q.Changes))
		}
		c := q.Changes[0]
		if (c.Diff == "") != (row.diff == "") || !strings.Contains(c.Diff, row.diff) {
			t.Errorf("%s: the question has the diff %q, want %q", name, cutText(c.Diff), row.diff)
		}
		if (c.Omitted == "") != (row.omitted == "") || !strings.Contains(c.Omitted, row.omitted) || (c.Omitted == "") != (len(q.Omitted()) == 0) {
			t.Errorf("%s: the question omits %q, %q, want %q", name, c.Omitted, q.Omitted(), row.omitted)
		}
		if c.Becomes == "" && len(c.Tree) == 0 {
			t.Errorf("%s: the question names no version: %+v", name, c)
		}
		if r.Changes[0].Diff != "" || strings.Contains(r.String(), "steal") {
			t.Errorf("%s: the caller gets the content: %s", name, cutText(r.String()))
		}
	}
}

// TestCopyAndMoveShowWhatNobodySaw: if the worker writes the old name without a question, and
// the policy asks about the new one, the request has the content with its warnings.
func TestCopyAndMoveShowWhatNobodySaw(t *testing.T) {
	t.Parallel()
	s := newScene(t, map[string]string{"drafts/a": "pay\n", "drafts/b": "pay\n", "drafts/d/x": "x", "drafts/e/in/x": "x", "drafts/large": strings.Repeat("x\n", maxHashed),
		"drafts/bidi": "a\u202eb\n", "drafts/Makefile": "all:\n", "in/a": "pay\n", "final/a": "seen\n", "asks/d/x": "x"})
	s.link("a", "proj/drafts/link")
	s.gate.Grant.Files = policy.AllFiles().With(sandbox.Limit{Path: "/", Access: sandbox.ReadWrite}, sandbox.Limit{Path: "/in", Access: sandbox.ReadOnly})
	s.gate.Grant.Approvals = policy.Approvals{}.With(
		policy.Rule{Verb: policy.Write, Target: "/drafts", Approval: policy.PreApproved}, policy.Rule{Verb: policy.Delete, Target: "/drafts", Approval: policy.PreApproved})
	for _, row := range []struct {
		tool, from, to         string
		diff, omitted, warning string // parts of them, "" for none
	}{
		{"copy_file", "/drafts/a", "/final/b", "+pay", "", ""},
		{"move_file", "/drafts/b", "/final/c", "+pay", "", ""},
		{"copy_file", "/drafts/bidi", "/final/bidi", "+a", "", "bidi"},
		{"copy_file", "/drafts/large", "/final/large", "", "too large", ""},
		{"copy_file", "/drafts/Makefile", "/Makefile", "+all:", "", "a build runs it"},
		{"copy_file", "/in/a", "/final/e", "+pay", "", ""}, // others may have written it
		{"copy_file", "/final/a", "/final/f", "", "", ""},
		{"move_file", "/drafts/d", "/final/d", "", "1 name, which no question has shown", ""},
		{"move_file", "/drafts/e", "/final/e2", "", "2 names, which no question has shown", ""},
		{"move_file", "/asks/d", "/final/d2", "", "", ""},
		{"move_file", "/drafts/link", "/final/link", "", "where the symlink leads", ""},
	} {
		s.asked = nil
		s.must(row.tool, args{"from": row.from, "to": row.to})
		name := row.tool + " " + row.from + " " + row.to
		if len(s.asked) != 1 {
			t.Fatalf("%s: asked %d times", name, len(s.asked))
		}
		c := s.asked[0].Changes[0]
		if (c.Diff == "") != (row.diff == "") || !strings.Contains(c.Diff, row.diff) {
			t.Errorf("%s: the question has the diff %q, want %q", name, cutText(c.Diff), row.diff)
		}
		if (c.Omitted == "") != (row.omitted == "") || !strings.Contains(c.Omitted, row.omitted) {
			t.Errorf("%s: the question omits %q, want %q", name, c.Omitted, row.omitted)
		}
		if got := fmt.Sprint(c.Flags); row.warning != "" && !strings.Contains(got, row.warning) {
			t.Errorf("%s: the question warns %s, want %q", name, got, row.warning)
		}
	}
}

// TestCopyAndMoveShowTheMode checks that the text of the request names unusual
// permission bits of a new file.
func TestCopyAndMoveShowTheMode(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	s := newScene(t, map[string]string{"run": "x\n", "note": "x\n", "run2": "x\n"}, sandbox.Mount{Target: "/out", Source: sandbox.Host(out), Access: sandbox.ReadWrite})
	check(t, os.Chmod(s.host("proj/run"), 0o755))
	check(t, os.Chmod(s.host("proj/run2"), 0o777))
	for _, row := range []struct{ tool, from, to, want string }{
		{"copy_file", "/run", "/copy", "2 bytes, mode 0755"},
		{"copy_file", "/run", "/out/run", "2 bytes, mode 0755"},
		{"copy_file", "/note", "/out/note", "2 bytes"},
		{"move_file", "/run2", "/moved", "2 bytes"},
		{"move_file", "/moved", "/out/moved", "2 bytes, mode 0777"},
	} {
		s.must(row.tool, args{"from": row.from, "to": row.to})
		if got := s.asked[len(s.asked)-1].Changes[0].About; got != row.want {
			t.Errorf("%s %s %s: got %q, want %q", row.tool, row.from, row.to, got, row.want)
		}
	}
}

func cutText(text string) string { return text[:min(len(text), 200)] }
