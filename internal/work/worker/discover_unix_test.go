//go:build unix

package worker_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestDiscoverLinks: symlinks and named pipes do not lead out of the program, and reading
// them does not block.
func TestDiscoverLinks(t *testing.T) {
	outside := writeProgram(t, map[string]string{"out.worker": "description: secret", "sub/worker.worker": ""})
	root := writeProgram(t, map[string]string{"real.worker": "name: real"})
	for name, target := range map[string]string{
		"out.worker": filepath.Join(outside, "out.worker"), "up.worker": "../../../../../../../etc/passwd",
		"gone.worker": "nowhere", "directory": outside, "loop.worker": "loop.worker",
	} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(root, "pipe.worker"), 0o666); err != nil {
		t.Fatal(err)
	}
	type answer struct {
		got string
		err error
	}
	done := make(chan answer, 1)
	go func() {
		got, err := discover(root, ".", "directory")
		done <- answer{got, err}
	}()
	select {
	case a := <-done:
		if a.got != "real=real.worker" || a.err == nil {
			t.Fatalf("got %s, %v", a.got, a.err)
		}
		for _, want := range []string{"gone.worker: a link; a worker is a regular file inside the program, not a symlink", "loop.worker: a link", "out.worker: a link", "up.worker: a link", "pipe.worker: not a regular file", "worker_paths: directory: "} {
			if !strings.Contains(a.err.Error(), want) {
				t.Errorf("got\n%v\nwant %s", a.err, want)
			}
		}
		if text := a.err.Error(); strings.Contains(text, outside) || strings.Contains(text, root) || strings.Contains(text, "secret") {
			t.Errorf("the error has a host path: %v", a.err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it waits")
	}
}

// TestDiscoverLinkInside: golem also refuses a symlink inside the program. Its target has
// another name, which is not protected.
func TestDiscoverLinkInside(t *testing.T) {
	for _, name := range []string{"main.worker", "a.worker", "a/worker.worker"} {
		root := writeProgram(t, map[string]string{"notes.txt": "name: notes", "a/x": ""})
		if err := os.Symlink(filepath.Join(root, "notes.txt"), filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
		if got, err := discover(root, "."); got != "" || err == nil || !strings.Contains(err.Error(), name+": a link; a worker is a regular file") {
			t.Errorf("%s: got %s, %v", name, got, err)
		}
	}
}

// TestDiscoverNames: a file name cannot forge lines or hide letters.
func TestDiscoverNames(t *testing.T) {
	for _, name := range []string{"a\nmain.worker:1: fine.worker", "a\u202e.worker", "\u200b/worker.worker", "a\x1b[2J.worker"} {
		root := writeProgram(t, map[string]string{name: "name: a", "b.worker": ""})
		got, err := discover(root, ".")
		if got != "b=b.worker" || err == nil || !strings.Contains(err.Error(), "cannot be printed") || strings.ContainsAny(err.Error(), "\n\x1b\u202e\u200b") {
			t.Errorf("%q: got %s, %q", name, got, err)
		}
	}
}
