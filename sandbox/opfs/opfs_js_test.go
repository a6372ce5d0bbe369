package opfs

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"path"
	"strings"
	"syscall/js"
	"testing"
	"time"

	"github.com/golem-forge/golem/sandbox"
	"github.com/golem-forge/golem/sandbox/sandboxtest"
)

// The tests run in a Worker of a browser: see web/browser_linux_test.go.
var fixture = sandboxtest.Fixture{
	New: func(t testing.TB, _ sandbox.Host, tree map[string]sandbox.Object) sandbox.Backend {
		w := openWorkspace(t, rand.Text())
		for name, o := range tree {
			plant(t, w, name, o)
		}
		return w.Backend(".")
	},
}

func TestSuite(t *testing.T)   { sandboxtest.Suite(t, fixture) }
func TestAttacks(t *testing.T) { sandboxtest.Attacks(t, fixture) }

func openWorkspace(t testing.TB, id string) *Workspace {
	t.Helper()
	w, err := Open(t.Context(), id, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// plant makes an object with exactly its mode.
func plant(t testing.TB, w *Workspace, name string, o sandbox.Object) {
	t.Helper()
	kind := o.Mode.Type()
	if kind&^(fs.ModeDir|fs.ModeSymlink) != 0 || o.Mode&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0 {
		t.Skipf("the browser cannot keep the mode %v", o.Mode)
	}
	b := w.Backend(".").(*backend)
	b.dir = path.Dir(name)
	if err := b.Mkdir("."); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	b.dir = "."
	if kind == fs.ModeDir {
		if err := b.Mkdir(name); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
		return
	}
	mode := o.Mode
	if mode == 0 {
		mode = usualMode
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	dir, err := w.find(path.Dir(name))
	if err == nil {
		err = w.read(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	n := w.newNode(dir, storedName(path.Base(name), mode), mode, js.Undefined())
	if n.handle, err = ask(dir.handle, "getFileHandle", n.stored, map[string]any{"create": true}); err == nil && o.Content != "" {
		var access js.Value
		if access, err = ask(n.handle, "createSyncAccessHandle"); err == nil {
			_, err = fill(access, strings.NewReader(o.Content))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	dir.entries[path.Base(name)] = n
}
