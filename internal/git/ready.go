package git

import (
	"context"
	"os"
	"path/filepath"

	"github.com/golem-forge/golem/sandbox"
)

// Ready says what Advance would be refused for, as things are now. It changes nothing
// of the target's and takes no lock: what comes later is for Advance to find.
func (t *Target) Ready(ctx context.Context, branch string, base Hash, changes []Change) error {
	if err := t.checkedOut(branch); err != nil {
		return err
	}
	room, err := os.MkdirTemp(filepath.Dir(t.view), "new-")
	if err != nil {
		return trouble(err)
	}
	defer os.RemoveAll(room)
	w, err := t.tree(room, changes)
	if err != nil {
		return err
	}
	defer w.root.Close()
	_, err = w.clean(ctx, base, changes)
	return err
}

// checkedOut refuses a branch that is not the one of the work tree, or that another
// work tree has as well.
func (t *Target) checkedOut(branch string) error {
	head, err := t.Head()
	if err != nil {
		return err
	}
	if head != branch {
		has := "the target has " + sandbox.Shown(head) + " checked out"
		if head == "" {
			has = "the target has no branch checked out"
		}
		return refusal("push", branch, sandbox.ErrConflict, has+"; check out "+sandbox.Shown(branch)+" there first")
	}
	return t.free(branch, t.own)
}

// Free refuses a branch that Move would not move, for a work tree has it checked out.
func (t *Target) Free(branch string) error { return t.free(branch, "") }
