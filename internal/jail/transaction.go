package jail

import "github.com/golem-forge/golem/internal/layer"

// A Change is one thing that a command has done in a folder that it may write.
type Change struct {
	layer.Change
	Target string // of the folder, as commands name it
}

// A Transaction is what a command has changed. It is in no folder of the host
// before it lands; it lands or is dropped.
type Transaction struct {
	Changes []Change
	Clash   []string // names that were changed by others meanwhile; there are no Changes then
	session *Session
	work    *work
}
