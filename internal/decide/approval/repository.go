package approval

import (
	"path"
	"strings"

	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/sandbox"
)

// repositoryFilter returns a function that reports whether a changed name is skipped
// because of git.
func (l *ChangeSet) repositoryFilter() func(name string) bool {
	after := make(map[string]bool, len(l.t.Changes))
	for _, c := range l.t.Changes {
		after[c.Name()] = c.Op != overlay.Delete
	}
	// The filter reads the directories without the session's overlay, because mounting
	// the overlay now would end the helper that applies the changes.
	return NewRepositoryFilter(after, l.t.Exists)
}

// NewRepositoryFilter returns a function that reports whether a changed name must not be
// applied because git takes a directory above it for a repository, and would run programs
// from its configuration. Nothing may change in a directory that is a repository already.
// If the changes turn a directory into one, the parts that do so are not applied. After
// says for each changed name whether it exists then. Before says for any name whether it
// exists now.
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
	return overlay.AtOrBelow(func(name string) bool {
		dir := name[:max(0, strings.LastIndexByte(name, '/'))] // path.Dir reads the whole name
		return isRepository(was, dir, before) || suspect && sandbox.PartOfGit(path.Base(name)) && isRepository(is, dir, now)
	})
}

// isRepository reports whether git takes a directory for a repository, and caches the
// result.
func isRepository(known map[string]bool, dir string, has func(name string) bool) bool {
	is, ok := known[dir]
	if !ok {
		in := func(name string) bool { return has(dir + "/" + name) }
		is = in("HEAD") && (in("commondir") || in("objects") && in("refs"))
		known[dir] = is
	}
	return is
}
