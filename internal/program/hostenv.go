package program

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// hostEnv is the user's environment, for programs that run outside the jail.
type hostEnv struct {
	variables []string // NAME=value
	writable  []string // the directories of the host that workers may write to
}

// hostEnv returns the user's environment. The program's directory and all state count as
// writable: they hold files of strangers, and overlays of sessions.
func (p *Program) hostEnv() hostEnv {
	e := hostEnv{p.options.Environ, []string{p.root, p.options.stateBase()}}
	for _, m := range p.Project.Mounts {
		if m.Mode != sandbox.ReadOnly.String() || m.Untrusted {
			e.writable = append(e.writable, hostOf(m))
		}
	}
	return e
}

// safe returns the environment with a PATH without directories that workers may write to:
// a program there could be theirs.
func (e hostEnv) safe() []string {
	list := slices.Clone(e.variables)
	for i, one := range list {
		name, value, _ := strings.Cut(one, "=")
		if name != "PATH" {
			continue
		}
		safe := slices.DeleteFunc(filepath.SplitList(value), func(dir string) bool { return !filepath.IsAbs(dir) || e.canWorkerWrite(dir) })
		list[i] = "PATH=" + strings.Join(safe, string(os.PathListSeparator))
	}
	return list
}

// canWorkerWrite reports whether a worker can create a file at a path of the host, now or
// when the user applies its changes.
func (e hostEnv) canWorkerWrite(name string) bool {
	return slices.ContainsFunc(e.writable, func(root string) bool { return isWithin(root, name) })
}

// isWithin reports whether a path is a directory or below it. It follows symlinks and
// compares directories by identity, so that a bind mount or another case of letters hides
// nothing.
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
