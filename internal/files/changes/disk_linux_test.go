package changes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/sandbox"
)

// TestOrdinaryUser runs the tests of closed directories as a user who cannot enter them.
func TestOrdinaryUser(t *testing.T) {
	testutil.OrdinaryUser(t, "-test.run=^(TestDiskUse|TestDiskUseOfCopies)$")
}

// TestDiskUse measures directories that a command has closed to the user, and a tree that a
// command moves meanwhile.
func TestDiskUse(t *testing.T) {
	folder, home := t.TempDir(), sandbox.Host(t.TempDir())
	k, err := Open(sandbox.Host(t.TempDir()), []Directory{{sandbox.Host(folder), "/"}}, false)
	must(t, err)
	defer k.Close()
	upper := k.layers[0].UpperDir()
	for i, mode := range []os.FileMode{0, 0o100, 0o400, 0o700} {
		for _, dir := range []string{filepath.Join(upper, fmt.Sprint("closed", i)), filepath.Join(string(home), fmt.Sprint("closed", i))} {
			must(t, os.MkdirAll(filepath.Join(dir, "in/deep"), 0o700))
			must(t, os.WriteFile(filepath.Join(dir, "in/deep/f"), make([]byte, 1<<20), 0o600))
			must(t, os.Chmod(filepath.Join(dir, "in"), mode))
			must(t, os.Chmod(dir, mode))
			t.Cleanup(func() { os.Chmod(dir, 0o700); os.Chmod(filepath.Join(dir, "in"), 0o700) })
		}
	}
	expectUse(t, k.dir, home, 8<<20)
	expectUse(t, t.TempDir(), home, 4<<20)

	// a file at the bottom of 300 directories
	deep := filepath.Join(upper, "deep"+strings.Repeat("/d", 300))
	must(t, os.MkdirAll(deep, 0o700))
	must(t, os.WriteFile(filepath.Join(deep, "f"), make([]byte, 1<<20), 0o600))
	expectUse(t, k.dir, home, 9<<20)
	done, stopped := make(chan bool), make(chan bool)
	go func() { // names that change places must not end the look at the rest
		defer close(stopped)
		for {
			select {
			case <-done:
				return
			default:
			}
			os.Rename(filepath.Join(upper, "closed3/in"), filepath.Join(upper, "closed3/out"))
			os.Rename(filepath.Join(upper, "closed3/out"), filepath.Join(upper, "deep/in"))
			os.Rename(filepath.Join(upper, "deep/in"), filepath.Join(upper, "closed3/in"))
		}
	}()
	for range 50 {
		if bytes, whole := DiskUse(sandbox.Host(k.dir), home); !whole || bytes < 8<<20 {
			t.Errorf("while a directory moves: %d bytes, whole %v; want at least the other 8 MiB", bytes, whole)
		}
	}
	close(done)
	<-stopped
}

// TestDiskUseOfCopies counts what a command has changed in a copy, also in closed
// directories and behind the end of a file.
func TestDiskUseOfCopies(t *testing.T) {
	folder, home := t.TempDir(), sandbox.Host(t.TempDir())
	must(t, os.WriteFile(filepath.Join(folder, "old"), make([]byte, 4<<20), 0o600))
	must(t, os.Mkdir(filepath.Join(folder, "dir"), 0o700))
	k, _, err := OpenCopies(sandbox.Host(t.TempDir()), []Directory{{sandbox.Host(folder), "/"}}, CopyOptions{})
	must(t, err)
	defer k.Close()
	expectUse(t, k.dir, home, 0)
	dir := filepath.Join(k.layers[0].SessionDir(), "dir")
	must(t, os.WriteFile(filepath.Join(dir, "new"), make([]byte, 1<<20), 0o600))
	must(t, os.Chmod(dir, 0))
	t.Cleanup(func() { os.Chmod(dir, 0o700) })
	expectUse(t, k.dir, home, 1<<20)
	f, err := os.Create(filepath.Join(k.layers[0].SessionDir(), "reserved"))
	must(t, err)
	defer f.Close()
	if unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, 2<<20) == nil {
		expectUse(t, k.dir, home, 3<<20)
	}
}

func expectUse(t *testing.T, dir string, home sandbox.Host, want int64) {
	t.Helper()
	if bytes, whole := DiskUse(sandbox.Host(dir), home); !whole || bytes < want || bytes > want+2<<20-1 {
		t.Errorf("%d bytes, whole %v; want %d", bytes, whole, want)
	}
}
