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

// Links and pipes do not lead out of the program, and nothing waits.
func TestDiscoverLinks(t *testing.T) {
	outside := program(t, map[string]string{"out.worker": "description: secret", "sub/worker.worker": ""})
	root := program(t, map[string]string{"real.worker": "name: real"})
	for name, target := range map[string]string{
		"out.worker": filepath.Join(outside, "out.worker"), "up.worker": "../../../../../../../etc/passwd",
		"gone.worker": "nowhere", "folder": outside, "loop.worker": "loop.worker",
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
		got, err := discover(root, ".", "folder")
		done <- answer{got, err}
	}()
	select {
	case a := <-done:
		if a.got != "real=real.worker" || a.err == nil {
			t.Fatalf("got %s, %v", a.got, a.err)
		}
		for _, want := range []string{"gone.worker: not found", "loop.worker: ", "out.worker: ", "up.worker: ", "pipe.worker: not a regular file", "workerPaths: folder: "} {
			if !strings.Contains(a.err.Error(), want) {
				t.Errorf("got\n%v\nwant %s", a.err, want)
			}
		}
		if text := a.err.Error(); strings.Contains(text, outside) || strings.Contains(text, root) || strings.Contains(text, "secret") {
			t.Errorf("the host stands in the error: %v", a.err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it waits")
	}
	// A link inside the program is a file like any other.
	if err := os.Symlink("real.worker", filepath.Join(root, "again.worker")); err != nil {
		t.Fatal(err)
	}
	if _, err := discover(root, "."); err == nil || !strings.Contains(err.Error(), "name: real is also the name of again.worker:1") {
		t.Errorf("got %v, want the name twice", err)
	}
}
