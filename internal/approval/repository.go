package approval

import (
	"path"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/overlay"
	"github.com/golem-forge/golem/sandbox"
)

// repositoryFilter returns whether a changed name must not land.
func (l *ChangeSet) repositoryFilter() func(name string) bool {
	after := make(map[string]bool, len(l.t.Changes))
	for _, c := range l.t.Changes {
		after[jail.Outside(path.Join(c.Target, c.Path))] = c.Op != overlay.Delete
	}
	// The directories are looked at as they are, not through the session's overlay: to mount
	// it now would end the helper that applies the changes.
	return NewRepositoryFilter(after, l.t.Exists)
}

// NewRepositoryFilter returns whether a changed name must not land because git takes a directory
// above it for a repository, and would run what its configuration says. Nothing changes in
// such a directory. Of one that the changes make a repository, the parts do not land that
// make it one. After says of each changed name whether it is there then, before of any name
// whether it is there now.
func NewRepositoryFilter(after map[string]bool, before func(name string) bool) func(name string) bool {
	suspect := false
	for name := range after {
		suspect = suspect || sandbox.PartOfGit(path.Base(name))
	}
	was, is := make(map[string]bool), make(map[string]bool)
	now := func(name string) bool {
		if there, changed := after[name]; changed {
			return there
		}
		return before(name)
	}
	return func(name string) bool {
		part := name
		for dir := path.Dir(name); ; part, dir = dir, path.Dir(dir) {
			if isRepository(was, dir, before) || suspect && sandbox.PartOfGit(path.Base(part)) && isRepository(is, dir, now) {
				return true
			}
			if dir == "/" {
				return false
			}
		}
	}
}

// isRepository returns whether git takes a directory for a repository, and looks once.
func isRepository(known map[string]bool, dir string, has func(name string) bool) bool {
	is, ok := known[dir]
	if !ok {
		in := func(name string) bool { return has(path.Join(dir, name)) }
		is = in("HEAD") && (in("commondir") || in("objects") && in("refs"))
		known[dir] = is
	}
	return is
}
