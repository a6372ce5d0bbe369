package session

import (
	"time"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/undo"
	"github.com/golem-forge/golem/sandbox"
)

// An UndoSaver saves what calls are about to change.
type UndoSaver struct {
	Store *undo.History
	Files *sandbox.Sandbox // all files of the project
	Now   func() time.Time
}

// Save implements tool.Undo.
func (k UndoSaver) Save(call, name string, changes []tool.Change) (wait func() error, err error) {
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
	return k.Store.Save(k.Files, call, name, ops, k.Now())
}

// RemoveFailed implements tool.Undo.
func (k UndoSaver) RemoveFailed(call string) error { return k.Store.RemoveFailed(k.Files, call) }
