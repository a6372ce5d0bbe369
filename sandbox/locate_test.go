package sandbox_test

import (
	"context"
	"io/fs"
	"testing"

	"github.com/golem-forge/golem/sandbox"
)

func newLimited(t *testing.T) (*sandbox.Sandbox, *sandbox.Memory) {
	t.Helper()
	m := sandbox.NewMemory(map[string]sandbox.Object{
		"a.md":         {Content: "a"},
		"dir/b.md":     {Content: "b"},
		"dir/sub/c.md": {Content: "c"},
		"link":         {Content: "dir/b.md", Mode: fs.ModeSymlink},
		"folder":       {Content: "dir", Mode: fs.ModeSymlink},
		"dangling":     {Content: "dir/new.md", Mode: fs.ModeSymlink},
		"out":          {Content: "../../x", Mode: fs.ModeSymlink},
		".git/config":  {Content: "[core]"},
	})
	s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{
		{Target: "/w", Backend: m, Access: sandbox.ReadWrite},
		{Target: "/r", Backend: sandbox.NewMemory(nil), Access: sandbox.ReadOnly},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return s, m
}

// TestLocate: Locate returns where a name leads, or the error of an operation there.
func TestLocate(t *testing.T) {
	s, m := newLimited(t)
	before := m.Files()
	for _, test := range []struct {
		name   string
		access sandbox.Access
		itself bool
		want   string
		code   sandbox.Code
	}{
		{"/w/a.md", sandbox.ReadOnly, false, "/w/a.md", ""},
		{"w:./a.md", sandbox.ReadWrite, false, "/w/a.md", ""},
		{"/w/link", sandbox.ReadOnly, false, "/w/dir/b.md", ""},
		{"/w/link", sandbox.ReadWrite, true, "/w/link", ""},
		{"/w/folder/sub/c.md", sandbox.ReadOnly, false, "/w/dir/sub/c.md", ""},
		{"/w/folder/b.md", sandbox.ReadWrite, true, "/w/dir/b.md", ""},
		{"/w/folder/not/there", sandbox.ReadWrite, false, "/w/dir/not/there", ""},
		{"/w/dangling", sandbox.ReadWrite, false, "/w/dir/new.md", ""},
		{"/w/not/there", sandbox.ReadWrite, false, "/w/not/there", ""},
		{"/", sandbox.ReadOnly, false, "/", ""},
		{"/", sandbox.ReadWrite, false, "", sandbox.ErrNotFound},
		{"/w/out", sandbox.ReadOnly, false, "", sandbox.ErrOutside},
		{"/r/x", sandbox.ReadWrite, false, "", sandbox.ErrReadOnly},
		{"/x", sandbox.ReadOnly, false, "", sandbox.ErrNotFound},
		{"/w/.git/config", sandbox.ReadWrite, false, "", sandbox.ErrProtected},
		{"/w/a.md/x", sandbox.ReadOnly, false, "", sandbox.ErrNotDir},
		{"/../x", sandbox.ReadOnly, false, "", sandbox.ErrInvalid},
	} {
		got, err := s.Locate("read", test.name, test.access, test.itself)
		if got != test.want || sandbox.CodeOf(err) != test.code {
			t.Errorf("Locate(%q, %v, %v): got %q, %v; want %q, %q", test.name, test.access, test.itself, got, err, test.want, test.code)
		}
	}
	if after := m.Files(); len(after) != len(before) {
		t.Errorf("files: got %v, want %v", after, before)
	}
}

// TestHalfLimits: a limit can forbid one half of ReadWrite. With NoDelete a file can be
// written but not deleted, with NoWrite deleted but not written.
func TestHalfLimits(t *testing.T) {
	ctx := context.Background()
	type op struct {
		name          string
		do            func(*sandbox.Sandbox) error
		writes, takes bool
	}
	ops := []op{
		{"write", func(s *sandbox.Sandbox) error { _, err := s.Write("/w/a.md", nil); return err }, true, false},
		{"write new", func(s *sandbox.Sandbox) error { _, err := s.WriteNew("/w/n.md", nil); return err }, true, false},
		{"write a program", func(s *sandbox.Sandbox) error { _, err := s.WriteProgram("/w/n.md", nil); return err }, true, false},
		{"make", func(s *sandbox.Sandbox) error { return s.MakeDir("/w/new") }, true, false},
		{"copy", func(s *sandbox.Sandbox) error { _, err := s.Copy("/w/a.md", "/w/d.md"); return err }, true, false},
		{"write through a link", func(s *sandbox.Sandbox) error { _, err := s.Write("/w/link", nil); return err }, true, false},
		{"delete", func(s *sandbox.Sandbox) error { return s.Delete("/w/a.md") }, false, true},
		{"delete all", func(s *sandbox.Sandbox) error { return s.DeleteAll(ctx, "/w/dir") }, false, true},
		{"move", func(s *sandbox.Sandbox) error { return s.Move("/w/a.md", "/w/z.md") }, true, true},
		{"move a folder", func(s *sandbox.Sandbox) error { return s.Move("/w/dir", "/w/z") }, true, true},
	}
	for _, noWrite := range []bool{false, true} {
		for _, noDelete := range []bool{false, true} {
			for _, o := range ops {
				s, m := newLimited(t)
				less, err := s.Restrict(sandbox.Limit{Path: "/w", Access: sandbox.ReadWrite, NoWrite: noWrite, NoDelete: noDelete})
				if err != nil {
					t.Fatal(err)
				}
				before := len(m.Files())
				err = o.do(less)
				refused := o.writes && noWrite || o.takes && noDelete
				if refused != (sandbox.CodeOf(err) == sandbox.ErrReadOnly) || !refused && err != nil {
					t.Errorf("no write %v, no delete %v: %s: got %v, want refused: %v", noWrite, noDelete, o.name, err, refused)
				}
				if refused && (len(m.Files()) != before || m.Files()["a.md"] != "a") {
					t.Errorf("no write %v, no delete %v: %s: refused, and the files changed: %v", noWrite, noDelete, o.name, m.Files())
				}
			}
		}
	}
}

// TestHalfLimitsBelow: a limit below a directory also stops moves and deletes of the
// directory, and moves to that name.
func TestHalfLimitsBelow(t *testing.T) {
	ctx := context.Background()
	s, m := newLimited(t)
	less, err := s.Restrict(
		sandbox.Limit{Path: "/w", Access: sandbox.ReadWrite},
		sandbox.Limit{Path: "/w/dir/sub", Access: sandbox.ReadWrite, NoDelete: true},
		sandbox.Limit{Path: "/w/new/sub", Access: sandbox.ReadWrite, NoWrite: true})
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"delete": less.DeleteAll(ctx, "/w/dir"),
		"move":   less.Move("/w/dir", "/w/z"),
	} {
		if sandbox.CodeOf(err) != sandbox.ErrReadOnly {
			t.Errorf("%s a directory that holds a limited one: got %v, want read_only", what, err)
		}
	}
	if _, err := less.Write("/w/new/sub/x", nil); sandbox.CodeOf(err) != sandbox.ErrReadOnly {
		t.Errorf("write: got %v, want read_only", err)
	}
	if m.Files()["dir/sub/c.md"] != "c" {
		t.Errorf("files: %v", m.Files())
	}
	// A second layer cannot allow what the first forbids.
	more, err := less.Restrict(sandbox.Limit{Path: "/", Access: sandbox.ReadWrite})
	if err != nil {
		t.Fatal(err)
	}
	if err := more.Delete("/w/dir/sub/c.md"); sandbox.CodeOf(err) != sandbox.ErrReadOnly {
		t.Errorf("delete under a second layer: got %v, want read_only", err)
	}
}

