package undo_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/undo"
	"github.com/golem-forge/golem/sandbox"
)

// newDeletion returns a store with one step, which deletes a tree, and the directory with
// the tree.
func newDeletion(t *testing.T) (store *undo.Store, files *sandbox.Sandbox, dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"tree/a/1", "tree/a/2", "tree/b/3", "tree/4"} {
		must(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o640))
	}
	must(t, os.Symlink("a", filepath.Join(dir, "tree/link")))
	files, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/m", Source: sandbox.Host(dir), Access: sandbox.ReadWrite}}})
	must(t, err)
	store = &undo.Store{Dir: filepath.Join(t.TempDir(), "undo"), Lock: func() (func() error, error) { return func() error { return nil }, nil }}
	saveStep(t, store, files, undo.Op{Verb: undo.Delete, Path: "/m/tree"})
	return store, files, dir
}

// saveStep saves a step and waits for it.
func saveStep(t *testing.T, store *undo.Store, files *sandbox.Sandbox, op undo.Op) {
	t.Helper()
	wait, err := store.Save(files, "call", "a tool", []undo.Op{op}, time.Unix(0, 0))
	must(t, err)
	must(t, wait())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// checkTree fails unless the tree is as newDeletion made it.
func checkTree(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"tree/a/1", "tree/a/2", "tree/b/3", "tree/4"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		info, e := os.Stat(filepath.Join(dir, name))
		if err != nil || e != nil || string(data) != name || info.Mode() != 0o640 {
			t.Errorf("%s: got %q, %v, %v", name, data, err, info)
		}
	}
	if to, err := os.Readlink(filepath.Join(dir, "tree/link")); err != nil || to != "a" {
		t.Errorf("link: got %q, %v", to, err)
	}
}

// planNewest plans the undo of the newest step.
func planNewest(t *testing.T, store *undo.Store, files *sandbox.Sandbox) undo.Plan {
	t.Helper()
	steps, err := store.Steps()
	must(t, err)
	return steps[0].Plan(files)
}

// A limitedContext ends after left calls of Err.
type limitedContext struct {
	context.Context
	left *int
}

// Err implements context.Context.
func (s limitedContext) Err() error {
	if *s.left--; *s.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestA7UndoContinues interrupts an undo after every number of files: the next undo
// completes it. It also undoes a call that was interrupted.
func TestA7UndoContinues(t *testing.T) {
	for n := range 9 {
		store, files, dir := newDeletion(t)
		must(t, os.RemoveAll(filepath.Join(dir, "tree")))
		left := n
		err := planNewest(t, store, files).Run(limitedContext{t.Context(), &left}, files)
		if done := err == nil; done != (n >= 8) { // directories and the symlink count as well
			t.Errorf("%d: %v", n, err)
		}
		must(t, planNewest(t, store, files).Run(t.Context(), files))
		checkTree(t, dir)
		if p := planNewest(t, store, files); !p.IsEmpty() {
			t.Errorf("%d: there is more to undo: %+v", n, p)
		}
	}
	store, files, dir := newDeletion(t)
	if p := planNewest(t, store, files); !p.IsEmpty() {
		t.Errorf("plan for a call that was not made: got %+v, want none", p)
	}
	must(t, os.RemoveAll(filepath.Join(dir, "tree/a")))
	must(t, planNewest(t, store, files).Run(t.Context(), files))
	checkTree(t, dir)
}

// TestA7UndoRepairsBits checks that an undo sets the permission bits that an interrupted
// undo did not set, and keeps those that the user has set.
func TestA7UndoRepairsBits(t *testing.T) {
	store, files, dir := newDeletion(t)
	must(t, os.Chmod(filepath.Join(dir, "tree/4"), 0o600))
	if p := planNewest(t, store, files); !p.IsEmpty() {
		t.Errorf("plan for a call that was not made: got %+v, want none", p)
	}
	must(t, os.RemoveAll(filepath.Join(dir, "tree")))
	left := 7
	if planNewest(t, store, files).Run(limitedContext{t.Context(), &left}, files) == nil {
		t.Fatal("the undo was not interrupted")
	}
	must(t, os.Chmod(filepath.Join(dir, "tree/a"), 0o700))
	must(t, planNewest(t, store, files).Run(t.Context(), files))
	if info, err := os.Stat(filepath.Join(dir, "tree/a")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("got %v, %v", info.Mode(), err)
	}
	checkTree(t, dir)
}

// TestA7DamagedContentIsNotRestored checks that saved content is compared with its
// digest.
func TestA7DamagedContentIsNotRestored(t *testing.T) {
	store, files, dir := newDeletion(t)
	must(t, os.RemoveAll(filepath.Join(dir, "tree")))
	list, err := filepath.Glob(filepath.Join(store.Dir, "*.step"))
	if err != nil || len(list) != 1 {
		t.Fatalf("got %v, %v", list, err)
	}
	data, err := os.ReadFile(list[0])
	must(t, err)
	i := strings.LastIndex(string(data), "tree/b/3")
	data[i] = 'T'
	must(t, os.WriteFile(list[0], data, 0o600))
	if err := planNewest(t, store, files).Run(t.Context(), files); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "tree/b/3")); err == nil {
		t.Error("damaged content was restored")
	}
	must(t, os.WriteFile(list[0], []byte("{\n"), 0o600))
	if p := planNewest(t, store, files); p.IsEmpty() || !strings.Contains(p.Step.Impossible, "damaged") {
		t.Errorf("a step that cannot be read: %+v", p)
	}
}

// TestUnfinishedStepIsIgnored checks that a step of which a part is missing does not hide the
// one before it: its call was not made.
func TestUnfinishedStepIsIgnored(t *testing.T) {
	store, files, dir := newDeletion(t)
	must(t, os.RemoveAll(filepath.Join(dir, "tree")))
	first := store.Newest()
	must(t, os.WriteFile(filepath.Join(dir, "text"), []byte("old"), 0o644))
	saveStep(t, store, files, undo.Op{Verb: undo.Write, Path: "/m/text", Becomes: "new"})
	list, err := filepath.Glob(filepath.Join(store.Dir, "*.step"))
	if err != nil || len(list) != 2 {
		t.Fatalf("got %v, %v", list, err)
	}
	info, err := os.Stat(list[1])
	must(t, err)
	for size := info.Size(); size >= 0; size-- {
		must(t, os.Truncate(list[1], size))
		want := 1
		if size == info.Size() {
			want = 2
		}
		if steps, err := store.Steps(); err != nil || len(steps) != want {
			t.Fatalf("with %d of %d bytes: got %d steps, %v; want %d", size, info.Size(), len(steps), err, want)
		}
		if isFirst := store.Newest().Equal(first); isFirst != (want == 1) {
			t.Fatalf("with %d of %d bytes, the newest step is the first one: %v", size, info.Size(), isFirst)
		}
	}
	must(t, planNewest(t, store, files).Run(t.Context(), files))
	checkTree(t, dir)
	saveStep(t, store, files, undo.Op{Verb: undo.Delete, Path: "/m/tree"})
	if steps, err := store.Steps(); err != nil || len(steps) != 2 {
		t.Errorf("after a step that follows the unfinished one: got %d steps, %v", len(steps), err)
	}
}
