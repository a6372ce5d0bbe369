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

// TestEditAfterKilledApply edits files after golem was killed while it applied changes. The
// next golem applies the others and names the edited ones, whose changes are in the session
// again. An undo restores the others only. It is the same if that golem is killed, too.
func TestEditAfterKilledApply(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		edited string // space separated
		killed string // how far the golem came that completes the apply
	}{{"old", ""}, {"f1", ""}, {"old f1", ""}, {"", ""}, {"old f1", "applied"}, {"old f0 f1", ""}} {
		name := test.edited + " " + test.killed
		dir := t.TempDir()
		records, real := sandbox.Host(dir+"/records"), dir+"/real/"
		must(t, errors.Join(os.Mkdir(real, 0o755), os.WriteFile(real+"old", []byte("old\n"), 0o644)))
		k, err := Open(sandbox.Host(dir+"/session"), []Directory{{sandbox.Host(dir + "/real"), "/"}}, false)
		must(t, err)
		for _, name := range []string{"f0", "f1", "old"} {
			must(t, os.WriteFile(filepath.Join(k.layers[0].UpperDir(), name), []byte("new\n"), 0o644))
		}
		must(t, k.layers[0].RecordBases(true))
		change, err := k.Begin(records, []Pick{{Name: "/f0"}, {Name: "/f1"}, {Name: "/old"}})
		must(t, err)
		st, w := change.store, change.record
		for _, do := range []func() ([]string, error){
			func() ([]string, error) { return st.take(w) },
			func() ([]string, error) { return st.each(w, prepareRecord) },
			func() ([]string, error) { return nil, w.decide() },
		} {
			if clash, err := do(); err != nil || len(clash) > 0 {
				t.Fatal(name, clash, err)
			}
		}
		edited := strings.Fields(test.edited)
		for _, name := range edited {
			must(t, os.WriteFile(real+name+".mine", []byte("mine\n"), 0o644))
			must(t, os.Rename(real+name+".mine", real+name))
		}
		if test.killed == "applied" {
			_, err := st.each(w, recoverRecord)
			must(t, err)
		}
		must(t, w.held.Close())
		must(t, os.Rename(w.dir, filepath.Join(st.dir, "golem-session-1-0-1"))) // of a golem that has ended
		done, err := Recover(records)
		must(t, err)
		slices.Sort(done.Kept)
		var want []string
		for _, name := range edited {
			want = append(want, "/"+name)
		}
		slices.Sort(want)
		wantApplied := 1
		if len(edited) == 3 {
			wantApplied = 0
		}
		if !slices.Equal(done.Kept, want) || done.Applied != wantApplied || len(done.Broken) > 0 {
			t.Errorf("%s: got %+v, want %q", name, done, want)
		}
		check := func(when, other, old string, session []string) {
			t.Helper()
			for _, file := range []string{"f0", "f1", "old"} {
				want := other
				if file == "old" {
					want = old
				}
				if slices.Contains(edited, file) {
					want = "mine\n"
				}
				if got, err := os.ReadFile(real + file); string(got) != want || err != nil && want != "" {
					t.Errorf("%s, %s: %s has %q, %v, want %q", name, when, file, got, err, want)
				}
			}
			list, _, err := k.Changes()
			var names []string
			for _, c := range list {
				names = append(names, c.Name())
				if _, own := k.Texts(c, 100); string(own) != "new\n" {
					t.Errorf("%s, %s: %s has %q in the session", name, when, c.Name(), own)
				}
			}
			slices.Sort(names)
			if err != nil || !slices.Equal(names, session) {
				t.Errorf("%s, %s: the session has %q, %v, want %q", name, when, names, err, session)
			}
		}
		check("completed", "new\n", "new\n", want)
		last, err := Last(records)
		if wantApplied == 0 {
			if err == nil {
				t.Errorf("%s: golem would undo %v", name, last.Changes)
			}
			continue
		}
		must(t, err)
		if len(last.Changes) != 3-len(edited) {
			t.Errorf("%s: golem would undo %v", name, last.Changes)
		}
		if clash, err := last.Undo(nil); err != nil || len(clash) > 0 {
			t.Errorf("%s: undo: %q, %v", name, clash, err)
		}
		check("undone", "", "old\n", []string{"/f0", "/f1", "/old"})
		must(t, k.Close())
	}
}
