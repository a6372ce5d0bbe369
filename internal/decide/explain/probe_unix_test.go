//go:build unix

package explain

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/golem-forge/golem/sandbox"
)

// makeTree makes a tree with one of each kind of file, in two directories of dir.
func makeTree(t *testing.T, dir string) {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"root/in/sub", "root/out/deep/er", "root/out/empty", "root/out/repo/.git", "other"} {
		must(os.MkdirAll(at(name), 0o777))
	}
	for _, name := range []string{"secret", "root/a.txt", "root/in/b.txt", "root/in/sub/c", "root/out/old", "root/out/deep/er/x",
		"root/out/repo/.git/config", "root/out/main.worker", "root/out/nul", "other/o"} {
		must(os.WriteFile(at(name), []byte(name), 0o666))
	}
	must(os.WriteFile(at("root/out/locked"), []byte("x"), 0o444))
	for name, target := range map[string]string{
		"root/out/leaves": "../../secret", "root/out/absolute": "/etc/passwd", "root/out/file": "old",
		"root/out/folder": "deep/er", "root/out/nowhere": "deep/new", "root/out/worse": "none/../old",
		"root/out/round": "round", "root/out/toin": "../in", "root/out/tolink": "folder", "root/out/topipe": "pipe",
		"root/out/towork": "main.worker",
	} {
		must(os.Symlink(target, at(name)))
	}
	must(os.Link(at("secret"), at("root/out/second")))
	must(syscall.Mkfifo(at("root/out/pipe"), 0o666))
}

// trees are ways to mount the directories that plant makes.
var trees = []struct {
	name   string
	mounts []sandbox.Mount
}{
	{"root", []sandbox.Mount{{Target: "/", Source: "root", Access: sandbox.ReadWrite}}},
	{"read-only root", []sandbox.Mount{{Target: "/", Source: "root", Access: sandbox.ReadOnly}}},
	{"two", []sandbox.Mount{{Target: "/in", Source: "root/in", Access: sandbox.ReadOnly}, {Target: "/out", Source: "root/out", Access: sandbox.ReadWrite}}},
	{"inside", []sandbox.Mount{{Target: "/", Source: "root", Access: sandbox.ReadWrite}, {Target: "/in", Source: "root/in", Access: sandbox.ReadOnly},
		{Target: "/out/deep/er", Source: "other", Access: sandbox.ReadWrite}}},
	{"shared", []sandbox.Mount{{Target: "/out", Source: "root/out", Access: sandbox.ReadWrite}, {Target: "/d", Source: "root/out/deep", Access: sandbox.ReadOnly}}},
}

// names are asked about in every tree.
var names = []string{
	"/", "/in", "/out", "/a.txt", "/in/b.txt", "/in/sub/c", "/in/sub", "/in/new", "/new", "/no/such/folder/x",
	"/out/old", "/out/new", "/out/new/er/x", "/out/old/x", "/out/old/x/y", "/out/empty", "/out/empty/x", "/out/deep", "/out/deep/er", "/out/deep/er/x",
	"/out/repo", "/out/repo/.git", "/out/repo/.git/config", "/out/repo/.GIT/x", "/out/main.worker", "/out/golem-forge.config.yaml",
	"/out/locked", "/out/second", "/out/pipe", "/out/pipe/x", "/out/nul", "/out/nul.txt", "/out/con/x",
	"/out/leaves", "/out/leaves/x", "/out/absolute", "/out/file", "/out/file/x", "/out/folder", "/out/folder/x", "/out/folder/new/x",
	"/out/nowhere", "/out/nowhere/x", "/out/worse", "/out/round", "/out/round/x", "/out/toin", "/out/toin/b.txt", "/out/toin/new", "/out/tolink/x",
	"/out/topipe", "/out/towork", "/d/er/x", "/d/new", "out/old", "out:old", "/out/../a.txt", "/../x", "", "/out/.golem-tmp-1", "/\xff",
}

