package settle

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/people/visible"
)

// leftOut are changes that a call does not apply, because git ignores them and the call names
// neither them nor a place in their ignored directory.
type leftOut struct {
	changes map[string]bool
	above   map[string]bool // the directories that they are in
	files   map[string]int  // how many files, by ignored directory
}

func (a application) leftOut(list []changes.Change) leftOut {
	left := leftOut{make(map[string]bool), make(map[string]bool), make(map[string]int)}
	if a.ApplyArgs.Ignored {
		return left
	}
	named := slices.Clone(a.Paths)
	for _, p := range a.Parts {
		named = append(named, p.Path)
	}
	for _, h := range a.Hunks {
		if name, err := a.names.Canonical(h[:max(0, strings.LastIndex(h, ":"))]); err == nil {
			named = append(named, name)
		}
	}
	for _, c := range list {
		name := c.Name()
		isAbout := len(named) == 0 || slices.ContainsFunc(named, func(n string) bool { return Within(n, name) })
		if c.IgnoredIn == "" || !isAbout || slices.ContainsFunc(named, func(n string) bool { return Within(c.IgnoredIn, n) }) {
			continue
		}
		left.changes[name] = true
		for dir := path.Dir(name); !left.above[dir]; dir = path.Dir(dir) {
			left.above[dir] = true
		}
		if c.Kind != overlay.Dir {
			left.files[c.IgnoredIn]++
		}
	}
	return left
}

// has reports whether a change stays in the session. Of a new directory with such changes, the others are
// applied one by one.
func (l leftOut) has(c changes.Change) bool {
	return l.changes[c.Name()] || l.above[c.Name()] && c.Op == overlay.Create && c.Kind == overlay.Dir
}

// maxLeftNames is how many directories String names.
const maxLeftNames = 3

// String says what stays in the session, "" if nothing does.
func (l leftOut) String() string {
	if len(l.changes) == 0 {
		return ""
	}
	places := slices.SortedFunc(maps.Keys(l.files), func(a, b string) int {
		return cmp.Or(l.files[b]-l.files[a], strings.Compare(a, b))
	})
	names, files := visible.Each(places[:min(len(places), maxLeftNames)], visible.Name), 0
	if len(places) > maxLeftNames {
		names = append(names, "…")
	}
	for _, n := range l.files {
		files += n
	}
	return "left in the session: " + visible.Count(files, "file") + " that git ignores (" + strings.Join(names, ", ") + "); --ignored applies them too"
}
