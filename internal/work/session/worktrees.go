package session

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// A workTree is a git work tree in a mount whose git directory is outside all mounts.
type workTree struct {
	git.Linked
	path string // as commands name it
}

// The files of a session for git directories.
const (
	gitName    = "git"      // copies that commands may change
	stampsName = "git.json" // the state of the originals when they were copied
)

// id returns the name of the copy of its git directory.
func (l workTree) id() string {
	sum := sha256.Sum256([]byte(l.path + "\x00" + l.Own))
	return hex.EncodeToString(sum[:4])
}

func (l workTree) gitDir() string  { return path.Join(jail.Git, l.id()) }
func (l workTree) objects() string { return path.Join(jail.Git+"-objects", l.id()) }

// FindWorkTrees finds the git work trees at the top of mounts whose .git is a file, and
// adds notes about what that means for commands.
func (w *Workspace) FindWorkTrees(files *sandbox.Sandbox, home string) {
	for _, m := range files.Config().Mounts {
		dir := hostDir(m)
		if dir == "" || !files.CanRead(m.Target) {
			continue
		}
		at := jail.Inside(files, m.Target)
		shown := visible.Text(at)
		list, err := git.FindLinked(dir)
		inner := git.WorkTreesIn(dir)
		if (len(list) > 0 || len(inner) > 0 || err != nil) && !w.canOverlay() && !w.canCopy() {
			err = errors.New("golem shows a git directory that is elsewhere only at the level namespaces; golem doctor says why this machine has none")
		}
		if to := git.SymlinkedDir(dir); to != "" {
			w.Notes = append(w.Notes, "git does not work in "+shown+": its .git is a symlink to "+visible.Text(tildePath(to, home))+
				", which the program does not see; a file works: rm .git; echo \"gitdir: "+visible.Text(to)+"\" > .git; git config core.worktree \"$PWD\"")
		}
		if err != nil {
			w.Notes = append(w.Notes, "git does not work in "+shown+": "+err.Error())
			w.gitFiles = append(w.gitFiles, jail.File{Name: path.Join(at, ".git"), Data: []byte("gitdir: " + jail.Git + "/none\n")}) // the original names a directory of the host
			continue
		}
		for i, l := range list {
			if err := w.store.Project.Ceiling.CheckRoot("git", l.Common); err != nil {
				w.Notes = append(w.Notes, "git does not work in "+shown+": "+err.Error())
				continue
			}
			rel, err := filepath.Rel(dir, l.Work)
			if err != nil || !files.CanRead(path.Join(m.Target, filepath.ToSlash(rel))) {
				continue
			}
			w.workTrees = append(w.workTrees, workTree{l, path.Join(at, filepath.ToSlash(rel))})
			kind := "a git worktree"
			if l.Own == l.Common {
				kind = "a git submodule"
			}
			if i == 0 {
				w.Notes = append(w.Notes, shown+" is "+kind+" of "+visible.Text(tildePath(l.Common, home))+
					": the program sees the commits, branches and tags there, not the configuration, hooks, remotes or reflogs; its commits stay in the session")
			}
		}
		for _, name := range slices.Sorted(maps.Keys(inner)) {
			own, tree := path.Join(at, ".git", "worktrees", name), path.Join(at, filepath.ToSlash(inner[name]), ".git")
			w.gitFiles = append(w.gitFiles, jail.File{Name: tree, Data: []byte("gitdir: " + own + "\n")}, jail.File{Name: path.Join(own, "gitdir"), Data: []byte(tree + "\n")})
		}
	}
}

// hostDir returns the directory of the host that a mount shows, "" if there is none.
func hostDir(m sandbox.Mount) string {
	host := string(m.Source)
	if m.Backend != nil {
		host = string(m.Backend.Traits().Host)
	}
	real, err := filepath.EvalSymlinks(host)
	if host == "" || err != nil {
		return ""
	}
	return real
}

// tildePath writes a path below the user's home with a tilde.
func tildePath(name, home string) string {
	if below, err := filepath.Rel(home, name); err == nil && home != "" && filepath.IsLocal(below) {
		return filepath.Join("~", below)
	}
	return name
}

// mountWorkTrees mounts the git directories of work trees for commands: a copy of what
// git needs, which stays in the session, and the objects of the repository, read-only.
func (c *Commands) mountWorkTrees() error {
	w := c.workspace
	c.policy.Replaced = w.gitFiles
	if len(w.workTrees) == 0 {
		return nil
	}
	top := filepath.Join(w.Session.dir, gitName)
	if err := os.MkdirAll(top, 0o700); err != nil {
		return visible.FileError("the git directory of the session", err)
	}
	all := w.Session.stamps()
	for _, l := range w.workTrees {
		is, err := l.copyTo(top, all[l.id()])
		if err != nil {
			return &sandbox.Error{Op: "git", Path: l.path, Code: sandbox.ErrInternal, Hint: "the session's copy of its git directory is damaged (" + visible.FileError(".git", err).Error() + "); golem tool discard_changes --paths / removes it, and --session new begins another"}
		}
		all[l.id()] = is
		c.policy.Replaced = append(slices.Clip(c.policy.Replaced), jail.File{Name: path.Join(l.path, ".git"), Data: []byte(l.GitFile(l.gitDir()))})
		c.mounts = append(c.mounts, jail.Mount{Source: sandbox.Host(filepath.Join(l.Common, "objects")), Target: l.objects()})
	}
	c.mounts = append(c.mounts, jail.Mount{Source: sandbox.Host(top), Target: jail.Git, Write: true, Kept: true})
	return w.Session.writeFile(stampsName, all)
}

// copyTo updates the copy of a git directory.
func (l workTree) copyTo(top string, was git.Stamps) (git.Stamps, error) {
	root, err := os.OpenRoot(top)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if info, err := root.Lstat(l.id()); err == nil && !info.IsDir() {
		if err := root.Remove(l.id()); err != nil {
			return nil, err
		}
	}
	if err := root.MkdirAll(l.id(), 0o700); err != nil {
		return nil, err
	}
	dir, err := root.OpenRoot(l.id())
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return l.Show(dir, was, l.objects(), path.Join(l.path, ".git"))
}

// stamps returns the state of the original git directories when they were copied.
func (s *Session) stamps() map[string]git.Stamps {
	all := make(map[string]git.Stamps)
	if data, err := os.ReadFile(filepath.Join(s.dir, stampsName)); err == nil {
		json.Unmarshal(data, &all) // a damaged file counts as none
	}
	return all
}

// hasCommits reports whether a program has committed, or changed a branch or tag, in a
// copy of a git directory in the session.
func (s *Session) hasCommits() bool {
	for id, was := range s.stamps() {
		dir, err := os.OpenRoot(filepath.Join(s.dir, gitName, id))
		if err != nil {
			continue
		}
		changed := git.Changed(dir, was)
		dir.Close()
		if changed {
			return true
		}
	}
	return false
}
