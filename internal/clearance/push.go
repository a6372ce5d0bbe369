package clearance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/git"
	"github.com/golem-forge/golem/sandbox"
)

// A PushResult is what a push has made.
type PushResult struct {
	CommitSHA string `json:"commitSha"`
	URL       string `json:"url"`
}

// A Target is a repository that results are cleared into. It comes from the
// user's configuration alone.
type Target struct {
	Name   string
	Type   string       // local, bare, remote or github
	Path   sandbox.Host // of local and bare
	URL    string       // of remote; of github its server, "" for github.com
	Repo   string       // of github, owner/name
	Branch string
	Hooks  bool              // run its own hooks, if it is on this machine
	Web    http.RoundTripper // how GitHub's API is reached; nil is directly
}

// far reports whether it is reached over the network: what is staged for it is made
// against what was last pulled.
func (t Target) far() bool {
	return t.Type == "github" || t.Type == "remote" && !strings.HasPrefix(t.URL, "file:")
}

// shown returns where a commit of a target is seen. No path of the host is told.
func (t Target) shown(commit git.Hash) string {
	switch {
	case t.Type == "github":
		return t.server() + "/" + t.Repo + "/commit/" + string(commit)
	case t.URL == "":
		return t.Name
	}
	return t.URL
}

// target returns the one of a name, "" for the only one there is or origin.
func (d *Desk) target(name string) (Target, error) {
	var names []string
	for _, t := range d.targets {
		if t.Name == name || name == "" && (len(d.targets) == 1 || t.Name == "origin") {
			return t, nil
		}
		names = append(names, t.Name)
	}
	hint := "the configuration has no clearance.targets; add one"
	if len(names) > 0 {
		hint = fmt.Sprintf("the targets are %q; name one", names)
	}
	return Target{}, &sandbox.Error{Op: "target", Path: name, Code: sandbox.ErrNotFound, Hint: hint}
}

// Push pushes a staged commit, exactly as it is, and exactly once: one that was
// pushed already is told again. The branch is the one it was staged for, or "".
// A branch that has moved is a conflict, and the commit waits on.
func (d *Desk) Push(ctx context.Context, id, branch string) (*PushResult, error) {
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
	if e, err = d.find(e.ID, true); err != nil { // another may have been first
		return nil, err
	}
	if e.Phase == pushed {
		return e.Result, nil
	}
	return d.push(ctx, c)
}

// settleAll settles what was begun for a target. Whoever holds its lease is the
// only one who pushes there, so what was begun by others was cut off.
func (d *Desk) settleAll(ctx context.Context, target string) error {
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

// Ready says what a push of a commit would be refused for, so that nobody is asked about
// one in vain: of a target on this machine a branch that has moved, one that is not the
// one checked out, and a work tree with changes. To ask others is for the push, and so is
// what a push that was cut off has left.
func (d *Desk) Ready(ctx context.Context, c *StagedCommit) error {
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
	on, here := at.(folder)
	if !here {
		return nil
	}
	if err := t.unmoved(ctx, at, c); err != nil {
		return err
	}
	return on.ready(ctx, c)
}

// Hooks returns the names of the hooks that a push of a commit runs on this machine.
func (d *Desk) Hooks(ctx context.Context, c *StagedCommit) ([]string, error) {
	_, at, err := d.open(ctx, c.Target)
	if err != nil {
		return nil, err
	}
	on, here := at.(folder)
	if !here {
		return nil, nil
	}
	list, err := on.Hooks(ctx)
	return list, ofTarget(c.Target, err)
}

// unmoved refuses a commit that was staged on something else than is there.
func (t Target) unmoved(ctx context.Context, at source, c *StagedCommit) error {
	base, from, err := t.parents(ctx, at, c.Branch)
	if err != nil {
		return err
	}
	again := ": golem tool git_stage --again " + c.ID[:12]
	switch {
	case c.parent() == "" && cmp.Or(base, from) != "" && t.far():
		return &sandbox.Error{Op: "push", Path: c.Branch, Code: sandbox.ErrConflict,
			Hint: "nothing of the remote had been pulled when this was staged, and it has files; it waits on; stage it again, on what is there" + again}
	case base != c.Base:
		return &sandbox.Error{Op: "push", Path: c.Branch, Code: sandbox.ErrConflict, Hint: "the branch has moved since this was staged, and it waits on; stage it again, on the branch as it is now" + again}
	}
	return nil
}

// patience is how long a target is asked whether a push that failed was made.
const patience = 10 * time.Second

// push makes a push that was not made before.
func (d *Desk) push(ctx context.Context, c *StagedCommit) (*PushResult, error) {
	t, at, err := d.open(ctx, c.Target)
	if err != nil {
		return nil, err
	}
	if c.parent() == "" { // of a remote nothing may have been known
		for _, branch := range slices.Compact([]string{c.Branch, t.Branch}) {
			if err := at.refresh(ctx, branch); err != nil {
				return nil, err
			}
		}
	}
	if err := t.unmoved(ctx, at, c); err != nil {
		return nil, err
	}
	if err := d.mark(c, pushing, nil); err != nil {
		return nil, err
	}
	if err := at.push(ctx, c); err != nil {
		// Whether it was made after all is the target's to say, also where the
		// caller waits no longer. If it does not say, the next push asks again.
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

// done writes down that a push was made.
func (d *Desk) done(c *StagedCommit) (*PushResult, error) {
	t, err := d.target(c.Target)
	if err != nil {
		return nil, err
	}
	result := &PushResult{CommitSHA: string(c.Commit), URL: t.shown(c.Commit)}
	if err := d.mark(c, pushed, result); err != nil {
		return nil, err
	}
	d.drop(c.Commit)
	d.remember(c) // else the next pull merges, and what is gone from the tree is deleted by name
	return result, nil
}

// mark writes down how far a commit has come.
func (d *Desk) mark(c *StagedCommit, to phase, result *PushResult) error {
	return d.update(func(list []entry) ([]entry, error) {
		for i := range list {
			if list[i].ID == c.ID {
				list[i].Phase, list[i].Result = to, result
				return list, nil
			}
		}
		return nil, &sandbox.Error{Op: "push", Path: c.ID[:12], Code: sandbox.ErrNotFound, Hint: "it was discarded meanwhile"}
	})
}

// settle finds out whether a push that was begun was made, finishes or takes back
// what it left, and writes it down. Its result is nil if it was not made.
func (d *Desk) settle(ctx context.Context, c *StagedCommit) (*PushResult, error) {
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
