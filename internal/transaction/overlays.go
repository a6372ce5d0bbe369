package transaction

import (
	"errors"
	"fmt"
	"path"

	"github.com/golem-forge/golem/internal/overlay"
	"github.com/golem-forge/golem/sandbox"
)

// A Directory is a directory of the host that a session works over.
type Directory struct {
	Host   sandbox.Host
	Target string // the sandbox's name for it
}

// CopyOptions say how copies of directories are made.
type CopyOptions struct {
	// Without are, by the target of each directory, the paths in it at which other
	// directories are mounted.
	Without map[string][]string
	// Report is called with the progress. If it returns an error, copying ends.
	Report func(overlay.Progress) error
	// Most is the size that all files together may have, 0 for any.
	Most int64
}

// TooLarge is the error of directories that hold more than CopyOptions.Most. Nothing is
// copied.
type TooLarge struct{ Most int64 }

// Error implements error.
func (t *TooLarge) Error() string { return fmt.Sprintf("the files are larger than %d bytes", t.Most) }

// A Skip is something that is not in a copy.
type Skip struct {
	Name string // as the sandbox has it
	Why  string
}

// A SessionChange is a change in the overlays of a session.
type SessionChange struct {
	overlay.Change
	Target string // of the directory, as the sandbox has it
}

// Name returns the sandbox's name for what has changed.
func (c SessionChange) Name() string { return path.Join(c.Target, c.Path) }

// A Pick is a change of a session that is to be applied.
type Pick struct {
	Name  string // as the sandbox has it
	Text  []byte // if not nil, the content that the file gets: some hunks of it, or a merge
	Whole bool   // Text stands for all that the session has made of the file
	Over  bool   // whatever became of the file since: the user has seen that
}

// ErrBusy is the error of a session that another golem works on.
var ErrBusy = errors.New("another golem works on the session")
