package jail

import (
	"errors"
	"fmt"
	"path"

	"github.com/golem-forge/golem/internal/overlay"
	"github.com/golem-forge/golem/sandbox"
)

// An Over is a folder that a session works over, and what its files are called.
type Over struct {
	Folder sandbox.Host
	Target string // the canonical name of a sandbox
}

// A Copying says how copies of folders are made.
type Copying struct {
	// Without are, by the target of each folder, the paths in it at which others stand.
	Without map[string][]string
	// Tell is told how far it is; an error of it ends the copying.
	Tell func(overlay.Progress) error
	// Most is the size that all files together may have, 0 for any.
	Most int64
}

// TooLarge is the error of folders with more in them than Copying.Most. Nothing is copied.
type TooLarge struct{ Most int64 }

// Error implements error.
func (t *TooLarge) Error() string { return fmt.Sprintf("the files are larger than %d bytes", t.Most) }

// A LeftOut is something that is not in a copy, as the sandbox names it.
type LeftOut struct{ Name, Why string }

// A Standing is a change that a session keeps, by the name of its mount.
type Standing struct {
	overlay.Change
	Target string
}

// A Pick says of a change of a session that it is to land: by its name in the
// sandbox, whole, or with the content that is given.
type Pick struct {
	Name  string
	Text  []byte // where not nil, what the file becomes: some hunks of it, or a merge
	Whole bool   // that stands for all that the session has made of it
	Over  bool   // whatever became of the file since: the user has seen that
}

// ErrBusy is the error of a session that another golem works on.
var ErrBusy = errors.New("another golem works on the session")

// Name is what the sandbox calls what has changed.
func (s Standing) Name() string { return path.Join(s.Target, s.Path) }
