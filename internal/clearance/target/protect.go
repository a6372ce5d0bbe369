package target

import (
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/workerfile"
)

// ProtectAll protects the repositories of targets that mounts show: a worker that writes
// the file of a branch needs no push. A .git is always protected, but a bare repository,
// or the repository of a linked work tree, may have any name.
func (r Targets) ProtectAll() {
	for _, t := range r.List() {
		dir := string(t.Path)
		u, err := url.Parse(t.URL)
		switch {
		case err == nil && u.Scheme == "file":
			r.protectAddress(u.Path)
		case dir == "":
		case t.Type == "local":
			r.protect(git.RepositoryOf(dir), true)
		default:
			r.protect(dir, true)
		}
	}
}

// ProtectWorkers protects the worker files that the sandbox does not protect by their
// ending.
func (r Targets) ProtectWorkers() {
	for _, w := range r.Workers {
		if path.Ext(w.File) != workerfile.Suffix {
			r.protect(filepath.Join(r.Root, filepath.FromSlash(w.File)), true)
		}
	}
}

// protectAddress protects the repository that a file URL means, and the one it would mean
// if that existed.
func (r Targets) protectAddress(dir string) {
	is := clearance.Repository(dir)
	if is == filepath.Join(dir, ".git") {
		return
	}
	r.protect(dir, is == dir && exists(filepath.Join(dir, "HEAD")))
	r.protect(strings.TrimRight(dir, "/")+".git", true)
}

// protect protects a repository in every mount that shows it: with whole the directory,
// or else only the names that repositories consist of.
func (r Targets) protect(dir string, whole bool) {
	dir = project.RealDir(dir)
	for _, m := range r.Project.Mounts {
		rel, err := filepath.Rel(project.RealDir(m.HostDir()), dir)
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		pattern := project.LiteralPattern(strings.TrimSuffix(path.Join(m.Target, filepath.ToSlash(rel)), "/"))
		if !whole || rel == "." || exists(filepath.Join(dir, "worktrees")) {
			pattern += partsOfGit
		}
		if !slices.Contains(r.Project.Protect, pattern) {
			r.Project.Protect = append(r.Project.Protect, pattern)
		}
	}
}

// partsOfGit are the names that a repository consists of. A work tree in the same
// directory is not part of it.
const partsOfGit = "/{HEAD,objects,refs,packed-refs,reftable,logs,config,config.worktree,hooks,info,worktrees,modules,index,shallow,commondir}"

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
