// Package sandboxtest holds what every [sandbox.Backend] must pass: [Suite],
// the contract, promise by promise, and [Attacks], which sets a sandbox on the
// backend in a hostile place and tries to get out of it by every operation.
//
// A backend is tested in a few lines:
//
//	func TestStore(t *testing.T) {
//		f := sandboxtest.Fixture{
//			New: func(t testing.TB, _ sandbox.Host, tree map[string]sandbox.Object) sandbox.Backend {
//				return store.New(tree)
//			},
//		}
//		t.Run("suite", func(t *testing.T) { sandboxtest.Suite(t, f) })
//		t.Run("attacks", func(t *testing.T) { sandboxtest.Attacks(t, f) })
//	}
package sandboxtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/golem-forge/golem/sandbox"
)

// A Fixture makes the backends under test.
type Fixture struct {
	// New returns a backend that holds the objects of tree, by their names from
	// the top: "a/b.txt". Directories above an object are made. Where the backend
	// cannot hold one of them (a pipe, a device), New calls t.Skip.
	//
	// With OnHost, directory is a directory of the host for this backend, which may
	// hold files already when tree is empty. Without, it is "".
	New func(t testing.TB, folder sandbox.Host, tree map[string]sandbox.Object) sandbox.Backend

	// OnHost says that the files lie in the directory that New was given, as files
	// of the host. [Plant] puts a tree there. Attacks then have a real world
	// around that directory to reach for.
	OnHost bool
}

// tree is what a backend holds at first.
type tree = map[string]sandbox.Object

func file(content string) sandbox.Object { return sandbox.Object{Content: content} }

func link(target string) sandbox.Object {
	return sandbox.Object{Content: target, Mode: fs.ModeSymlink | 0o777}
}

func folder() sandbox.Object { return sandbox.Object{Mode: fs.ModeDir | 0o755} }

func fileMode(content string, mode fs.FileMode) sandbox.Object {
	return sandbox.Object{Content: content, Mode: mode}
}

// open returns a backend with the tree, in a directory of its own.
func (f Fixture) open(t testing.TB, objects tree) sandbox.Backend {
	t.Helper()
	host := ""
	if f.OnHost {
		host = filepath.Join(t.TempDir(), "mount")
		if err := os.Mkdir(host, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return f.New(t, sandbox.Host(host), objects)
}

// Plant makes the objects of tree in a directory of the host, with the modes that
// they ask for, whatever the umask. Where the host does not let it make one (a
// device needs root, a link may need a privilege), it calls t.Skip.
func Plant(t testing.TB, folder sandbox.Host, tree map[string]sandbox.Object) {
	t.Helper()
	names := make([]string, 0, len(tree))
	for name := range tree {
		names = append(names, name)
	}
	slices.Sort(names)
	made := ""
	for _, name := range names {
		at := filepath.Join(string(folder), filepath.FromSlash(name))
		if dir := filepath.Dir(at); dir != made {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			made = dir
		}
		if err := plant(at, tree[name]); err != nil {
			t.Skipf("%q cannot be made here: %v", name, err)
		}
	}
}

func plant(at string, o sandbox.Object) error {
	switch o.Mode.Type() {
	case 0:
		if err := os.WriteFile(at, []byte(o.Content), 0o644); err != nil || o.Mode == 0 {
			return err
		}
		return os.Chmod(at, o.Mode)
	case fs.ModeDir:
		return os.MkdirAll(at, o.Mode.Perm())
	case fs.ModeSymlink:
		return os.Symlink(filepath.FromSlash(o.Content), at)
	}
	return plantSpecial(at, o.Mode)
}

// mount returns a sandbox that shows a backend at "/", all of it.
func mount(t testing.TB, b sandbox.Backend) *sandbox.Sandbox {
	t.Helper()
	s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Backend: b, Access: sandbox.ReadWrite}}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