// TestProbeAgrees asks about every name in every tree, and then does the operation. Both
// have the same result, and asking changes nothing.
func TestProbeAgrees(t *testing.T) {
	umask := syscall.Umask(0o022)
	defer syscall.Umask(umask)
	said := map[bool]int{}
	for _, tree := range trees {
		dir := t.TempDir()
		makeTree(t, dir)
		before := snapshot(t, dir)
		fresh := ""
		for _, name := range names {
			for _, op := range Operations() {
				answer := askIn(t, dir, tree.mounts, op, name)
				if after := snapshot(t, dir); after != before {
					t.Fatalf("%s: %s %q: asking has changed the tree:\n%s\nbefore:\n%s", tree.name, op, name, after, before)
				}
				if fresh == "" {
					fresh = t.TempDir()
					makeTree(t, fresh)
				}
				want := sandbox.CodeOf(doOperation(t, fresh, tree.mounts, op, name))
				if want == "" && op != "read" {
					fresh = "" // the operation has changed it
				}
				got := sandbox.Code("")
				if answer.Error != nil {
					got = answer.Error.Code
				}
				if got != want || answer.Allowed != (want == "") {
					t.Errorf("%s: %s %q: answered %v %q, but the operation returned %q", tree.name, op, name, answer.Allowed, got, want)
				}
				if answer.Reason == "" || strings.Contains(answer.Reason, dir) {
					t.Errorf("%s: %s %q: reason %q", tree.name, op, name, answer.Reason)
				}
				said[answer.Allowed]++
			}
		}
	}
	if said[true] < 100 || said[false] < 100 {
		t.Errorf("answers: %v; too few of one kind to check anything", said)
	}
}

// TestPipeIsNotOpened asks about a pipe with a waiting writer, which does not notice.
func TestPipeIsNotOpened(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o666); err != nil {
		t.Fatal(err)
	}
	woken := make(chan error)
	go func() {
		f, err := os.OpenFile(pipe, os.O_WRONLY, 0)
		if err == nil {
			f.Close()
		}
		woken <- err
	}()
	mounts := []sandbox.Mount{{Target: "/", Access: sandbox.ReadWrite}}
	for range 20 { // the writer may be late
		for _, op := range Operations() {
			if a := askIn(t, dir, mounts, op, "/pipe"); a.Allowed != (op == "delete") {
				t.Fatalf("%s: got %v, %s", op, a.Allowed, a.Reason)
			}
		}
		select {
		case err := <-woken:
			t.Fatalf("the writer at the pipe noticed: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	reader, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := <-woken; err != nil {
		t.Fatal(err)
	}
}

func askIn(t *testing.T, dir string, mounts []sandbox.Mount, op, name string) Answer {
	t.Helper()
	var list []*Mount
	for _, m := range mounts {
		list = append(list, &Mount{From: "--mount", Source: sandbox.Host(filepath.Join(dir, string(m.Source))), Target: m.Target, Access: m.Access})
	}
	s, err := NewSandbox(list, nil)
	if err != nil {
		t.Fatal(err)
	}
	return question{op, name, s, list}.answer(context.Background())
}

// doOperation does the operation that askIn asks about.
func doOperation(t *testing.T, dir string, mounts []sandbox.Mount, op, name string) error {
	t.Helper()
	var c sandbox.Config
	for _, m := range mounts {
		m.Source = sandbox.Host(filepath.Join(dir, string(m.Source)))
		c.Mounts = append(c.Mounts, m)
	}
	s, err := sandbox.New(c)
	if err != nil {
		t.Fatal(err)
	}
	switch op {
	case "write":
		_, err = s.Write(name, []byte("new"))
	case "delete":
		if err = s.Delete(name); sandbox.CodeOf(err) == sandbox.ErrNotEmpty {
			err = s.DeleteAll(context.Background(), name)
		}
	default:
		if info, e := s.Stat(name); e == nil && info.IsDir() {
			_, err = s.List(name)
		} else {
			_, err = s.Read(name)
		}
	}
	return err
}

// snapshot describes all files below dir, with their times.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		fmt.Fprintf(&b, "%s %v %d %d %v", name, info.Mode(), info.Size(), st.Ino, info.ModTime())
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %q", content)
		}
		b.WriteString("\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
