package changes

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/golem-forge/golem/sandbox"
)

// TestStartHelper starts a helper before it is needed. The helper mounts the directory,
// and Close ends the helper even if it was never used.
func TestStartHelper(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "a"), []byte("real"), 0o644); err != nil {
		t.Fatal(err)
	}
	over := Directory{sandbox.Host(folder), "/"}
	for _, needed := range []bool{true, false} {
		k, err := Open(sandbox.Host(t.TempDir()), []Directory{over}, false)
		if err != nil {
			t.Fatal(err)
		}
		k.StartHelper()
		k.StartHelper()
		started := <-k.helpers.starting // put back, to look at it
		if started.err != nil {
			t.Fatal(started.err)
		}
		k.helpers.starting <- started
		if needed {
			f, err := k.OpenDirectory(over)
			if err != nil {
				t.Fatal(err)
			}
			b, err := sandbox.DirAt(f, sandbox.Traits{Host: over.Host, Through: k.Path(over)})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.Lstat("a"); err != nil {
				t.Error(err)
			}
			if k.helpers.now.process != started.helper {
				t.Error("another helper shows the directory")
			}
		}
		if err := k.Close(); err != nil {
			t.Error(err)
		}
		if _, err := started.helper.Ask(request{}, new(reply)); err == nil {
			t.Errorf("needed %v: the helper still runs", needed)
		}
	}
}

// TestDiscardWithoutHelper discards a transaction whose helper was killed.
func TestDiscardWithoutHelper(t *testing.T) {
	dir := t.TempDir()
	over := changedSession(t, dir, 1)
	k, err := Look(sandbox.Host(dir+"/session"), []Directory{over})
	must(t, err)
	defer k.Close()
	change, err := k.Begin(sandbox.Host(dir+"/records"), []Pick{{Name: "/f0"}})
	must(t, err)
	if change.store.helper.process == nil {
		t.Fatal("the transaction has no helper process")
	}
	must(t, change.store.helper.close())
	must(t, change.Discard())
	if left := list(t, dir+"/records"); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
	if got, _, err := k.Changes(); err != nil || len(got) != 1 {
		t.Errorf("the session has %v, %v", got, err)
	}
}
