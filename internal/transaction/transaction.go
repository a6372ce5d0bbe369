package transaction

import (
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/overlay"
)

// A Change is a change of a command in a directory that it may write.
type Change struct {
	overlay.Change
	Target string // the target of the directory for commands
}

// A Transaction holds the changes of a command, or some changes of a session. Apply
// brings them into the directories of the host.
type Transaction struct {
	Changes []Change
	Clash   []string // names that others changed meanwhile; Changes lacks the overlays with such names
	Unfit   string   // describes a name that no sandbox can have; nothing can be applied then
	store   *store
	record  *record
	settle  func() error // called after Apply, if not nil
	unpick  func() error // called by Discard, if not nil
}

// A Result is the result of a command, with its changes.
type Result struct {
	jail.Result
	Changed *Transaction // nil if nothing changed
}
