package overlay

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMovedOut opens paths while their directory moves out of the tree and back, as an
// overlay moves a deleted directory into its workdir. The file is there or missing; the path
// never seems to lead to another file system.
func TestMovedOut(t *testing.T) {
	top := t.TempDir()
	in, out := filepath.Join(top, "in"), filepath.Join(top, "out")
	for _, dir := range []string{filepath.Join(in, "a/b/c/d/e"), out} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := openTree(in)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.close()
	var ends atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !ends.Load() {
			os.Rename(filepath.Join(in, "a"), filepath.Join(out, "a"))
			os.Rename(filepath.Join(out, "a"), filepath.Join(in, "a"))
		}
	}()
	for range 5000 {
		fd, err := tree.open("a/b/c/d/e", unix.O_PATH)
		if err == nil {
			unix.Close(fd)
		} else if !errors.Is(err, unix.ENOENT) {
			t.Errorf("got %v", err)
			break
		}
	}
	ends.Store(true)
	<-done
}
