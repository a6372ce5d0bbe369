//go:build unix

package mcp

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/project"
)

// TestFaults checks, over the protocol, faults that other file servers have.
func TestFaults(t *testing.T) {
	t.Parallel()
	var lines strings.Builder
	for i := range 20 {
		fmt.Fprintf(&lines, "line %02d\n", i)
	}
	h := newTestServer(t, map[string]string{"edits.txt": lines.String(), "crlf.txt": "one\r\ntwo\r\n", "latin.txt": "caf\xe9 one\n", "in/a.txt": "a\n"})
	approve, err := project.ParseSet("--approval", "approval.mode=approve_all")
	if err != nil {
		t.Fatal(err)
	}
	h.options.Settings = []project.Setting{approve}
	if h.program, err = program.LoadMounts(h.options, h.program.Storage.Sessions.Given); err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir() + " "
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"dangling": filepath.Join(outside, "new"), "out": outside} {
		if err := os.Symlink(to, filepath.Join(h.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 8 {
		if err := syscall.Mkfifo(filepath.Join(h.dir, fmt.Sprint("fifo", i)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	big, err := os.Create(filepath.Join(h.dir, "big.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer big.Close()
	if err := big.Truncate(100 << 20); err != nil {
		t.Fatal(err)
	}
	c := h.client("2025-11-25", nil)

	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			edit := map[string]any{"path": "/edits.txt", "edits": []map[string]string{{"old": fmt.Sprintf("line %02d\n", i), "new": fmt.Sprintf("LINE %02d\n", i)}}}
			if text, ok := use(t, c, "edit_file", edit); !ok {
				t.Errorf("edit %d: got %q", i, text)
			}
		})
	}
	all.Wait()
	if got := h.file("edits.txt"); got != strings.ToUpper(lines.String()) {
		t.Errorf("20 edits at once: got %q", got)
	}
	for i := range 8 {
		if text, ok := use(t, c, "read_file", map[string]any{"path": fmt.Sprintf("/fifo%d", i)}); ok || !strings.Contains(text, "not_regular") {
			t.Errorf("a pipe: got %q", text)
		}
	}
	for _, test := range []struct {
		tool string
		args map[string]any
		ok   bool
		want string
	}{
		{"edit_file", map[string]any{"path": "/crlf.txt", "edits": []map[string]string{{"old": "two", "new": "three"}}}, true, ""},
		{"edit_file", map[string]any{"path": "/latin.txt", "edits": []map[string]string{{"old": "one", "new": "two"}}}, true, ""},
		{"edit_file", map[string]any{"path": "/in/a.txt", "edits": []map[string]string{{"old": "b", "new": "c"}}}, false, "Error: "},
		{"write_file", map[string]any{"path": "/dangling", "content": "x"}, false, "outside"},
		{"write_file", map[string]any{"path": "/out/x", "content": "x"}, false, "outside"},
		{"list_files", map[string]any{"path": "/out"}, false, "outside"},
		{"read_file", map[string]any{"path": "/../" + filepath.Base(h.dir) + " /x"}, false, "Error: "},
		{"read_file", map[string]any{"path": "/big.txt"}, false, "Error: "},
		{"search_files", map[string]any{"path": "/", "pattern": "("}, false, "Error: "},
	} {
		if text, ok := use(t, c, test.tool, test.args); ok != test.ok || !strings.Contains(text, test.want) || len(text) > 1<<20 {
			t.Errorf("%s %v: got %v, %.300q", test.tool, test.args, ok, text)
		}
	}
	if got := h.file("crlf.txt") + h.file("latin.txt") + h.file("in/a.txt"); got != "one\r\nthree\r\ncaf\xe9 two\na\n" {
		t.Errorf("got %q", got)
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("outside directory: got %v, %v", left, err)
	}
}