// TestLimitKeepsCase: on a host that ignores case, a limit decides the spelling of a new
// name, and applies to every spelling.
func TestLimitKeepsCase(t *testing.T) {
	m := sandbox.NewMemory(nil, sandbox.FoldCase)
	s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Backend: m, Access: sandbox.ReadWrite}}})
	if err != nil {
		t.Fatal(err)
	}
	less, err := s.Restrict(sandbox.Limit{Path: "/Docs/README.md", Access: sandbox.ReadWrite},
		sandbox.Limit{Path: "/docs/Sub", Access: sandbox.ReadWrite}, sandbox.Limit{Path: "/DOCS/sub/Kept", Access: sandbox.ReadOnly})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := less.Write("/Docs/README.md", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, ok := m.Files()["Docs/README.md"]; !ok {
		t.Errorf("files: got %v, want Docs/README.md", m.Files())
	}
	for _, name := range []string{"/docs/SUB/KEPT/x", "/Docs/Sub/Kept/x", "/DOCS/sub/kept"} {
		if got := less.Access(name); got != sandbox.ReadOnly {
			t.Errorf("access to %s: got %v, want ro", name, got)
		}
	}
	for _, name := range []string{"/DOCS/readme.MD", "/docs/sUB/x"} {
		if got := less.Access(name); got != sandbox.ReadWrite {
			t.Errorf("access to %s: got %v, want rw", name, got)
		}
	}
}
