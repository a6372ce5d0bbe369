package jail

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOpenedWhileMoved opens files for writing while their directory is moved, after they
// were copied, and writes to them when it has its new name.
func TestOpenedWhileMoved(t *testing.T) {
	work := t.TempDir()
	names := []string{"log", "sub/log", "mapped"}
	for _, name := range append(names, "sub/other") {
		name = filepath.Join(work, "src", name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("first\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var last, now unix.Stat_t
	if err := unix.Stat(filepath.Join(work, "src/sub/other"), &last); err != nil {
		t.Fatal(err)
	}
	for now.Ctim.Nano() <= last.Ctim.Nano() { // the clock of the file system has steps
		if err := errors.Join(os.Chmod(work, 0o755), unix.Stat(work, &now)); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := unix.Open(work, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(dir)
	open := make(map[string]*os.File)
	var mapped []byte
	move := transfer{fromDir: dir, from: "src", toDir: dir, to: "lib"}
	move.isWanted = func() bool { // it is called after each file
		for _, name := range names {
			st, err := os.Stat(filepath.Join(work, move.temp, name))
			if err != nil || st.Size() == 0 || open[name] != nil {
				continue
			}
			f, err := os.OpenFile(filepath.Join(work, "src", name), os.O_RDWR, 0)
			if err != nil {
				t.Error(err)
				continue
			}
			open[name] = f
			if name != "mapped" {
				continue
			}
			if mapped, err = unix.Mmap(int(f.Fd()), 0, len("first"), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
				t.Error(err)
			}
			f.Close() // the mapping is enough to write
		}
		return true
	}
	if err := move.run(); err != nil {
		t.Fatal(err)
	}
	if len(open) != len(names) || mapped == nil {
		t.Fatalf("opened %d files, want %d", len(open), len(names))
	}
	copy(mapped, "later")
	if err := unix.Munmap(mapped); err != nil {
		t.Error(err)
	}
	for _, name := range names {
		if name != "mapped" {
			if _, err := open[name].WriteString("later\n"); err != nil {
				t.Error(err)
			}
			open[name].Close()
		}
		if b, err := os.ReadFile(filepath.Join(work, "lib", name)); string(b) != "later\n" {
			t.Errorf("%s: got %q, %v, want the later content", name, b, err)
		}
	}
	if b, err := os.ReadFile(filepath.Join(work, "lib/sub/other")); string(b) != "first\n" {
		t.Errorf("another file: got %q, %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(work, "src")); !os.IsNotExist(err) {
		t.Errorf("the original: got %v, want that it does not exist", err)
	}
}
