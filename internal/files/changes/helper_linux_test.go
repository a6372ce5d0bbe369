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
