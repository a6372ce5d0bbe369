package git

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/sandbox"
)

// A Linked is a work tree whose .git is a file: one that git worktree made, or a
// submodule.
type Linked struct {
	Work   string // the work tree
	Common string // the directory of the repository, with its objects and references
	Own    string // the directory with HEAD and index; Common itself for a submodule
}

// FindLinked returns the work tree at a directory, if its .git is a file, and the work
// trees of its submodules. The git directory of each must name the work tree in turn,
// because a writer of the .git file could name any repository of the user's in it. It is
// an error if that of the first does not. Submodules for which it does not hold are
// skipped.
func FindLinked(work string) ([]Linked, error) {
	info, err := os.Lstat(filepath.Join(work, ".git"))
	if err != nil || !info.Mode().IsRegular() {
		return nil, nil
	}
	l, err := linkedAt(work)
	if err != nil {
		return nil, err
	}
	return append([]Linked{l}, l.submodules(work, 0)...), nil
}

// SymlinkedDir returns the git directory of a work tree whose .git is a symlink out of it,
// or "" if it is none. Programs in the jail see only the work tree.
func SymlinkedDir(work string) string {
	name := filepath.Join(work, ".git")
	to, err := os.Readlink(name)
	if err != nil {
		return ""
	}
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return to
	}
	if below, err := filepath.Rel(work, real); err == nil && filepath.IsLocal(below) && !filepath.IsAbs(to) {
		return ""
	}
	return real
}

// linkedAt returns the work tree at a directory.
func linkedAt(work string) (Linked, error) {
	l := Linked{Work: work}
	var err error
	if l.Common, l.Own, err = linkedTree(work); err != nil {
		own, ok := pointer(filepath.Join(work, ".git"), "gitdir: ", work)
		if !ok || !namesWorkTree(own, work) {
			return l, errors.New("its .git file names a git directory that does not name this directory; if you made it with git init --separate-git-dir, git config core.worktree \"$PWD\" makes it name this directory")
		}
		l.Common, l.Own = own, own
	}
	for _, dir := range []*string{&l.Common, &l.Own} {
		if *dir, err = filepath.EvalSymlinks(*dir); err != nil {
			return l, errors.New("the git directory that its .git names is gone")
		}
	}
	for _, dir := range []string{"objects", "refs"} {
		if info, err := os.Lstat(filepath.Join(l.Common, dir)); err != nil || !info.IsDir() {
			return l, errors.New("the git directory that its .git names has no directory " + dir)
		}
	}
	if _, err := os.Lstat(filepath.Join(l.Common, "objects", "info", "alternates")); err == nil {
		return l, errors.New("its repository borrows objects from another one; git repack -a -d copies them, then remove objects/info/alternates from its git directory")
	}
	return l, nil
}

// namesWorkTree reports whether the configuration of a git directory names a directory as
// its work tree.
func namesWorkTree(own, work string) bool {
	for _, v := range readConfig(own, "config") {
		if v.section != "core" || v.sub != "" || v.key != "worktree" {
			continue
		}
		to := v.value
		if !filepath.IsAbs(to) {
			to = filepath.Join(own, to)
		}
		there, err := os.Stat(to)
		here, lost := os.Stat(work)
		return err == nil && lost == nil && os.SameFile(there, here)
	}
	return false
}

// submodules returns the submodules of a work tree that are inside the top work tree.
func (l Linked) submodules(top string, depth int) []Linked {
	var list []Linked
	modules := filepath.Join(l.Own, "modules")
	filepath.WalkDir(modules, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || depth > 8 {
			return fs.SkipDir
		}
		if _, err := os.Lstat(filepath.Join(name, "HEAD")); err != nil || name == modules {
			return nil // the name of a submodule may contain slashes
		}
		for _, v := range readConfig(name, "config") {
			if v.section != "core" || v.sub != "" || v.key != "worktree" {
				continue
			}
			work := v.value
			if !filepath.IsAbs(work) {
				work = filepath.Join(name, work)
			}
			if rel, err := filepath.Rel(top, work); err != nil || !filepath.IsLocal(rel) || rel == "." {
				continue
			}
			if m, err := linkedAt(work); err == nil && m.Own == name {
				list = append(append(list, m), m.submodules(top, depth+1)...)
			}
		}
		return fs.SkipDir
	})
	return list
}

