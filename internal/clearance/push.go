package clearance

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/golem-forge/golem/sandbox"
)

// Push pushes a staged commit unchanged. For one that was pushed already it returns the
// recorded result. The branch must be the one it was staged for, or "". It is a conflict
// if the branch has moved, and then the commit keeps waiting.
func (d *Commits) Push(ctx context.Context, id, branch string) (*PushResult, error) {
	e, err := d.find(id, id != "")
	if err != nil {
		return nil, err
	}
	c, err := d.read(e.ID)
	if err != nil {
		return nil, err
	}
	if branch != "" && branch != c.Branch {
		return nil, &sandbox.Error{Op: "push", Path: branch, Code: sandbox.ErrConflict,
			Hint: "this was staged for the branch " + sandbox.Shown(c.Branch) + "; push it there, or stage it for the other"}
	}
	release, err := d.leases.Take(ctx, "push "+c.Target, "golem push")
	if err != nil {
		return nil, err
	}
	defer release()
	if err := d.settleAll(ctx, c.Target); err != nil {
		return nil, err
	}
	if e, err = d.find(e.ID, true); err != nil { // another process may have pushed it
		return nil, err
	}
	if e.Phase == pushed {
		return e.Result, nil
	}
	return d.push(ctx, c)
}

// settleAll settles the pushes to a target that were begun. The caller holds the lease of
// the target, so nobody else is pushing there: such a push was interrupted.
func (d *Commits) settleAll(ctx context.Context, target string) error {
	list, err := d.list()
	if err != nil {
		return err
	}
	var all []error
	for _, e := range list {
		if e.Phase != pushing {
			continue
		}
		c, err := d.read(e.ID)
		if err == nil && c.Target == target {
			_, err = d.settle(ctx, c)
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}

// Ready returns the error with which a push of a commit would be refused, so that golem
// does not ask for approval in vain. It checks only a target on this machine, for a
// branch that has moved, a branch that is not checked out, and a work tree with changes.
// It checks nothing if an interrupted push waits to be settled.
func (d *Commits) Ready(ctx context.Context, c *StagedCommit) error {
	list, err := d.list()
	if err != nil {
		return err
	}
	for _, e := range list {
		if e.Phase == pushing || e.ID == c.ID && e.Phase == pushed {
			return nil
		}
	}
	t, at, err := d.open(ctx, c.Target)
	if err != nil {
		return err
	}
	on, here := at.(localTarget)
	if !here {
		return nil
	}
	if err := t.refuseMoved(ctx, at, c); err != nil {
		return err
	}
	return on.ready(ctx, c)
}

// Hooks returns the names of the hooks that a push of a commit runs on this machine.
func (d *Commits) Hooks(ctx context.Context, c *StagedCommit) ([]string, error) {
	_, at, err := d.open(ctx, c.Target)
	if err != nil {
		return nil, err
	}
	on, here := at.(localTarget)
	if !here {
		return nil, nil
	}
	list, err := on.Hooks(ctx)
	return list, ofTarget(c.Target, err)
}

// refuseMoved refuses a commit if its branch is no longer at the base of the commit.
func (t Target) refuseMoved(ctx context.Context, at source, c *StagedCommit) error {
	base, from, err := t.parents(ctx, at, c.Branch)
	if err != nil {
		return err
	}
	again := ": golem tool git_stage --again " + c.ID[:12]
	switch {
	case c.parent() == "" && cmp.Or(base, from) != "" && t.far():
		return &sandbox.Error{Op: "push", Path: c.Branch, Code: sandbox.ErrConflict,
			Hint: "nothing of the remote had been pulled when this was staged, and it has files; the commit still waits; stage it again, on what is there" + again}
	case base != c.Base:
		return &sandbox.Error{Op: "push", Path: c.Branch, Code: sandbox.ErrConflict, Hint: "the branch has moved since this was staged, and the commit still waits; stage it again, on the branch as it is now" + again}
	}
	return nil
}

// patience limits how long golem asks a target whether a failed push happened.
const patience = 10 * time.Second

// push pushes a commit that was not pushed before.
func (d *Commits) push(ctx context.Context, c *StagedCommit) (*PushResult, error) {
	t, at, err := d.open(ctx, c.Target)
	if err != nil {
		return nil, err
	}
	if c.parent() == "" { // nothing may have been known of a remote
		for _, branch := range slices.Compact([]string{c.Branch, t.Branch}) {
			if err := at.refresh(ctx, branch); err != nil {
				return nil, err
			}
		}
	}
	if err := t.refuseMoved(ctx, at, c); err != nil {
		return nil, err
	}
	if err := d.mark(c, pushing, nil); err != nil {
		return nil, err
	}
	if err := at.push(ctx, c); err != nil {
		// The target decides whether the push happened, even if the caller no longer
		// waits. If it does not answer, the next push asks again.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		result, unsettled := d.settle(ctx, c)
		if result != nil {
			return result, nil
		}
		return nil, errors.Join(err, unsettled)
	}
	return d.done(c)
}

// done records that a commit was pushed.
func (d *Commits) done(c *StagedCommit) (*PushResult, error) {
	t, err := d.target(c.Target)
	if err != nil {
		return nil, err
	}
	result := &PushResult{CommitSHA: string(c.Commit), URL: t.shown(c.Commit)}
	if err := d.mark(c, pushed, result); err != nil {
		return nil, err
	}
	d.drop(c.Commit)
	d.remember(c) // without it the next pull merges, and a deletion must be named
	return result, nil
}

// settle finds out whether a push that was begun happened, finishes or undoes what it
// left, and records the result. The result is nil if the push did not happen.
func (d *Commits) settle(ctx context.Context, c *StagedCommit) (*PushResult, error) {
	_, at, err := d.open(ctx, c.Target)
	if err != nil {
		return nil, err
	}
	made, err := at.settle(ctx, c)
	if err != nil {
		return nil, err
	}
	if made {
		return d.done(c)
	}
	return nil, d.mark(c, waits, nil)
}

// Discard removes a staged commit. If a push of it was begun, Discard first asks the
// target whether it happened. If the target does not answer, Discard removes the commit
// all the same, and the error ErrUncertain says that it may have been pushed.
func (d *Commits) Discard(ctx context.Context, id string) error {
	e, err := d.find(id, false)
	if err != nil {
		return err
	}
	c, err := d.read(e.ID)
	if err != nil {
		return err
	}
	release, err := d.leases.Take(ctx, "push "+c.Target, "golem discard")
	if err != nil {
		return err
	}
	defer release()
	ask, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	d.settleAll(ask, c.Target) // the error below covers what it does not find out
	if e, err = d.find(e.ID, true); err != nil {
		return err
	}
	if e.Phase == pushed {
		return &sandbox.Error{Op: "discard", Path: e.ID[:12], Code: sandbox.ErrConflict, Hint: "it was pushed as " + e.Result.CommitSHA}
	}
	err = d.update(func(list []entry) ([]entry, error) {
		return slices.DeleteFunc(list, func(have entry) bool { return have.ID == e.ID }), nil
	})
	if err = errors.Join(err, d.blobs.Remove(e.ID)); err != nil {
		return err
	}
	d.drop(c.Commit)
	if e.Phase == pushing {
		return &sandbox.Error{Op: "discard", Path: e.ID[:12], Code: ErrUncertain,
			Hint: "it is discarded, but a push of it was begun, and the target does not say whether it was made; look there for commit " + string(c.Commit)}
	}
	return nil
}
