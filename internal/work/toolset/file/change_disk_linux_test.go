package file

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/sandbox"
)

// TestFullDisk: on a full disk a change returns an error that says so. The old file stays
// whole, and nothing of the new one remains.
func TestFullDisk(t *testing.T) {
	if !testutil.Mounts(t) {
		return
	}
	s := newScene(t, nil)
	check(t, unix.Mount("tmpfs", s.host("proj"), "tmpfs", 0, "size=256k"))
	t.Cleanup(func() { unix.Unmount(s.host("proj"), unix.MNT_DETACH) })
	box, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Source: sandbox.Host(s.host("proj")), Access: sandbox.ReadWrite}}})
	check(t, err)
	s.over(box)
	s.put("proj/a", strings.Repeat("old ", 40_000))
	before := s.tree("proj")
	large := strings.Repeat("new ", 250_000)
	s.fails(sandbox.ErrLimit, "write_file", args{"path": "/a", "content": large}, "no space")
	s.fails(sandbox.ErrLimit, "write_file", args{"path": "/b", "content": large}, "no space")
	s.fails(sandbox.ErrLimit, "edit_file", args{"path": "/a", "edits": []args{{"old": "old", "new": "longer than that", "replace_all": true}}}, "no space")
	s.fails(sandbox.ErrLimit, "copy_file", args{"from": "/a", "to": "/b"}, "no space")
	if after := s.tree("proj"); after != before {
		t.Errorf("%.200s…\nbecame\n%.200s…", before, after)
	}
	s.must("write_file", args{"path": "/a", "content": "new"})
	s.want("proj/a", "new")
}

// TestPipe checks that a named pipe does not block a call. golem refuses to read or write
// it at once, and can delete it.
func TestPipe(t *testing.T) {
	s := newScene(t, nil)
	check(t, unix.Mkfifo(s.host("proj/pipe"), 0o666))
	s.fails(sandbox.ErrNotRegular, "write_file", args{"path": "/pipe", "content": "x"})
	s.fails(sandbox.ErrNotRegular, "edit_file", oneEdit("/pipe", "x", "y"))
	s.fails(sandbox.ErrNotRegular, "copy_file", args{"from": "/pipe", "to": "/free"})
	s.fails(sandbox.ErrExists, "make_directory", args{"path": "/pipe"})
	s.must("move_file", args{"from": "/pipe", "to": "/pipe2"})
	s.must("delete_file", args{"path": "/pipe2"})
}
