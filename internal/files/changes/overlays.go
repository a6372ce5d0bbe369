package changes

import (
	"errors"
	"fmt"
	"time"

	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/sandbox"
)

// A Directory is a directory of the host that a session changes through an overlay or a
// copy.
type Directory struct {
	Host   sandbox.Host
	Target string // the sandbox's name for it
}

// CopyOptions control how directories are copied.
type CopyOptions struct {
	// Without holds, for the target of each directory, the paths in it where other
	// directories are mounted.
	Without map[string][]string
	// Report is called with the progress. If it returns an error, copying stops.
	Report func(overlay.Progress) error
	// Most is the maximum size of all files together, or 0 for any size.
	Most int64
}

// TooLarge is the error for directories that hold more than CopyOptions.Most.
type TooLarge struct{ Most int64 }

// Error implements error.
func (t *TooLarge) Error() string { return fmt.Sprintf("the files are larger than %d bytes", t.Most) }

// A Skip is a path that a copy does not contain.
type Skip struct {
	Name string // the path in the sandbox
	Why  string
}

// A Pick is a change of a session to apply.
type Pick struct {
	Name  string // the path in the sandbox
	Text  []byte // if not nil, the content to apply: some hunks, or a merge
	Whole bool   // Text covers all changes that the session made to the file
	Mode  bool   // with Text: apply the session's permission bits too
	Over  bool   // apply even if the file has changed since, because the user has seen that
}

// A Holder is the golem that works on a session now.
type Holder struct {
	Command string    `json:"command,omitempty"` // what runs in the session, without arguments
	Process int       `json:"pid,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

// ErrBusy is the error if another golem works on the session.
var ErrBusy = errors.New("another golem works on the session")
