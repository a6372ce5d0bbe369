package session

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/internal/decide/explain"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/toolset/settle"
)

// Commits reads the commits of a session. It implements settle.Committer.
type Commits struct {
	store   Sessions
	session *Session
	// open opens the private git store.
	open func(context.Context) (*git.ObjectStore, error)
}

// Commits returns a reader of the commits of a session. open opens the private git store.
func (s Sessions) Commits(one *Session, open func(context.Context) (*git.ObjectStore, error)) *Commits {
	return &Commits{storeOf(s, one), one, open}
}

// Committer returns a reader of the commits of the workspace's session, nil if it has no
// session.
func (w *Workspace) Committer(open func(context.Context) (*git.ObjectStore, error)) settle.Committer {
	if w.Session == nil {
		return nil
	}
	return w.store.Commits(w.Session, open)
}

// Names implements settle.Committer.
func (c *Commits) Names() (id, name string) { return c.session.Names() }

// A repositoryChange is a git directory that a session has changed.
type repositoryChange struct {
	name  string // the sandbox's name of the work tree
	work  string // the work tree on the host
	files git.GitFiles
	add   func(name string, c changes.Change) // adds a file of a mount
}

// Imports implements settle.Committer.
func (c *Commits) Imports(ctx context.Context, beyond settle.Beyond, changes *git.Commit) (list []settle.RepositoryImport, skipped []string, err error) {
	if list, skipped, err = c.imports(ctx, beyond); err != nil || len(list) > 0 || changes == nil {
		return list, skipped, err
	}
	im, more, err := c.stage(ctx, *changes, beyond)
	if err == nil && len(im.Branches) > 0 {
		list = append(list, im)
	} else if im.Import != nil {
		im.Close()
	}
	return list, append(skipped, more...), err
}

// imports returns an import for each repository with new commits.
func (c *Commits) imports(ctx context.Context, beyond settle.Beyond) (list []settle.RepositoryImport, skipped []string, err error) {
	l, err := c.store.ListChanges(c.session)
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	found := l.repositories()
	linked, release, err := c.linked()
	defer release()
	if err != nil {
		return nil, nil, err
	}
	if found = append(found, linked...); len(found) == 0 {
		return nil, nil, nil
	}
	store, err := c.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range found {
		skip := func(why string) {
			skipped = append(skipped, "the commits in "+visible.Name(r.name)+" cannot be taken: "+why)
		}
		// The session may have put a directory in place of a symlink of the user's.
		if real, err := filepath.EvalSymlinks(r.work); err != nil || real != r.work {
			skip("your directory has no repository there")
			continue
		}
		target, err := store.Target(ctx, r.work, false)
		if err != nil {
			skip(err.Error())
			continue
		}
		var known []git.Hash
		if beyond != nil {
			known, err = beyond(ctx, r.name, target)
		}
		var im *git.Import
		if err == nil {
			im, err = target.Import(ctx, r.files, c.store.Project.Trailer, known)
		}
		if err != nil {
			for _, other := range list {
				other.Close()
			}
			return nil, nil, err
		}
		for _, what := range im.Skipped {
			skipped = append(skipped, "skipped "+what+" in "+visible.Name(r.name))
		}
		if len(im.Commits) == 0 {
			im.Close()
			continue
		}
		list = append(list, settle.RepositoryImport{Import: im, Name: r.name})
	}
	return list, skipped, nil
}

// repositories returns the git directories in mounts that a session has changed.
func (l *ChangeList) repositories() (list []*repositoryChange) {
	byWork := make(map[string]*repositoryChange)
	for _, c := range l.changes {
		dir, name, ok := strings.Cut("/"+c.Path, "/.git/")
		if !ok || c.Kind != overlay.File || c.Op == overlay.Delete {
			continue
		}
		work := filepath.Join(l.store.sourceOf(c.Target), filepath.FromSlash(dir))
		r := byWork[work]
		if r == nil {
			files := make(map[string]changes.Change)
			r = &repositoryChange{name: path.Join(c.Target, dir), work: work}
			r.files.Read = func(name string, most int64) ([]byte, error) {
				if _, own := l.overlays.Texts(files[name], most); own != nil {
					return own, nil
				}
				return nil, fs.ErrInvalid
			}
			byWork[work], list = r, append(list, r)
			r.add = func(name string, c changes.Change) { files[name] = c }
		}
		r.add(name, c)
		r.files.Names = append(r.files.Names, name)
	}
	return list
}

