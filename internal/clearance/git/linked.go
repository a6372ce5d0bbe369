package git

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// RepositoryOf returns the directory of the repository of a work tree.
func RepositoryOf(work string) string {
	if common, _, err := linkedTree(work); err == nil {
		return common
	}
	return filepath.Join(work, ".git")
}

// linkedTree returns the directories of a work tree that git worktree made, whose .git is
// a file: common is the repository's, own is the one in it with the work tree's HEAD and
// index. A writer of the .git file could name any repository in it, so the repository
// must name the file in turn.
func linkedTree(work string) (common, own string, err error) {
	elsewhere := refusal("target", "", ErrUnsupported,
		"the target's .git points to a repository that does not know of it; name the repository itself in clearance.targets, or have git worktree repair it")
	file := filepath.Join(work, ".git")
	own, ok := pointer(file, "gitdir: ", work)
	if !ok {
		return "", "", elsewhere
	}
	common, ok = pointer(filepath.Join(own, "commondir"), "", own)
	if !ok || filepath.Dir(own) != filepath.Join(common, "worktrees") {
		return "", "", elsewhere
	}
	back, ok := pointer(filepath.Join(own, "gitdir"), "", own)
	if !ok {
		return "", "", elsewhere
	}
	here, err := os.Lstat(file)
	there, lost := os.Lstat(back)
	if err != nil || lost != nil || !os.SameFile(here, there) {
		return "", "", elsewhere
	}
	for _, dir := range []string{common, filepath.Dir(own), own} {
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
			return "", "", elsewhere
		}
	}
	return common, own, nil
}

// refuseCheckedOut refuses a branch that a work tree of the repository has checked out.
// It ignores the work tree whose HEAD is in the directory but. The next commit in such a
// work tree would revert what was pushed.
func (t *Target) refuseCheckedOut(branch, but string) error {
	var heads []string
	if t.works {
		heads = append(heads, t.dir)
	}
	trees, _ := os.ReadDir(filepath.Join(t.dir, "worktrees"))
	for _, e := range trees {
		own := filepath.Join(t.dir, "worktrees", e.Name())
		back, ok := pointer(filepath.Join(own, "gitdir"), "", own)
		_, gone := os.Lstat(back)
		_, open := os.Lstat(filepath.Join(own, "locked")) // for example a work tree on a disk that is not mounted now
		if ok && gone == nil || open == nil {
			heads = append(heads, own)
		}
	}
	for _, dir := range heads {
		for _, file := range []struct{ name, prefix string }{{"HEAD", "ref: "}, {"rebase-merge/head-name", ""}, {"rebase-apply/head-name", ""}} {
			data, _ := os.ReadFile(filepath.Join(dir, file.name))
			if dir != but && branchFrom(data, file.prefix) == branch {
				return refusal("push", branch, sandbox.ErrConflict, "a work tree of the target's repository has it checked out, and its files would not change; "+
					"name that directory as a target of type local in clearance.targets, or check out another branch there")
			}
		}
	}
	return nil
}

// pointer reads the path that a file holds after a prefix. A relative path starts at the
// directory from.
func pointer(name, prefix, from string) (string, bool) {
	const most = maxName + 64
	info, err := os.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > most {
		return "", false
	}
	data, err := os.ReadFile(name)
	path, ok := strings.CutPrefix(strings.TrimSuffix(string(data), "\n"), prefix)
	if err != nil || !ok || path == "" || strings.ContainsFunc(path, func(r rune) bool { return !sandbox.Plain(r) }) {
		return "", false
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(from, path)
	}
	return filepath.Clean(path), true
}
