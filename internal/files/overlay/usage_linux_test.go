package overlay_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/overlay"
)

func TestDiskUse(t *testing.T) {
	dir := t.TempDir()
	use := func() int64 {
		t.Helper()
		n, whole := overlay.DiskUse(dir, overlay.Overlay{})
		if !whole {
			t.Error("a part was not counted")
		}
		return n
	}
	empty := use()
	write := func(name string, size int) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	big := write("big", 4<<20)
	if n := use() - empty; n < 4<<20 || n > 5<<20 {
		t.Errorf("a file of 4 MiB takes %d bytes", n)
	}
	one := use()
	for _, name := range []string{"a", "b", "c"} {
		if err := os.Link(big, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if n := use() - one; n != 0 {
		t.Errorf("three more names take %d bytes", n)
	}
	if err := os.Truncate(write("sparse", 1), 1<<30); err != nil {
		t.Fatal(err)
	}
	if n := use() - one; n > 1<<20 {
		t.Errorf("a file of holes takes %d bytes", n)
	}
	f, err := os.OpenFile(write("reserved", 0), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, 8<<20) == nil {
		if n := use() - one; n < 8<<20 {
			t.Errorf("8 MiB that a file reserves beyond its end take %d bytes", n)
		}
	}
	hidden := filepath.Join(dir, "hidden")
	if err := os.Mkdir(hidden, 0); err != nil {
		t.Fatal(err)
	}
	_, unreadable := os.ReadDir(hidden) // not for root
	if _, whole := overlay.DiskUse(dir, overlay.Overlay{}); whole == (unreadable != nil) {
		t.Errorf("with a directory that cannot be read (%v), everything was counted: %v", unreadable, whole)
	}
	if n, whole := overlay.DiskUse(filepath.Join(dir, "missing"), overlay.Overlay{}); n != 0 || !whole {
		t.Errorf("a missing directory takes %d bytes, %v", n, whole)
	}
}
