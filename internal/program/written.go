package program

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// environment returns the user's environment. Its PATH has no directory that workers
// reach: a program there could be theirs.
func (p *Program) environment() []string {
	list := slices.Clone(p.options.Environ)
	for i, one := range list {
		name, value, _ := strings.Cut(one, "=")
		if name != "PATH" {
			continue
		}
		safe := slices.DeleteFunc(filepath.SplitList(value), func(dir string) bool { return !filepath.IsAbs(dir) || p.canWorkerWrite(dir) })
		list[i] = "PATH=" + strings.Join(safe, string(os.PathListSeparator))
	}
	return list
}

// canWorkerWrite reports whether a worker can put a file at a path of the host, now or when the
// user applies its changes. The program's own directory and all state count as well:
// other people's files and overlays of sessions are there.
func (p *Program) canWorkerWrite(name string) bool {
	roots := []string{p.root, p.stateBase()}
	for _, m := range p.Project.Mounts {
		if m.Mode != sandbox.ReadOnly.String() || m.Untrusted {
			roots = append(roots, hostOf(m))
		}
	}
	return slices.ContainsFunc(roots, func(root string) bool { return isWithin(root, name) })
}

// isWithin reports whether a path is a directory or below it, by whatever name: symlinks
// are followed, and directories compared by identity, so that a bind mount or another
// case of letters hides nothing.
func isWithin(root, name string) bool {
	root, name = evalSymlinks(root), evalSymlinks(name)
	if rel, err := filepath.Rel(root, name); err == nil && filepath.IsLocal(rel) {
		return true
	}
	top, err := os.Stat(root)
	for at := name; err == nil; {
		if info, err := os.Stat(at); err == nil && os.SameFile(top, info) {
			return true
		}
		up := filepath.Dir(at)
		if up == at {
			break
		}
		at = up
	}
	return false
}
