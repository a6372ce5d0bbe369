package review

import (
	"cmp"
	"strings"

	"github.com/golem-forge/golem/internal/visible"
)

// MostFiles is how many files a short list names. A longer list counts the others by
// directory.
const MostFiles = 30

// DirectoryCounts count the changes in directories.
type DirectoryCounts struct {
	of    map[string]*directoryCount
	order []string
}

type directoryCount struct{ files, added, removed int }

// Add counts a change of a file.
func (d *DirectoryCounts) Add(name string, added, removed int) {
	if d.of == nil {
		d.of = make(map[string]*directoryCount)
	}
	dir := topDirectory(name)
	s := d.of[dir]
	if s == nil {
		s = new(directoryCount)
		d.of[dir], d.order = s, append(d.order, dir)
	}
	s.files, s.added, s.removed = s.files+1, s.added+added, s.removed+removed
}

// Order returns the directories in the order of their first change.
func (d *DirectoryCounts) Order() []string { return d.order }

// Text returns the counts of a directory in words.
func (d *DirectoryCounts) Text(dir string) string {
	s := d.of[dir]
	return visible.Count(s.files, "file") + " (" + visible.LineCounts(s.added, s.removed) + ")"
}

// topDirectory returns the first directory of a path. Leading ../ elements are kept and
// not counted.
func topDirectory(name string) string {
	up := ""
	for strings.HasPrefix(name, "../") {
		up, name = up+"../", name[len("../"):]
	}
	if dir, _, ok := strings.Cut(name, "/"); ok && dir != "" {
		return up + dir + "/"
	}
	return cmp.Or(up, "./")
}