// WorkTreesIn returns the work trees that git worktree made inside the work tree of a
// repository. The keys are the names that the repository has for them, the values are
// relative paths.
func WorkTreesIn(work string) map[string]string {
	list := make(map[string]string)
	common := filepath.Join(work, ".git")
	entries, _ := os.ReadDir(filepath.Join(common, "worktrees"))
	for _, e := range entries {
		back, ok := pointer(filepath.Join(common, "worktrees", e.Name(), "gitdir"), "", filepath.Join(common, "worktrees", e.Name()))
		rel, err := filepath.Rel(work, filepath.Dir(back))
		if !ok || err != nil || !filepath.IsLocal(rel) || rel == "." {
			continue
		}
		if in, own, err := linkedTree(filepath.Dir(back)); err == nil && in == common && filepath.Base(own) == e.Name() {
			list[e.Name()] = rel
		}
	}
	return list
}

// Above returns the work tree that contains a directory below its top, or "" for none.
func Above(dir string) string {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || isTop(real) {
		return ""
	}
	for dir := real; dir != filepath.Dir(dir); {
		if dir = filepath.Dir(dir); isTop(dir) {
			return dir
		}
	}
	return ""
}

// isTop reports whether git takes a directory for the top of a work tree.
func isTop(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, ".git"))
	if err != nil {
		return false
	}
	if !info.IsDir() {
		return info.Mode().IsRegular()
	}
	_, err = os.Lstat(filepath.Join(dir, ".git", "HEAD"))
	return err == nil
}

// The directory in a copy for the files of one work tree, and a limit on the number of
// files that Show copies.
const (
	ownName = "worktrees/work"
	maxRefs = 200_000
)

// Stamps hold, for each file of a copy, the version in the repository and the version in
// the copy. Show compares them to find the files that changed since.
type Stamps map[string][2]Stamp // first of the repository, then of the copy

// A Stamp tells one version of a file from another.
type Stamp struct {
	Size int64     `json:"size"`
	Time time.Time `json:"time"`
}

func stampOf(root *os.Root, name string) Stamp {
	info, err := root.Lstat(name)
	if err != nil {
		return Stamp{}
	}
	return Stamp{info.Size(), info.ModTime()}
}

// equal reports whether two stamps are of the same version.
func (s Stamp) equal(o Stamp) bool { return s.Size == o.Size && s.Time.Equal(o.Time) }

// Show updates a copy of the repository's state: HEAD, index, references, and the few
// settings that git needs to read them. It copies no credential, hook, address of a
// remote, reflog or path of the host. It keeps a file that was changed in the copy.
// Objects is the path at which commands find the objects of the repository, and gitFile
// the path of the work tree's .git as they see it. Show does not trust the copy, because
// commands could write to it.
func (l Linked) Show(dir *os.Root, was Stamps, objects, gitFile string) (Stamps, error) {
	common, err := os.OpenRoot(l.Common)
	if err != nil {
		return nil, err
	}
	defer common.Close()
	own, err := os.OpenRoot(l.Own)
	if err != nil {
		return nil, err
	}
	defer own.Close()
	is := make(Stamps)
	files, err := stateFiles(common, func(name string) bool { return sharedState(name) || l.Own == l.Common && ownState(name) })
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		if err := copyChanged(common, name, dir, name, was, is); err != nil {
			return nil, err
		}
	}
	fixed := map[string]string{"objects/info/alternates": objects + "\n", "config": l.settings()}
	if l.Own != l.Common {
		if files, err = stateFiles(own, ownState); err != nil {
			return nil, err
		}
		for _, name := range files {
			if err := copyChanged(own, name, dir, path.Join(ownName, name), was, is); err != nil {
				return nil, err
			}
		}
		fixed[ownName+"/commondir"] = "../..\n"
		fixed[ownName+"/gitdir"] = gitFile + "\n"
	}
	for name, stamps := range was { // files that the repository no longer has
		if _, there := is[name]; !there && stamps[1].equal(stampOf(dir, name)) {
			dir.Remove(name)
		}
	}
	for _, name := range []string{"objects/info", "refs"} {
		if err := dir.MkdirAll(name, 0o700); err != nil {
			return nil, err
		}
	}
	for name, text := range fixed {
		if err := write(dir, name, strings.NewReader(text)); err != nil {
			return nil, err
		}
	}
	return is, nil
}

