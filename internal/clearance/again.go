package clearance

import (
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/sandbox"
)

// Again stages a waiting commit once more, on its branch as it is now, with the same
// files and contents, and discards the old one. It is a conflict if the branch has
// changed one of the files since, and then the old commit stays. If nothing of a remote
// was known, Again cannot check that, and the new diff shows what is replaced. From the
// request it uses only the author, the committer and the time. The workers stay those of
// the old commit.
func (d *Commits) Again(ctx context.Context, id string, r Request) (*StagedCommit, error) {
	old, err := d.Get(id)
	if err != nil {
		return nil, err
	}
	t, at, err := d.open(ctx, old.Target)
	if err != nil {
		return nil, err
	}
	base, from, err := t.parents(ctx, at, old.Branch)
	if err != nil {
		return nil, err
	}
	if base == old.Base && from == old.From {
		return nil, &sandbox.Error{Op: "stage", Path: old.ID[:12], Code: ErrUnmoved, Hint: "the branch is as it was; this can be pushed as it is"}
	}
	if old.parent() != "" || !t.far() {
		if err := d.refuseChanged(ctx, at, old, cmp.Or(base, from)); err != nil {
			return nil, err
		}
	}
	r.Target, r.Branch, r.Message = old.Target, old.Branch, old.Message
	r.Workers, r.Session, r.Intake, r.Untrusted = old.Workers, old.Session, old.Intake, old.Untrusted
	links, passed := make(map[string]uint64), make(map[git.Hash]string)
	r.Links = func(path string) uint64 { return links[path] }
	r.Passed = func(_ int64, content git.Hash) string { return passed[content] }
	for _, f := range old.Files {
		links[f.Path], passed[f.New] = f.Links, f.Passed
		file := git.File{Path: f.Path, Mode: f.Mode, Size: f.Size}
		file.Open = func() (io.ReadCloser, error) { return d.content(ctx, at, f.New) }
		r.Files = append(r.Files, file)
	}
	c, err := d.In(old.Tree).Stage(ctx, r)
	if errors.Is(err, ErrNoChanges) {
		return nil, &sandbox.Error{Op: "stage", Path: old.ID[:12], Code: ErrNoChanges, Hint: "the branch already has all of it; discard this: git_discard --commitId " + old.ID[:12]}
	}
	if err != nil || c.ID == old.ID {
		return c, err
	}
	return c, d.Discard(ctx, old.ID)
}

// refuseChanged returns an error if a branch has changed files of a commit since it was
// staged.
func (d *Commits) refuseChanged(ctx context.Context, at place, c *StagedCommit, now git.Hash) error {
	var paths []string
	for _, f := range c.Files {
		paths = append(paths, f.Path)
	}
	has := make(map[string]git.Entry)
	if now != "" {
		const chunk = 500 // paths on one command line
		for len(paths) > 0 {
			n := min(chunk, len(paths))
			list, err := d.store.Entries(ctx, at.objects(), now, paths[:n], maxRemembered)
			if err != nil {
				return err
			}
			for _, e := range list {
				has[e.Path] = e
			}
			paths = paths[n:]
		}
	}
	for _, f := range c.Files {
		mode := f.OldMode
		e, there := has[f.Path]
		if there != (mode != git.None) || there && (e.Hash != f.Old || e.Mode != mode) {
			return &sandbox.Error{Op: "stage", Path: f.Path, Code: sandbox.ErrConflict,
				Hint: "the branch has changed it since; git_pull brings both together, then stage the files anew"}
		}
	}
	return nil
}

// content opens a blob of the store.
func (d *Commits) content(ctx context.Context, at place, hash git.Hash) (io.ReadCloser, error) {
	r, err := d.store.Reader(ctx, at.objects())
	if err != nil {
		return nil, err
	}
	data, _, err := r.Stream(hash)
	return streamed{data, r}, err
}
