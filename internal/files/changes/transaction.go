package changes

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

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

	// IgnoredIn is the ignored place of a new file: a directory with a slash at the end, or the
	// file itself. Package ignored sets it.
	IgnoredIn    string
	IgnoredByGit bool // and not because package managers own the directory
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

	store  *store
	record *record
	// onProgress, if set, is called while Apply works, with a number from 0 to 1.
	onProgress func(part float64)
	settle     func() error       // called after Apply, if not nil
	unpick     func(*store) error // called by Discard, if not nil

	// alone runs do while nobody works in the session, which holds files of the
	// transaction. It is nil if the record holds all files.
	alone   func(do func() error) error
	inPlace []map[string]bool // the files of each overlay that the session holds, by their top path
	readers readers
}

// Applier returns a function that applies the changes as Apply does, for the tool named op.
// Its error tells the user why golem applied nothing.
func (t *Transaction) Applier(op string, skip []string) func(onProgress func(part float64)) error {
	return func(onProgress func(part float64)) error {
		t.onProgress = onProgress
		clash, err := t.Apply(skip)
		var known *sandbox.Error
		switch {
		case errors.As(err, &known):
			return known
		case err != nil:
			hint := "golem could not apply the changes: " + strings.TrimPrefix(jail.Plain(err), "jail: ") + "; nothing was applied"
			if strings.Contains(err.Error(), fs.ErrPermission.Error()) { // it may come from another process, as a text
				hint += "; look whether you may write to the directory of this file"
			}
			return &sandbox.Error{Op: op, Code: sandbox.ErrInternal, Hint: hint}
		case len(clash) > 0:
			return ConflictError(op, clash)
		}
		return nil
	}
}

// ConflictError is the error for names that others have changed meanwhile.
func ConflictError(op string, names []string) *sandbox.Error {
	return &sandbox.Error{Op: op, Code: sandbox.ErrConflict,
		Hint: "changed by others meanwhile: " + ListNames(names) + "; nothing was applied; run it again"}
}

// ListNames lists the first ten of some names.
func ListNames(names []string) string {
	var shown []string
	for _, name := range names {
		if len(shown) == 10 {
			return strings.Join(shown, ", ") + " and " + fmt.Sprintf("%d more", len(names)-10)
		}
		shown = append(shown, sandbox.Shown(name))
	}
	return strings.Join(shown, ", ")
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
	Broken    []aside  // transactions that golem could neither complete nor revert
}

// An aside is a transaction that golem has set aside.
type aside struct {
	Dir sandbox.Host // the directory that keeps its files
	Why string
}

func (r *Recovered) add(other Recovered) {
	r.Applied, r.Undone, r.Reverted = r.Applied+other.Applied, r.Undone+other.Undone, r.Reverted+other.Reverted
	r.Kept, r.Left = append(r.Kept, other.Kept...), append(r.Left, other.Left...)
	r.Discarded += other.Discarded
	r.Broken = append(r.Broken, other.Broken...)
}
