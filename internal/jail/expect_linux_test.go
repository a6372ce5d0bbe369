package jail

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/golem-forge/golem/sandbox"
)

// TestExpect starts a holder before it is needed: the directory is shown by it, and where
// nobody needs it, Close ends it.
func TestExpect(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "a"), []byte("real"), 0o644); err != nil {
		t.Fatal(err)
	}
	over := Over{sandbox.Host(folder), "/"}
	for _, needed := range []bool{true, false} {
		k, err := OpenKept(sandbox.Host(t.TempDir()), []Over{over}, false, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		k.Expect()
		k.Expect()
		started := <-k.coming // put back, to look at it
		if started.err != nil {
			t.Fatal(started.err)
		}
		k.coming <- started
		if needed {
			f, err := k.Folder(over)
			if err != nil {
				t.Fatal(err)
			}
			b, err := sandbox.DirAt(f, sandbox.Traits{Host: over.Folder, Through: k.Through(over)})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.Lstat("a"); err != nil {
				t.Error(err)
			}
			if k.holder != started.holder {
				t.Error("another holder shows the directory")
			}
		}
		if err := k.Close(); err != nil {
			t.Error(err)
		}
		if started.holder.holder.fd >= 0 {
			t.Errorf("needed %v: the holder still runs", needed)
		}
	}
}
