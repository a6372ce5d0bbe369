package jail

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOpenWhileRenaming opens a symlink with ".." while another file is renamed all the
// time. The kernel then asks for another try.
func TestOpenWhileRenaming(t *testing.T) {
	top := t.TempDir()
	for _, dir := range []string{"a", "b", "c"} {
		if err := os.Mkdir(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../b", filepath.Join(top, "a", "link")); err != nil {
		t.Fatal(err)
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		from, to := filepath.Join(top, "c"), filepath.Join(top, "d")
		for {
			select {
			case <-done:
				return
			default:
				unix.Rename(from, to)
				from, to = to, from
			}
		}
	}()
	root, err := unix.Open(top, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	for range 5000 {
		fd, err := openat2(root, "a/link", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
		if err != nil {
			t.Error(err)
			break
		}
		unix.Close(fd)
	}
	close(done)
	<-ended
}
