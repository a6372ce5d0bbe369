package sandbox_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/golem-forge/golem/sandbox"
	"github.com/golem-forge/golem/sandbox/sandboxtest"
)

// A kind is a backend of this package, in the form for the suites.
type kind struct {
	name    string
	fixture sandboxtest.Fixture
}

func kinds() []kind {
	return []kind{
		{"dir", newDiskFixture(sandbox.Dir)},
		{"root", newDiskFixture(sandbox.RootBackend)},
		{"base", newMissingFixture(sandbox.BackendIn)},
		{"rootbase", newMissingFixture(sandbox.RootBackendIn)},
		{"memory", newMemoryFixture()},
		{"folding", newMemoryFixture(sandbox.FoldCase)},
	}
}

func newMemoryFixture(options ...sandbox.MemoryOption) sandboxtest.Fixture {
	return sandboxtest.Fixture{
		New: func(_ testing.TB, _ sandbox.Host, tree map[string]sandbox.Object) sandbox.Backend {
			return sandbox.NewMemory(tree, options...)
		},
	}
}

// newDiskFixture returns the fixture of a backend that is opened by its directory.
func newDiskFixture(open func(sandbox.Host) (sandbox.Backend, error)) sandboxtest.Fixture {
	return sandboxtest.Fixture{
		OnHost: true,
		New: func(t testing.TB, folder sandbox.Host, tree map[string]sandbox.Object) sandbox.Backend {
			sandboxtest.Plant(t, folder, tree)
			b, err := open(folder)
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
	}
}

// newMissingFixture returns the fixture of a mount whose directory does not exist before the first
// write.
func newMissingFixture(open func(base, source sandbox.Host) (sandbox.Backend, error)) sandboxtest.Fixture {
	return sandboxtest.Fixture{
		OnHost: true,
		New: func(t testing.TB, folder sandbox.Host, tree map[string]sandbox.Object) sandbox.Backend {
			os.Remove(string(folder)) // succeeds only if it is empty
			base, source := filepath.Split(string(folder))
			b, err := open(sandbox.Host(base), sandbox.Host(source))
			if err != nil {
				t.Fatal(err)
			}
			if len(tree) > 0 {
				if err := b.Mkdir("."); err != nil && !errors.Is(err, fs.ErrExist) {
					t.Fatal(err)
				}
				sandboxtest.Plant(t, folder, tree)
			}
			return b
		},
	}
}

// TestBackends checks that every kind of backend keeps the contract.
func TestBackends(t *testing.T) {
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) { sandboxtest.Suite(t, k.fixture) })
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
