package review

import (
	"cmp"
	"strings"

	"github.com/golem-forge/golem/internal/people/visible"
)

// MostFiles is how many files a short list names. A longer list counts the others by
// directory.
const MostFiles = 30

// DirectoryCounts count the changes in directories.
type DirectoryCounts struct {
	of    map[string]*directoryCount
	order []string
}

type directoryCount struct{ files, added, removed, unread int }

// maxDirectories is how many directories Each names.
const maxDirectories = 20

// Add counts a change of a file. isRead is false if its lines are not known.
func (d *DirectoryCounts) Add(name string, added, removed int, isRead bool) {
	if d.of == nil {
		d.of = make(map[string]*directoryCount)
	}
	dir := topDirectory(name)
	s := d.of[dir]
	if s == nil {
		s = new(directoryCount)
		d.of[dir], d.order = s, append(d.order, dir)
	}
	s.add(directoryCount{files: 1, added: added, removed: removed})
	if !isRead {
		s.unread++
	}
}

func (s *directoryCount) add(o directoryCount) {
	s.files, s.added, s.removed, s.unread = s.files+o.files, s.added+o.added, s.removed+o.removed, s.unread+o.unread
}

// Each calls row with the counts of each directory in words, in the order of their first
// changes. If there are many, the last row counts all others.
func (d *DirectoryCounts) Each(row func(dir, counts string)) {
	var others directoryCount
	for i, dir := range d.order {
		if i < maxDirectories || len(d.order) == maxDirectories+1 {
			row(dir, d.of[dir].String())
			continue
		}
		others.add(*d.of[dir])
	}
	if others.files > 0 {
		row("and "+visible.Count(len(d.order)-maxDirectories, "more directory"), others.String())
	}
}

func (s directoryCount) String() string {
	text := visible.Count(s.files, "file")
	switch {
	case s.added+s.removed > 0 && s.unread > 0:
		return text + " (" + visible.LineCounts(s.added, s.removed) + ", " + visible.Number(s.unread) + " not read)"
	case s.added+s.removed > 0:
		return text + " (" + visible.LineCounts(s.added, s.removed) + ")"
	case s.unread > 0:
		return text + ", " + visible.Number(s.unread) + " not read"
	}
	return text
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
