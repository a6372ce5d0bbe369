package tui

import (
	"cmp"
	"slices"
	"strings"
)

// A node is a row of the tree: a directory with changed files, or a changed file.
type node struct {
	name  string // the part of the path that the row shows
	path  string // the whole path, as the user types it
	depth int
	file  int // the index of the file; -1 for a directory
	rank  int // the smallest index of a file in it: files are sorted by their risk
	below []*node
	fold  bool // its rows are not shown
}

// newTree returns the tree of some paths. The first path of a directory decides its place,
// so the riskiest files stay on top. A directory with nothing but one directory shares its
// row with it.
func newTree(paths []string) *node {
	root := &node{file: -1}
	dirs := map[string]*node{"": root}
	var dirOf func(path string) *node
	dirOf = func(path string) *node {
		if d := dirs[path]; d != nil {
			return d
		}
		parent, name, ok := cutLast(path)
		if !ok {
			parent, name = "", path
		}
		if ok && parent == "" {
			name = path // a path that begins with /
		}
		above := dirOf(parent)
		d := &node{name: name, path: path, file: -1, rank: len(paths)}
		dirs[path], above.below = d, append(above.below, d)
		return d
	}
	for i, path := range paths {
		dir, name, ok := cutLast(path)
		if !ok || dir == "" {
			dir, name = "", path
		}
		above := dirOf(dir)
		above.below = append(above.below, &node{name: name, path: path, file: i, rank: i})
	}
	root.arrange(0)
	return root
}

// cutLast splits a path before its last slash.
func cutLast(path string) (dir, name string, ok bool) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", path, false
	}
	return path[:i], path[i+1:], true
}

// arrange sorts the rows below a node, and joins directories.
func (n *node) arrange(depth int) {
	for _, b := range n.below {
		for b.file < 0 && len(b.below) == 1 && b.below[0].file < 0 {
			only := b.below[0]
			b.name, b.path, b.below = b.name+"/"+only.name, only.path, only.below
		}
		b.depth = depth
		b.arrange(depth + 1)
	}
	for _, b := range n.below {
		n.rank = min(n.rank, b.rank)
	}
	slices.SortStableFunc(n.below, func(a, b *node) int { return cmp.Compare(a.rank, b.rank) })
}

// rows returns the rows of a tree that are shown, from top to bottom.
func (n *node) rows() (list []*node) {
	for _, b := range n.below {
		list = append(list, b)
		if !b.fold {
			list = append(list, b.rows()...)
		}
	}
	return list
}

// files returns the indexes of the files at and below a node.
func (n *node) files() (list []int) {
	if n.file >= 0 {
		return []int{n.file}
	}
	for _, b := range n.below {
		list = append(list, b.files()...)
	}
	return list
}
