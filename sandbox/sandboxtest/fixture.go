// Package sandboxtest has the tests that every [sandbox.Backend] must pass. [Suite]
// checks the contract, promise by promise. [Attacks] makes a sandbox on the backend in a
// hostile directory and tries to get out of it by every operation.
//
// A test for a backend takes a few lines:
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
	// New returns a backend that holds the objects of tree. The keys are paths from the
	// top, such as "a/b.txt". New makes the directories above an object. If the backend
	// cannot hold an object (a pipe, a device), New calls t.Skip.
	//
	// With OnHost, dir is a directory of the host for this backend. It may already have
	// files if tree is empty. Without OnHost, dir is "".
	New func(t testing.TB, dir sandbox.Host, tree map[string]sandbox.Object) sandbox.Backend

	// OnHost says that the backend stores its files in the directory that New gets, as
	// files of the host. [Plant] writes a tree there. Then Attacks has real files around
	// that directory to attack.
	OnHost bool

	// Do, if set, makes the operations of [Attacks] in place of the sandbox. So a program that
	// stands between a worker and a sandbox, such as a gate with file tools, can be attacked.
	// It returns everything that the worker would see. It may refuse more than the sandbox.
	Do func(t testing.TB, s *sandbox.Sandbox, o Operation) (text string, err error)
}

// An Operation is what [Fixture.Do] makes.
type Operation struct {
	// Name is read, stat, exists, list, walk, search, write, mkdir, copy, move or delete. All
	// of them fail if there is nothing at Path, except write and mkdir.
	Name string
	Path string
	To   string // of copy and move
	All  bool   // delete a directory with everything in it
	Text string // of write
}

// tree is the initial content of a backend.
type tree = map[string]sandbox.Object

func file(content string) sandbox.Object { return sandbox.Object{Content: content} }

func link(target string) sandbox.Object {
	return sandbox.Object{Content: target, Mode: fs.ModeSymlink | 0o777}
}

func directory() sandbox.Object { return sandbox.Object{Mode: fs.ModeDir | 0o755} }

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

// Plant makes the objects of tree in a directory of the host. They get exactly the given
// modes, whatever the umask. If the host does not allow one (a device needs root, a
// symlink may need a privilege), Plant calls t.Skip.
func Plant(t testing.TB, dir sandbox.Host, tree map[string]sandbox.Object) {
	t.Helper()
	names := make([]string, 0, len(tree))
	for name := range tree {
		names = append(names, name)
	}
	slices.Sort(names)
	made := ""
	for _, name := range names {
		at := filepath.Join(string(dir), filepath.FromSlash(name))
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

// mount returns a sandbox that shows all of a backend at "/".
func mount(t testing.TB, b sandbox.Backend) *sandbox.Sandbox {
	t.Helper()
	s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Backend: b, Access: sandbox.ReadWrite}}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