// sourceOf returns the directory of the host that is mounted at a target.
func (s Sessions) sourceOf(target string) string {
	for _, m := range s.Project.Mounts {
		if m.Target == target && m.Mode == project.Overlay {
			return m.RealHostDir()
		}
	}
	return ""
}

// linked returns the git directories outside the mounts that a session has copies of.
// release closes the copies.
func (c *Commits) linked() (list []*repositoryChange, release func(), err error) {
	var roots []*os.Root
	release = func() {
		for _, root := range roots {
			root.Close()
		}
	}
	files, err := c.store.Project.Sandbox(explain.ProbeMount)
	if err != nil {
		return nil, release, err
	}
	for _, m := range c.store.Project.Mounts {
		trees, err := git.FindLinked(m.RealHostDir())
		if err != nil {
			continue
		}
		for _, l := range trees {
			rel, err := filepath.Rel(m.RealHostDir(), l.Work)
			if err != nil {
				continue
			}
			tree := workTree{l, path.Join(jail.Inside(files, m.Target), filepath.ToSlash(rel))}
			root, err := os.OpenRoot(filepath.Join(c.session.dir, gitName, tree.id()))
			if err != nil {
				continue
			}
			roots = append(roots, root)
			list = append(list, &repositoryChange{name: path.Join(m.Target, filepath.ToSlash(rel)), work: l.Work, files: filesIn(root)})
		}
	}
	return list, release, nil
}

// filesIn returns the files of a copy of a git directory, which commands could write to.
func filesIn(root *os.Root) git.GitFiles {
	f := git.GitFiles{Read: func(name string, most int64) ([]byte, error) {
		info, err := root.Lstat(name)
		if err != nil || !info.Mode().IsRegular() || info.Size() > most {
			return nil, fs.ErrInvalid
		}
		file, err := root.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		data, err := io.ReadAll(io.LimitReader(file, most+1))
		if err == nil && int64(len(data)) > most {
			err = fs.ErrInvalid
		}
		return data, err
	}}
	fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && len(f.Names) < maxGitFiles {
			f.Names = append(f.Names, name)
		}
		return nil
	})
	return f
}

// maxGitFiles is how many files of a copy of a git directory are looked at.
const maxGitFiles = 300_000

// Read reads the commits that the session has made and that the user's repositories do not
// have. skipped says which cannot be read.
func (c *Commits) Read(ctx context.Context) (list []settle.CommitRepository, skipped []string, err error) {
	imports, skipped, err := c.imports(ctx, nil)
	if err != nil {
		return nil, skipped, err
	}
	for _, im := range imports {
		r, late := settle.ReadCommits(ctx, c.session.ID, im)
		list, err = append(list, r), errors.Join(err, late)
		im.Close()
	}
	return list, skipped, err
}

// Count returns how many commits the session has made that the user's repositories do not
// have.
func (c *Commits) Count(ctx context.Context) (n int, err error) {
	imports, _, err := c.imports(ctx, nil)
	for _, im := range imports {
		n += len(im.Commits)
		im.Close()
	}
	return n, err
}

// MayHaveCommits reports whether a session has changed a branch of a repository. It looks
// at names only.
func (s Sessions) MayHaveCommits(one *Session) (bool, error) {
	if one.hasCommits() {
		return true, nil
	}
	l, err := s.ListChanges(one)
	if err != nil {
		return false, err
	}
	defer l.Close()
	for _, r := range l.repositories() {
		for _, name := range r.files.Names {
			if name == "HEAD" || name == "packed-refs" || strings.HasPrefix(name, "refs/heads/") {
				return true, nil
			}
		}
	}
	return false, nil
}
