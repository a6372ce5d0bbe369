package transaction

import (
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/overlay"
)

// A Change is one thing that a command has done in a directory that it may write.
type Change struct {
	overlay.Change
	Target string // of the directory, as commands name it
}

// A Transaction is what a command has changed, or a part of what a session has changed. No
// directory of the host has it until Apply.
type Transaction struct {
	Changes []Change
	Clash   []string // names that others changed meanwhile; there are no Changes then
	Unfit   string   // says which name no sandbox can have; nothing can be applied then
	store   *store
	record  *record
	settle  func() error // called after Apply, if not nil
	unpick  func() error // called by Discard, if not nil
}

// A Result is what came of a command, with what it changed.
type Result struct {
	jail.Result
	Changed *Transaction // nil for nothing
}
