package session

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/toolset/settle"
	"github.com/golem-forge/golem/sandbox"
)

// maxStaged is how many bytes a file has that golem puts into a commit.
const maxStaged = 256 << 20

// stage returns an import with one commit of the changes of the session. The commit is on the one that the user's repository has checked
// out. The same changes have the same commit every time: its time is that of the newest change.
func (c *Commits) stage(ctx context.Context, one git.Commit, beyond settle.Beyond) (im settle.RepositoryImport, skipped []string, err error) {
	refuse := func(code sandbox.Code, hint string) (settle.RepositoryImport, []string, error) {
		return im, skipped, &sandbox.Error{Op: "pr", Code: code, Hint: hint}
	}
	if has, err := c.store.MayHaveCommits(c.session); err != nil || has {
		return refuse(sandbox.ErrNotFound, "the commits of the session are in your repository, or on GitHub; golem apply takes the changes that are in no commit")
	}
	l, err := c.store.ListChanges(c.session)
	if err != nil {
		return im, nil, err
	}
	defer l.Close()
	r, err := l.review(nil, false, nil)
	if err != nil {
		return im, nil, err
	}
	var mount *project.Mount
	for i, m := range c.store.Project.Mounts {
		if !slices.ContainsFunc(r.Files, func(f FileChange) bool { return settle.Within(m.Target, f.Path) }) || m.Mode != project.Overlay {
			continue
		}
		if mount != nil {
			return refuse(sandbox.ErrConflict, "the session has changed several directories; golem apply takes the changes, and git commits them")
		}
		mount = &c.store.Project.Mounts[i]
	}
	if mount == nil {
		return refuse(sandbox.ErrNotFound, "the session has no changes that a commit could hold")
	}
	store, err := c.open(ctx)
	if err != nil {
		return im, nil, err
	}
	target, err := store.Target(ctx, mount.RealHostDir(), false)
	if err != nil {
		return refuse(sandbox.ErrNotFound, visible.Name(mount.Target)+" is not the top of a git work tree; golem apply takes the changes, and git commits them")
	}
	branch, err := target.Head()
	if err == nil && branch != "" {
		one.Base, err = target.Branch(ctx, branch)
	}
	if err != nil {
		return im, nil, err
	}
	if one.Base == "" {
		return refuse(sandbox.ErrNotFound, "your repository has no branch with a commit checked out; git switch BRANCH checks one out")
	}
	files := make(map[string]git.File)
	if skipped, err = l.gather(r, mount.Target, files, func(name string) ([]string, error) { return store.Names(ctx, target.Objects(), one.Base, name) }); err != nil {
		return im, skipped, err
	}
	for _, f := range files {
		one.Files = append(one.Files, f)
	}
	if len(one.Files) == 0 {
		return refuse(sandbox.ErrNotFound, "the session has no changes that a commit could hold; "+strings.Join(skipped, "; "))
	}
	one.Time, one.Trailer = l.newest(), c.store.Project.Trailer
	commit, err := store.Stage(ctx, target.Objects(), one)
	if err != nil {
		return im, skipped, err
	}
	var known []git.Hash
	if beyond != nil {
		known, err = beyond(ctx, mount.Target, target)
	}
	if err == nil {
		im.Name = mount.Target
		im.Import, err = target.Import(ctx, git.GitFiles{Staged: commit}, "", known)
	}
	return im, skipped, err
}

// gather adds the files of a commit, by their names in the repository: those that golem apply would
// apply. tracked returns the files of the repository at a path or below it.
func (l *ChangeList) gather(r *Review, root string, files map[string]git.File, tracked func(string) ([]string, error)) (skipped []string, err error) {
	contents := l.Contents()
	var protected, others []string
	for _, f := range r.Files {
		name := strings.TrimPrefix(strings.TrimPrefix(f.Path, root), "/")
		switch {
		case f.Protected != "" || f.Git:
			protected = append(protected, f.Path)
			continue
		case f.Conflict:
			return nil, &sandbox.Error{Op: "pr", Path: f.Path, Code: sandbox.ErrConflict, Hint: "it also changed in your directory since the session changed it; golem apply --merge combines both versions"}
		case f.Kind == overlay.Special:
			others = append(others, f.Path)
			continue
		}
		if f.OldKind == overlay.Dir && f.Kind != overlay.Dir {
			names, err := tracked(name)
			if err != nil {
				return nil, err
			}
			for _, gone := range names {
				files[gone] = git.File{Path: gone, Mode: git.None}
			}
		}
		switch f.Kind {
		case overlay.Dir:
			if f.OldKind == overlay.File || f.OldKind == overlay.Symlink {
				files[name] = git.File{Path: name, Mode: git.None}
			}
		case overlay.File, overlay.Symlink:
			files[name] = stagedFile(contents, f, name)
		default:
			if f.OldKind != overlay.Dir {
				files[name] = git.File{Path: name, Mode: git.None}
			}
		}
	}
	var inIgnored []string
	for _, files := range r.Ignored {
		inIgnored = append(inIgnored, files.Path)
	}
	for _, left := range []struct {
		names []string
		why   string
	}{{protected, "protected"}, {others, "a pipe, socket or device"}, {inIgnored, "ignored by git"}} {
		if len(left.names) > 0 {
			skipped = append(skipped, "not in the commit: "+listNames("", left.names)+" ("+left.why+")")
		}
	}
	return skipped, nil
}

// stagedFile returns a file or a symlink of the session for a commit.
func stagedFile(contents *Contents, f FileChange, name string) git.File {
	if f.Kind == overlay.Symlink {
		return git.File{Path: name, Mode: git.Link, Size: int64(len(f.LinkTarget)), Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(f.LinkTarget)), nil }}
	}
	return git.File{Path: name, Mode: git.Mode(cmp.Or(f.GitModes[1], string(git.Plain))), Size: f.Size, Open: func() (io.ReadCloser, error) {
		_, own, err := contents.Read(f.Path, maxStaged)
		if err == nil && own == nil {
			err = &sandbox.Error{Op: "pr", Path: f.Path, Code: sandbox.ErrLimit, Hint: "golem cannot read it, or it is too large for a commit"}
		}
		return io.NopCloser(bytes.NewReader(own)), err
	}}
}

// newest returns when the session's newest change was made.
func (l *ChangeList) newest() time.Time {
	last := l.session.Started.UnixNano()
	for _, c := range l.changes {
		if !strings.Contains("/"+c.Path+"/", "/.git/") { // git writes its index also when somebody only looks
			last = max(last, c.Ctime)
		}
	}
	return time.Unix(0, last).UTC()
}
