package choice

import (
	"cmp"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/work/session"
)

// A TreeRow is a directory or a file in the tree of changed files.
type TreeRow struct {
	Name  string // below the directory above; a chain of directories without anything else is one row
	Depth int
	File  int // the index of the file among the changes, -1 for a directory
	Files int // how many changes are in the directory
}

// Tree returns changed files as a tree, in the order of their names.
func Tree(files []session.FileChange) (rows []TreeRow) {
	order := make([]int, len(files))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(files[a].Path, files[b].Path) })
	var grow func(list []int, above string, depth int)
	grow = func(list []int, above string, depth int) {
		for len(list) > 0 {
			dir := dirBelow(files[list[0]].Path, above)
			if dir == "" {
				rows = append(rows, TreeRow{Name: files[list[0]].Path[len(above):], Depth: depth, File: list[0]})
				list = list[1:]
				continue
			}
			n := 1 // names that begin with the directory are next to each other
			for n < len(list) && strings.HasPrefix(files[list[n]].Path, dir) {
				n++
			}
			for next := dirBelow(files[list[0]].Path, dir); next != "" && strings.HasPrefix(files[list[n-1]].Path, next); next = dirBelow(files[list[0]].Path, dir) {
				dir = next
			}
			rows = append(rows, TreeRow{Name: strings.TrimSuffix(dir[len(above):], "/"), Depth: depth, File: -1, Files: n})
			grow(list[:n], dir, depth+1)
			list = list[n:]
		}
	}
	grow(order, "/", 0)
	return rows
}

// dirBelow returns the directory below another one that a path is in, with a slash at its end; ""
// if the path is directly in the other one.
func dirBelow(path, above string) string {
	i := strings.IndexByte(path[len(above):], '/')
	if i < 0 {
		return ""
	}
	return path[:len(above)+i+1]
}

// A FileWarning is the first warning about a file, with the number of the others.
type FileWarning struct {
	review.Flag
	More int
}

// OnePerFile returns one warning for each file, in the order of the flags. Those about no file
// stay.
func OnePerFile(flags, all []review.Flag) (list []FileWarning) {
	count, seen := make(map[string]int), make(map[string]bool)
	for _, f := range all {
		count[f.Path]++
	}
	for _, f := range flags {
		switch {
		case f.Path == "":
			list = append(list, FileWarning{Flag: f})
		case !seen[f.Path]:
			seen[f.Path] = true
			list = append(list, FileWarning{f, count[f.Path] - 1})
		}
	}
	return list
}
