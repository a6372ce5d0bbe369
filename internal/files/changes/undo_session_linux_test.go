package changes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/sandbox"
)

// appliedSession applies all changes of a session with new files f0, f1, … in dir/real.
func appliedSession(t *testing.T, dir string, files int) (session *Overlays, last *AppliedTransaction) {
	t.Helper()
	over := changedSession(t, dir, files)
	k, err := Look(sandbox.Host(dir+"/session"), []Directory{over})
	must(t, err)
	t.Cleanup(func() { k.Close() })
	var picks []Pick
	for i := range files {
		picks = append(picks, Pick{Name: fmt.Sprintf("/f%d", i)})
	}
	change, err := k.Begin(sandbox.Host(dir+"/records"), picks)
	must(t, err)
	clash, err := change.Apply(nil)
	must(t, err)
	if len(clash) > 0 {
		t.Fatal(clash)
	}
	last, err = Last(sandbox.Host(dir + "/records"))
	must(t, err)
	return k, last
}

// TestUndoHoldsSession removes a session while golem undo returns changes to it. The removal
// fails and names the undo, and the session has the changes afterwards.
func TestUndoHoldsSession(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k, last := appliedSession(t, dir, 1)
	records, session := sandbox.Host(dir+"/records"), sandbox.Host(dir+"/session")
	wait, err := os.Open(last.record.layers[0].Store)
	must(t, err)
	defer wait.Close()
	must(t, overlay.Lock(wait, unix.LOCK_EX, 0))
	done := make(chan error, 1)
	go func() {
		clash, err := last.Undo(nil)
		if len(clash) > 0 {
			err = errors.New(strings.Join(clash, " "))
		}
		done <- err
	}()
	for !isUndoing(last.record.dir) {
		time.Sleep(time.Millisecond)
	}
	if process, is := UndoInto(records, session); !is || process != os.Getpid() {
		t.Errorf("got process %d, %v, want %d", process, is, os.Getpid())
	}
	if _, is := UndoInto(records, sandbox.Host(dir+"/other")); is {
		t.Error("the undo returns changes to another session")
	}
	if err := k.Remove(func() error { return nil }); !errors.Is(err, ErrBusy) {
		t.Errorf("removed during the undo: %v", err)
	}
	wait.Close()
	must(t, <-done)
	if list, _, err := k.Changes(); err != nil || len(list) != 1 || list[0].Name() != "/f0" {
		t.Errorf("after the undo the session has %v, %v", list, err)
	}
	if _, is := UndoInto(records, session); is {
		t.Error("the undo is over")
	}
}

// TestUndoIntoRemovedSession removes a session after golem has read what it would undo. The
// undo is refused, because the user was not told that the changes would be lost. With that
// knowledge it works.
func TestUndoIntoRemovedSession(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k, last := appliedSession(t, dir, 1)
	kept := errors.New("kept")
	if err := k.Remove(func() error { return kept }); !errors.Is(err, kept) {
		t.Fatal(err)
	}
	must(t, k.Remove(func() error { return nil }))
	if clash, err := last.Undo(nil); err == nil || !strings.Contains(err.Error(), "session session was removed meanwhile") || len(clash) > 0 {
		t.Errorf("got %v, %v", clash, err)
	}
	if got := list(t, dir+"/real"); !slices.Equal(got, []string{"f0"}) {
		t.Errorf("the directory has %q", got)
	}
	last, err := Last(sandbox.Host(dir + "/records"))
	must(t, err)
	if id := last.LostSession(); id != "session" {
		t.Errorf("got %q", id)
	}
	if clash, err := last.Undo(nil); err != nil || len(clash) > 0 || len(list(t, dir+"/real")) > 0 {
		t.Errorf("got %v, %v, and %q is left", clash, err, list(t, dir+"/real"))
	}
	if left, err := filepath.Glob(dir + "/records/*-*"); err != nil || len(left) > 0 {
		t.Errorf("got records %q, %v", left, err)
	}
}
