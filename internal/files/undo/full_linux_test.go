package undo_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/undo"
)

// TestFullDisk saves a step that does not fit on the disk: the error has its cause last, for
// the message, and the earlier steps and the next call are not affected.
func TestFullDisk(t *testing.T) {
	store, files, dir := newDeletion(t)
	small := t.TempDir()
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=128k"); err != nil {
		t.Skip("this test needs to mount a small file system: ", err)
	}
	t.Cleanup(func() { unix.Unmount(small, unix.MNT_DETACH) })
	store = &undo.History{Dir: filepath.Join(small, "undo"), Lock: store.Lock}
	saveMany(t, store, files, 2)
	must(t, os.WriteFile(filepath.Join(dir, "large"), make([]byte, 256<<10), 0o644))
	_, err := store.Save(files, "call", "a tool", []undo.Op{{Verb: undo.Delete, Path: "/m/large"}}, time.Unix(0, 0))
	last := err
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		last = inner
	}
	if last != unix.ENOSPC {
		t.Errorf("got %v, with the cause %v", err, last)
	}
	saveMany(t, store, files, 1)
	if steps, err := store.Steps(); err != nil || len(steps) != 3 {
		t.Errorf("got %d steps, %v", len(steps), err)
	}
}