// GitFile returns the content of a .git file for commands that find the copy at a
// directory.
func (l Linked) GitFile(at string) string {
	if l.Own != l.Common {
		at = path.Join(at, ownName)
	}
	return "gitdir: " + at + "\n"
}

// Changed reports whether a copy has new objects or changed references.
func Changed(dir *os.Root, was Stamps) bool {
	changed := false
	fs.WalkDir(dir.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		in := strings.TrimPrefix(name, ownName+"/")
		state := in == "HEAD" || in == "packed-refs" || strings.HasPrefix(in, "refs/")
		object := strings.HasPrefix(name, "objects/") && name != "objects/info/alternates"
		if changed = object || state && !was[name][1].equal(stampOf(dir, name)); changed {
			return fs.SkipAll
		}
		return nil
	})
	return changed
}

// sharedState reports whether Show copies a file that all work trees of a repository
// share.
func sharedState(name string) bool {
	switch name {
	case "HEAD", "packed-refs", "shallow", "info/exclude", "info/attributes", "info/grafts":
		return true
	}
	return strings.HasPrefix(name, "reftable/") || strings.HasPrefix(name, "refs/")
}

// ownState reports whether Show copies a file that each work tree has for itself.
func ownState(name string) bool {
	top, _, _ := strings.Cut(name, "/")
	switch top {
	case "refs", "rebase-merge", "rebase-apply", "sequencer":
		return true
	case "HEAD", "index", "ORIG_HEAD", "REBASE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "AUTO_MERGE", "SQUASH_MSG":
		return true
	}
	return name == "info/sparse-checkout" || strings.HasPrefix(top, "sharedindex.") || strings.HasPrefix(top, "MERGE_") || strings.HasPrefix(top, "BISECT_")
}

// stateFiles returns the wanted regular files of a git directory.
func stateFiles(dir *os.Root, wanted func(string) bool) (list []string, err error) {
	err = fs.WalkDir(dir.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && name == ".":
			return err
		case err != nil:
			return nil
		case d.IsDir() && name != "." && name != "info" && !wanted(name+"/"):
			return fs.SkipDir
		case d.Type().IsRegular() && wanted(name) && !strings.HasSuffix(name, ".lock"):
			list = append(list, name)
		}
		if len(list) > maxRefs {
			return errors.New("it has too many references; git pack-refs --all packs them into one file")
		}
		return nil
	})
	return list, err
}

// copyChanged copies a file, if it changed since the last copy and the copy did not.
func copyChanged(from *os.Root, name string, to *os.Root, as string, was, is Stamps) error {
	now := stampOf(from, name)
	last, known := was[as]
	switch {
	case known && !last[1].equal(stampOf(to, as)):
		is[as] = last // the session changed its copy
		return nil
	case known && last[0].equal(now):
		is[as] = last
		return nil
	}
	f, err := from.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // deleted since
	}
	if err != nil {
		return fmt.Errorf("%s: %w", sandbox.Shown(name), cause(err))
	}
	defer f.Close()
	if err := write(to, as, f); err != nil {
		return err
	}
	is[as] = [2]Stamp{now, stampOf(to, as)}
	return nil
}

// write replaces a file of a copy.
func write(dir *os.Root, name string, content io.Reader) error {
	if err := dir.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	if err := dir.RemoveAll(name); err != nil {
		return err
	}
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}

// settings returns the configuration of a copy.
func (l Linked) settings() string {
	list := readConfig(l.Common, "config")
	if slices.ContainsFunc(list, func(v setting) bool {
		return v.section == "extensions" && v.key == "worktreeconfig" && v.value == "true"
	}) {
		list = append(list, readConfig(l.Own, "config.worktree")...)
	}
	var b strings.Builder
	for _, v := range list {
		if v.isHarmless() {
			b.WriteString(v.String())
		}
	}
	return b.String()
}
