package clearance

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/sandbox"
)

// A place is an opened target.
type place interface {
	source
	// push pushes a commit. After an error the push may still have happened.
	push(ctx context.Context, c *StagedCommit) error
	// settle reports whether a push happened, and finishes or undoes what an interrupted
	// one left.
	settle(ctx context.Context, c *StagedCommit) (made bool, err error)
}

// A source reads a target.
type source interface {
	// objects returns a directory with objects that the store lacks, "" for none.
	objects() string
	// branch returns the commit to stage on, "" for none.
	branch(ctx context.Context, name string) (git.Hash, error)
	// refresh updates the commit to stage on to what the target has now.
	refresh(ctx context.Context, branch string) error
	// Branches returns the branches and their commits, as they are now.
	Branches(ctx context.Context) (map[string]git.Hash, error)
}

// open opens the target of a name.
func (d *Commits) open(ctx context.Context, name string) (Target, place, error) {
	t, err := d.target(name)
	if err != nil {
		return t, nil, err
	}
	at, err := d.reach(ctx, t)
	return t, at, err
}

// reach opens a target. Errors about the target name it.
func (d *Commits) reach(ctx context.Context, t Target) (place, error) {
	at, err := d.at(ctx, t)
	return at, ofTarget(t.Name, err)
}

// ofTarget puts the name of a target into an error about it.
func ofTarget(name string, err error) error {
	var wrong *sandbox.Error
	if errors.As(err, &wrong) && wrong.Op == "target" && wrong.Path == "" {
		named := *wrong
		named.Path = name
		err = &named
	}
	return err
}

// at opens a target.
func (d *Commits) at(ctx context.Context, t Target) (place, error) {
	switch t.Type {
	case "local", "bare":
		return d.onDisk(ctx, t, string(t.Path), t.Type == "local")
	case "remote":
		// For a repository on this machine git must not read its settings.
		if u, err := url.Parse(t.URL); err == nil && u.Scheme == "file" && u.Host == "" {
			return d.onDisk(ctx, t, Repository(u.Path), false)
		}
		at, err := d.store.Remote(t.URL, d.proof)
		if err == nil {
			at.Name = t.Name
		}
		return network{at}, err
	case "github":
		return d.hub(t)
	}
	return nil, &sandbox.Error{Op: "target", Path: t.Name, Code: git.ErrUnsupported, Hint: "targets of type local, bare, remote and github can be reached"}
}

// onDisk opens a target on this machine.
func (d *Commits) onDisk(ctx context.Context, t Target, path string, work bool) (place, error) {
	at, err := d.store.Target(ctx, path, !work)
	if err == nil && t.Hooks {
		at.RunHooks(d.proof)
	}
	return localTarget{at, work}, err
}

// Repository returns the repository at a path of an address, as git finds it: the one of
// a work tree, the path itself, or the path with .git.
func Repository(path string) string {
	for _, dir := range []string{filepath.Join(path, ".git"), path, strings.TrimRight(path, "/") + ".git"} {
		if _, err := os.Lstat(filepath.Join(dir, "HEAD")); err == nil {
			return dir
		}
	}
	return path
}

// A localTarget is a target on this machine.
type localTarget struct {
	*git.Target
	work bool // it has a work tree
}

func (f localTarget) objects() string { return f.Objects() }

func (f localTarget) branch(ctx context.Context, name string) (git.Hash, error) {
	return f.Branch(ctx, name)
}

func (f localTarget) push(ctx context.Context, c *StagedCommit) error {
	if err := f.Take(ctx, c.parent(), c.Commit); err != nil {
		return err
	}
	var err error
	if f.work && c.From == "" { // a new branch changes no file
		err = f.Advance(ctx, c.Branch, c.Base, c.Commit, c.changes())
	} else {
		err = f.Move(ctx, c.Branch, c.Base, c.Commit)
	}
	if err != nil {
		return ofTarget(c.Target, err)
	}
	f.Announce(context.WithoutCancel(ctx), c.Branch, c.Base, c.Commit)
	return nil
}

// ready returns the error with which a push would be refused.
func (f localTarget) ready(ctx context.Context, c *StagedCommit) error {
	if f.work && c.From == "" {
		return f.Ready(ctx, c.Branch, c.Base, c.changes())
	}
	return f.Free(c.Branch)
}

func (f localTarget) settle(ctx context.Context, c *StagedCommit) (bool, error) {
	made, err := f.Reached(ctx, c.Branch, c.Commit)
	if err == nil && f.work {
		err = f.Resume(ctx, c.Branch, c.Commit, c.changes())
	}
	return made, err
}

func (f localTarget) refresh(context.Context, string) error { return nil } // it is read directly

// A network is a target that git reaches over the network.
type network struct{ *git.Remote }

func (n network) objects() string { return "" }

func (n network) branch(ctx context.Context, name string) (git.Hash, error) {
	return n.Last(ctx, name)
}

func (n network) push(ctx context.Context, c *StagedCommit) error {
	err := n.Push(ctx, c.Branch, c.Base, c.Commit)
	if err == nil {
		n.follow(ctx, c.Branch)
	}
	return err
}

// follow pulls after a push, so that the next commit is staged on what was pushed. If it
// fails, the user pulls.
func (n network) follow(ctx context.Context, branch string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	n.refresh(ctx, branch)
}

func (n network) refresh(ctx context.Context, branch string) error {
	_, err := n.Pull(ctx, branch)
	return err
}

func (n network) settle(ctx context.Context, c *StagedCommit) (bool, error) {
	made, err := n.Reached(ctx, c.Branch, c.Commit)
	if made {
		n.follow(ctx, c.Branch)
	}
	return made, err
}

// Refresh pulls a branch of a remote target, "" for the target's own. The next commit is
// staged on it. For other targets it does nothing.
func (d *Commits) Refresh(ctx context.Context, target, branch string) error {
	t, at, err := d.open(ctx, target)
	if err != nil {
		return err
	}
	if branch == "" {
		branch = t.Branch
	}
	return at.refresh(ctx, branch)
}
