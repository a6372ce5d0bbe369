package program

import (
	"context"
	"path/filepath"
	"time"

	"github.com/golem-forge/golem/internal/state"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/internal/undo"
	"github.com/golem-forge/golem/sandbox"
)

// undoStore returns the store of the changes that file tools made to files directly. dir
// is the program's state directory.
func undoStore(dir string) *undo.Store {
	return &undo.Store{Dir: filepath.Join(dir, "undo"), Lock: func() (func() error, error) {
		folder, err := state.Open(dir)
		if err != nil {
			return nil, err
		}
		leases, err := folder.Leases()
		if err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), undoWait)
			defer cancel()
			var release func() error
			if release, err = leases.Take(ctx, "undo", "golem"); err == nil {
				return func() error { defer folder.Close(); return release() }, nil
			}
		}
		folder.Close()
		return nil, err
	}}
}

// undoWait is how long a call waits for another one that saves a step.
const undoWait = 10 * time.Second

// An undoRecorder saves what calls are about to change.
type undoRecorder struct {
	store *undo.Store
	files *sandbox.Sandbox // all files of the project
	now   func() time.Time
}

// Save implements tool.Undo.
func (k undoRecorder) Save(call, name string, changes []tool.Change) error {
	var ops []undo.Op
	for _, c := range changes {
		o := undo.Op{Path: c.Path, To: c.To, Becomes: c.Becomes}
		switch {
		case c.Op == tool.Create && c.Becomes == "":
			o.Verb = undo.MakeDir
		case c.Op == tool.Create, c.Op == tool.Update:
			o.Verb = undo.Write
		case c.Op == tool.Delete:
			o.Verb = undo.Delete
		case c.Op == tool.Move:
			o.Verb = undo.Move
		case c.Op == tool.Copy:
			o.Verb = undo.Copy
		}
		ops = append(ops, o)
	}
	return k.store.Save(k.files, call, name, ops, k.now())
}
