package undo_test

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/files/undo"
	"github.com/golem-forge/golem/sandbox"
)

// newDeletion returns a store with one step, which deletes a tree, and the directory with
// the tree.
func newDeletion(t *testing.T) (store *undo.History, files *sandbox.Sandbox, dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"tree/a/1", "tree/a/2", "tree/b/3", "tree/4"} {
		must(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o640))
	}
	must(t, os.Symlink("a", filepath.Join(dir, "tree/link")))
	files, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/m", Source: sandbox.Host(dir), Access: sandbox.ReadWrite}}})
	must(t, err)
	store = &undo.History{Dir: filepath.Join(t.TempDir(), "undo"), Lock: func() (func() error, error) { return func() error { return nil }, nil }}
	saveStep(t, store, files, undo.Op{Verb: undo.Delete, Path: "/m/tree"})
	return store, files, dir
}

// saveStep saves a step and waits for it.
func saveStep(t *testing.T, store *undo.History, files *sandbox.Sandbox, op undo.Op) {
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
func planNewest(t *testing.T, store *undo.History, files *sandbox.Sandbox) undo.Plan {
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

// TestUndoContinues interrupts an undo after every number of files: the next undo
// completes it. It also undoes a call that was interrupted.
func TestUndoContinues(t *testing.T) {
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

// TestUndoRepairsBits checks that an undo sets the permission bits that an interrupted
// undo did not set, and keeps those that the user has set.
func TestUndoRepairsBits(t *testing.T) {
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

// TestDamagedContentIsNotRestored checks that golem reports damage of a saved step, wherever
// it is, and restores nothing of it.
func TestDamagedContentIsNotRestored(t *testing.T) {
	store, files, dir := newDeletion(t)
	must(t, os.RemoveAll(filepath.Join(dir, "tree")))
	list, err := filepath.Glob(filepath.Join(store.Dir, "*.step"))
	if err != nil || len(list) != 1 {
		t.Fatalf("got %v, %v", list, err)
	}
	data, err := os.ReadFile(list[0])
	must(t, err)
	before := planNewest(t, store, files)
	for i := bytes.IndexByte(data, '\n') + 1; i < len(data); i++ {
		damaged := bytes.Clone(data)
		damaged[i] ^= 1
		must(t, os.WriteFile(list[0], damaged, 0o600))
		if p := planNewest(t, store, files); p.IsEmpty() || !strings.Contains(p.Step.Impossible, "damaged") {
			t.Fatalf("byte %d: got %+v", i, p)
		}
	}
	damaged := bytes.Clone(data)
	damaged[bytes.LastIndex(data, []byte("tree/b/3"))] = 'T'
	must(t, os.WriteFile(list[0], damaged, 0o600))
	if err := before.Run(t.Context(), files); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("content that was damaged after the plan: got %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "tree/b/3")); err == nil {
		t.Error("damaged content was restored")
	}
}

// TestUnfinishedStepIsIgnored checks that a step that was not written to its end does not
// hide the one before it: its call was not made.
func TestUnfinishedStepIsIgnored(t *testing.T) {
	store, files, dir := newDeletion(t)
	must(t, os.RemoveAll(filepath.Join(dir, "tree")))
	first := newest(t, store)
	must(t, os.WriteFile(filepath.Join(dir, "text"), []byte("old"), 0o644))
	saveStep(t, store, files, undo.Op{Verb: undo.Write, Path: "/m/text", Becomes: "new"})
	list, err := filepath.Glob(filepath.Join(store.Dir, "*.step"))
	if err != nil || len(list) != 2 {
		t.Fatalf("got %v, %v", list, err)
	}
	whole, err := os.ReadFile(list[1])
	must(t, err)
	whole[0] = 'w'
	old := bytes.Repeat([]byte("~"), 2*len(whole)) // a longer step that was in the same file
	for size := range len(whole) + 1 {
		for _, data := range [][]byte{whole[:size], slices.Concat(whole[:size], old[size:])} {
			must(t, os.WriteFile(list[1], data, 0o600))
			want := 1
			if size == len(whole) {
				want = 2
			}
			if steps, err := store.Steps(); err != nil || len(steps) != want {
				t.Fatalf("with %d of %d bytes: got %d steps, %v; want %d", size, len(whole), len(steps), err, want)
			}
			if isFirst := newest(t, store).Equal(first); isFirst != (want == 1) {
				t.Fatalf("with %d of %d bytes, the newest step is the first one: %v", size, len(whole), isFirst)
			}
		}
	}
	must(t, os.WriteFile(list[1], whole[:len(whole)-1], 0o600))
	must(t, planNewest(t, store, files).Run(t.Context(), files))
	checkTree(t, dir)
	saveStep(t, store, files, undo.Op{Verb: undo.Delete, Path: "/m/tree"})
	if steps, err := store.Steps(); err != nil || len(steps) != 2 {
		t.Errorf("after a step that follows the unfinished one: got %d steps, %v", len(steps), err)
	}
}

// newest returns when the newest step was saved.
func newest(t *testing.T, store *undo.History) time.Time {
	t.Helper()
	steps, err := store.Steps()
	must(t, err)
	return steps[0].SavedAt()
}

// TestStoresTakeTurns saves and removes steps from two stores on one directory, as two
// processes do: each sees the newest steps of both, in their order.
func TestStoresTakeTurns(t *testing.T) {
	dir := t.TempDir()
	files, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/m", Source: sandbox.Host(dir), Access: sandbox.ReadWrite}}})
	must(t, err)
	lock := func() (func() error, error) { return func() error { return nil }, nil }
	kept := filepath.Join(t.TempDir(), "undo")
	stores := []*undo.History{{Dir: kept, Lock: lock}, {Dir: kept, Lock: lock}}
	var want []string
	for i := range 300 {
		path := fmt.Sprint("/m/", i)
		saveStep(t, stores[i/3%2], files, undo.Op{Verb: undo.Write, Path: path, Becomes: "new"})
		want = append(want, path)
		if i%7 == 0 {
			for _, back := range []int{0, 2} { // the newest, and an older one
				if len(want) > back {
					steps, err := stores[i/2%2].Steps()
					must(t, err)
					must(t, stores[i/2%2].Remove(steps[back]))
					want = slices.Delete(want, len(want)-1-back, len(want)-back)
				}
			}
		}
		var got []string
		for _, store := range stores {
			steps, err := store.Steps()
			must(t, err)
			got = nil
			for _, step := range slices.Backward(steps) {
				got = append(got, step.Entries[0].Path)
			}
			if len(got) > undo.MaxSteps || len(got) < min(len(want), undo.MaxSteps*3/4) || !slices.Equal(got, want[len(want)-len(got):]) {
				t.Fatalf("after %d calls: got %v, want the end of %v", i+1, got, want)
			}
		}
	}
}

// saveMany saves steps and waits for each.
func saveMany(t *testing.T, store *undo.History, files *sandbox.Sandbox, n int) {
	t.Helper()
	for i := range n {
		saveStep(t, store, files, undo.Op{Verb: undo.Write, Path: fmt.Sprint("/m/many", i), Becomes: "new"})
	}
}

// TestLateWait waits for a step after newer steps have taken the places of all older ones, and
// checks that it does not mark the newest one as finished.
func TestLateWait(t *testing.T) {
	store, files, dir := newDeletion(t)
	late, err := store.Save(files, "call", "a tool", []undo.Op{{Verb: undo.Write, Path: "/m/late", Becomes: "new"}}, time.Unix(0, 0))
	must(t, err)
	saveMany(t, store, files, undo.MaxSteps-1)
	must(t, os.WriteFile(filepath.Join(dir, "last"), []byte("old"), 0o644))
	wait, err := store.Save(files, "call", "a tool", []undo.Op{{Verb: undo.Write, Path: "/m/last", Becomes: "new"}}, time.Unix(0, 0))
	must(t, err)
	name := filepath.Join(store.Dir, "02.step")
	data, err := os.ReadFile(name)
	must(t, err)
	must(t, os.WriteFile(name, data[:len(data)-1], 0o600)) // as if golem was killed while it wrote this
	must(t, late())
	steps, err := store.Steps()
	if err != nil || len(steps) != undo.MaxSteps-1 || steps[0].Impossible != "" {
		t.Errorf("got %d steps, %v, the newest is %+v", len(steps), err, steps[0])
	}
	must(t, wait())
}

// TestStepsKeepTheirOrder waits for the second of two steps first. The times of the steps must
// have the order of the steps.
func TestStepsKeepTheirOrder(t *testing.T) {
	store, files, _ := newDeletion(t)
	var waits []func() error
	for _, name := range []string{"/m/1", "/m/2"} {
		wait, err := store.Save(files, "call", "a tool", []undo.Op{{Verb: undo.Write, Path: name, Becomes: "new"}}, time.Unix(0, 0))
		must(t, err)
		waits = append(waits, wait)
	}
	must(t, waits[1]())
	time.Sleep(20 * time.Millisecond)
	must(t, waits[0]())
	steps, err := store.Steps()
	must(t, err)
	if len(steps) != 3 || steps[0].Entries[0].Path != "/m/2" || steps[1].SavedAt().After(steps[0].SavedAt()) {
		t.Errorf("got %+v", steps)
	}
}

// A busyContext calls do when Err is called for the left-th time.
type busyContext struct {
	context.Context
	left *int
	do   func()
}

// Err implements context.Context.
func (b busyContext) Err() error {
	if *b.left--; *b.left == 0 {
		b.do()
	}
	return nil
}

// TestUndoKeepsItsStep saves more steps than golem keeps while it undoes one: the undo
// completes. It also does so before the undo: then golem undoes nothing.
func TestUndoKeepsItsStep(t *testing.T) {
	for _, left := range []int{1, 4, 8} {
		store, files, dir := newDeletion(t)
		must(t, os.RemoveAll(filepath.Join(dir, "tree")))
		must(t, planNewest(t, store, files).Run(busyContext{t.Context(), &left, func() { saveMany(t, store, files, undo.MaxSteps+1) }}, files))
		checkTree(t, dir)
		if steps, err := store.Steps(); err != nil || len(steps) != undo.MaxSteps || left > 0 {
			t.Errorf("after the undo: got %d steps, %v", len(steps), err)
		}
	}
	store, files, dir := newDeletion(t)
	must(t, os.RemoveAll(filepath.Join(dir, "tree")))
	plan := planNewest(t, store, files)
	saveMany(t, store, files, undo.MaxSteps)
	if err := plan.Run(t.Context(), files); err == nil || !strings.Contains(err.Error(), "newer calls took its place") {
		t.Errorf("undo of a step that golem has no longer: got %v", err)
	}
	if marks, _ := filepath.Glob(filepath.Join(store.Dir, "*.undoing")); len(marks) > 0 {
		t.Errorf("the newer step is marked: %v", marks)
	}
	if _, err := os.Stat(filepath.Join(dir, "tree")); err == nil {
		t.Error("a part was undone")
	}
}

// TestRemoveKeepsAnother removes a step twice. The second time, another step of the same number
// and size is in its place, which must stay.
func TestRemoveKeepsAnother(t *testing.T) {
	store, files, _ := newDeletion(t)
	saveStep(t, store, files, undo.Op{Verb: undo.Write, Path: "/m/1", Becomes: "new"})
	steps, err := store.Steps()
	must(t, err)
	must(t, store.Remove(steps[0]))
	saveStep(t, store, files, undo.Op{Verb: undo.Write, Path: "/m/2", Becomes: "new"})
	must(t, store.Remove(steps[0]))
	if steps, err := store.Steps(); err != nil || len(steps) != 2 || steps[0].Entries[0].Path != "/m/2" {
		t.Errorf("got %d steps, %v", len(steps), err)
	}
}

// TestHighNumbers checks the steps after one with a very high number.
func TestHighNumbers(t *testing.T) {
	store, files, _ := newDeletion(t)
	name := filepath.Join(store.Dir, "01.step")
	data, err := os.ReadFile(name)
	must(t, err)
	_, content, _ := bytes.Cut(data, []byte("\n"))
	rest := append(fmt.Appendf(nil, "%019d %012d\n", int64(1e18+1), len(content)), content...)
	sum := crc32.Checksum(rest, crc32.MakeTable(crc32.Castagnoli))
	must(t, os.WriteFile(name, append(fmt.Appendf(nil, "s %08x ", sum), rest...), 0o600))
	saveMany(t, &undo.History{Dir: store.Dir, Lock: store.Lock}, files, 2)
	steps, err := store.Steps()
	if err != nil || len(steps) != 3 || steps[0].Entries[0].Path != "/m/many1" || steps[2].Entries[0].Path != "/m/tree" {
		t.Errorf("got %d steps, %v", len(steps), err)
	}
}

// TestFailedCallIsRemoved checks which steps of failed calls are removed: those of which
// nothing is there.
func TestFailedCallIsRemoved(t *testing.T) {
	for now, want := range map[string]int{"old": 1, "other": 1, "new": 2} {
		store, files, dir := newDeletion(t)
		must(t, os.WriteFile(filepath.Join(dir, "text"), []byte("old"), 0o644))
		op := undo.Op{Verb: undo.Write, Path: "/m/text", Becomes: (sandbox.Version{}).With([]byte("new")).String()}
		wait, err := store.Save(files, "failed", "a tool", []undo.Op{op}, time.Unix(0, 0))
		must(t, err)
		must(t, wait())
		must(t, os.WriteFile(filepath.Join(dir, "text"), []byte(now), 0o644))
		must(t, store.RemoveFailed(files, "failed"))
		if steps, err := store.Steps(); err != nil || len(steps) != want {
			t.Errorf("the file is %s: got %d steps, %v, want %d", now, len(steps), err, want)
		}
	}
}

// TestTopmost checks which names are below none of the others.
func TestTopmost(t *testing.T) {
	for _, c := range [][2]string{{"/a/b /a /a/b/c /ab /b/c", "/a /ab /b/c"}, {"/ /a /a/b", "/"}, {"a/b/c a/b d a/bc", "a/b a/bc d"}, {"", ""}} {
		if got := strings.Join(undo.Topmost(strings.Fields(c[0])), " "); got != c[1] {
			t.Errorf("%s: got %s, want %s", c[0], got, c[1])
		}
	}
}
