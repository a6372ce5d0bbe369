package jail

import (
	"errors"
	"io/fs"
	"os"

	"github.com/golem-forge/golem/internal/overlay"
)

// Plain returns the text of an error without the names of the host that the
// system's own errors have in them.
func Plain(err error) string {
	var of *fs.PathError
	var between *os.LinkError
	switch {
	case errors.As(err, &of):
		return of.Op + ": " + of.Err.Error()
	case errors.As(err, &between):
		return between.Op + ": " + between.Err.Error()
	}
	return err.Error()
}

// A Change is one thing that a command has done in a folder that it may write.
type Change struct {
	overlay.Change
	Target string // of the folder, as commands name it
}

// A Transaction is what a command has changed. It is in no folder of the host
// before it lands; it lands or is dropped.
type Transaction struct {
	Changes []Change
	Clash   []string // names that were changed by others meanwhile; there are no Changes then
	Unfit   string   // says of a name that no sandbox has it; none of it can land then
	session *Session
	work    *work
	settle  func() error // what else is done when it has landed, if anything
	unpick  func() error // and when it is dropped
}
