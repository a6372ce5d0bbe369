// Package statetest tests that a store keeps the contracts of package state, with many
// processes at once and with kills at random moments.
package statetest

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/golem-forge/golem/internal/records/state"
)

// A Store returns logs, decisions, contents and leases. A *state.Dir is one.
type Store interface {
	Log(name string, segment int64) (state.Log, error)
	Once(name string) (state.Once, error)
	Leases() (state.Leases, error)
	Blobs(name string) (state.Blobs, error)
	Close() error
}

// A Process is another process that plays a part. Reading from it returns its output.
type Process interface {
	io.Reader
	Kill() error // like kill -9
	Wait() error
}

// A Suite tests a store against its contracts.
type Suite struct {
	// Open opens the store of a directory, and creates it if it does not exist. All
	// stores opened on one directory, in any process, are the same store.
	Open func(dir string) (Store, error)
	// Start starts another process, which calls Play with the same words.
	Start func(words [3]string) (Process, error)
	// Settle, if set, returns when everything that killed processes have sent to the store
	// of a directory has arrived. Only a store behind a network needs it.
	Settle func(dir string) error
}

// Run tests each promise in a subtest.
func (s Suite) Run(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"log/order", s.logOrder},
		{"log/reopen", s.logReopen},
		{"log/error", s.logError},
		{"log/marks", s.logMarks},
		{"log/names", s.logNames},
		{"log/next reads", s.logNextReads},
		{"log/goroutines", s.logGoroutines},
		{"log/watch", s.logWatch},
		{"log/watch another process", s.logWatchProcess},
		{"log/processes", s.logProcesses},
		{"log/kills", s.logKills},
		{"once/first wins", s.onceFirst},
		{"once/any key", s.onceKeys},
		{"once/goroutines", s.onceGoroutines},
		{"once/processes", s.onceProcesses},
		{"once/kills", s.onceKills},
		{"leases/one at a time", s.leaseExcludes},
		{"leases/processes", s.leaseProcesses},
		{"leases/kill", s.leaseKill},
		{"blobs/contents", s.blobContents},
		{"blobs/goroutines", s.blobGoroutines},
		{"blobs/kills", s.blobKills},
	} {
		t.Run(c.name, c.run)
	}
}

// newDir returns a directory for a new store.
func newDir(t *testing.T) string { return filepath.Join(t.TempDir(), "store") }

// at opens the store of a directory.
func (s Suite) at(t testing.TB, dir string) Store {
	t.Helper()
	store, err := s.Open(dir)
	must(t, err)
	t.Cleanup(func() { store.Close() })
	return store
}

// settle waits until killed processes have no more effect.
func (s Suite) settle(t testing.TB, dir string) {
	t.Helper()
	if s.Settle != nil {
		must(t, s.Settle(dir))
	}
}

// smallSegment makes a log start a new segment often.
const smallSegment = 64 << 10

func (s Suite) log(t testing.TB, dir string) state.Log {
	t.Helper()
	l, err := s.at(t, dir).Log("log", smallSegment)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func (s Suite) once(t testing.TB, dir string) state.Once {
	t.Helper()
	o, err := s.at(t, dir).Once("once")
	must(t, err)
	return o
}

func (s Suite) leases(t testing.TB, dir string) state.Leases {
	t.Helper()
	l, err := s.at(t, dir).Leases()
	must(t, err)
	return l
}

func (s Suite) blobs(t testing.TB, dir string) state.Blobs {
	t.Helper()
	b, err := s.at(t, dir).Blobs("blobs")
	must(t, err)
	return b
}
