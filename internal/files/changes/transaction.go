package changes

import (
	"os"

	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// A Change is a change in a directory of a sandbox, by a command or in a session.
type Change struct {
	overlay.PathChange
	Target string // the target of the directory in the sandbox

	// layer is the number of its overlay in a transaction. A command may see one directory at
	// two paths, each with its own overlay.
	layer int
}

// Name returns the sandbox's name for the changed file.
func (c Change) Name() string {
	switch { // path.Join reads the whole name, which costs too much in a deep tree
	case c.Path == "" || c.Path == ".":
		return c.Target
	case c.Target == "/":
		return "/" + c.Path
	}
	return c.Target + "/" + c.Path
}

// A Transaction holds the changes of a command, or some changes of a session. Apply
// brings them into the directories of the host.
type Transaction struct {
	Changes []Change
	Clash   []string // names that others changed meanwhile; Changes lacks the overlays with such names
	Unfit   string   // describes a name that no sandbox can have; nothing can be applied then
	// OnProgress, if set, is called while Apply works, with a number from 0 to 1.
	OnProgress func(part float64)

	store  *store
	record *record
	settle func() error       // called after Apply, if not nil
	unpick func(*store) error // called by Discard, if not nil

	// alone runs do while nobody works in the session, which holds files of the
	// transaction. It is nil if the record holds all files.
	alone   func(do func() error) error
	inPlace []map[string]bool // the files of each overlay that the session holds, by their top path
	readers map[string]fileReader
}

// A fileReader reads files below a directory. See overlay.Reader.
type fileReader interface {
	Open(name string) (*os.File, error)
	ReadFile(name string, most int64) ([]byte, error)
	Close()
}

// A Result is the result of a command, with its changes.
type Result struct {
	jail.Result
	Changed *Transaction // nil if nothing changed
}

// Recovered says what Recover has completed.
type Recovered struct {
	Applied   int      // transactions that are now applied
	Kept      []string // names of files that changed since, so that golem did not apply their changes
	Undone    int      // transactions that are now undone
	Left      []string // names of files that changed since, so that their changes are not undone
	Reverted  int      // transactions of which nothing is applied now: golem was killed before it had decided to apply them
	Discarded int      // discards that are now complete
	Broken    []Broken // transactions that golem could neither complete nor revert
}

// A Broken is a transaction that golem has set aside.
type Broken struct {
	Dir sandbox.Host // the directory that keeps its files
	Why string
}

func (r *Recovered) add(other Recovered) {
	r.Applied, r.Undone, r.Reverted = r.Applied+other.Applied, r.Undone+other.Undone, r.Reverted+other.Reverted
	r.Kept, r.Left = append(r.Kept, other.Kept...), append(r.Left, other.Left...)
	r.Discarded += other.Discarded
	r.Broken = append(r.Broken, other.Broken...)
}
