package git

import (
	"context"
	"os"
	"path/filepath"

	"github.com/golem-forge/golem/sandbox"
)

// Ready returns the error with which Advance would refuse a push now. It changes nothing
// in the target and takes no lock, so Advance may still find later changes.
func (t *Target) Ready(ctx context.Context, branch string, base Hash, changes []ChangedFile) error {
	if err := t.requireCheckedOut(branch); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp(filepath.Dir(t.view), "new-")
	if err != nil {
		return storeError(err)
	}
	defer os.RemoveAll(scratch)
	w, err := t.tree(scratch, changes)
	if err != nil {
		return err
	}
	defer w.root.Close()
	_, err = w.findRemaining(ctx, base, changes)
	return err
}

// requireCheckedOut refuses a branch that the work tree does not have checked out, or
// that another work tree has too.
func (t *Target) requireCheckedOut(branch string) error {
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
	return t.refuseCheckedOut(branch, t.own)
}

// Free refuses a branch that Move would refuse because a work tree has it checked out.
func (t *Target) Free(branch string) error { return t.refuseCheckedOut(branch, "") }
