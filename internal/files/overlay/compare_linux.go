package overlay

import (
	"bytes"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/layers"
)

// A Point is what the overlay of a session showed when a layer was frozen, or what it shows now.
type Point struct {
	Overlay Overlay
	Layer   string // "" for an overlay without changes
	Now     bool   // what it shows now, in place of Layer
	Whole   bool   // with the real directory as it is now
}

// open opens what a point shows as one directory.
func (p Point) open() (*tree, []string, error) {
	if p.Overlay.IsCopy {
		t, err := openTree(p.Overlay.SessionDir())
		return t, nil, err
	}
	below, err := layers.Read(p.Overlay.Store)
	if err == nil && !p.Now {
		below, err = layers.At(p.Overlay.Store, p.Layer)
	}
	if err != nil {
		return nil, nil, err
	}
	dirs, err := below.Uppers(p.Overlay.Store)
	if err != nil {
		return nil, nil, err
	}
	names := slices.Clone(below.Layers[len(below.Layers)-len(dirs):])
	if p.Now {
		dirs, names = slices.Insert(dirs, 0, p.Overlay.UpperDir()), slices.Insert(names, 0, "")
	}
	if p.Whole || len(dirs) == 0 {
		dirs = append(dirs, p.Overlay.Dir)
	}
	s, err := openStack(dirs)
	if err != nil {
		return nil, nil, err
	}
	t, err := openTree(dirs[0])
	if err != nil {
		s.each((*tree).close)
		return nil, nil, err
	}
	t.stack = s
	return t, names, nil
}

// Compare lists the changes that lead from one point of a session to another one, which may be
// of another session over the same directory. It looks only at the layers that the points do
// not share. A changed directory has only the changes in it.
func Compare(from, to Point) ([]PathChange, error) {
	from.Whole, to.Whole = true, true
	c := comparison{}
	var names [2][]string
	for i, p := range []Point{from, to} {
		t, layers, err := p.open()
		if err != nil {
			return nil, err
		}
		defer t.close()
		c.sides[i], names[i] = t, layers
	}
	for len(names[0]) > 0 && len(names[1]) > 0 && names[0][len(names[0])-1] == names[1][len(names[1])-1] && names[0][len(names[0])-1] != "" {
		names[0], names[1] = names[0][:len(names[0])-1], names[1][:len(names[1])-1]
	}
	for i, side := range c.sides {
		c.own = append(c.own, side.stack.trees[:len(names[i])]...)
	}
	err := c.compareDir("", false)
	return c.list, err
}

// A comparison is the work of Compare.
type comparison struct {
	sides [2]*tree
	own   []*tree // the layers that only one side has
	list  []PathChange
}

// compareDir compares a directory. If whole is true, everything in it may differ, and not only
// what a layer of one side has.
func (c *comparison) compareDir(name string, whole bool) error {
	var names []string
	if whole {
		for _, side := range c.sides {
			list, err := side.list(name)
			if err != nil && err != unix.ENOENT && err != unix.ENOTDIR {
				return err
			}
			names = append(names, list...)
		}
	} else {
		for _, in := range c.own {
			list, err := in.list(name)
			if err != nil && err != unix.ENOENT && err != unix.ENOTDIR {
				return err
			}
			names = append(names, list...)
		}
	}
	slices.Sort(names)
	for _, base := range slices.Compact(names) {
		if err := c.compareEntry(joinName(name, base), whole); err != nil {
			return err
		}
	}
	return nil
}

// compareEntry compares one path.
func (c *comparison) compareEntry(name string, whole bool) error {
	var st [2]unix.Stat_t
	var in [2]*tree
	var kinds [2]Kind
	for i, side := range c.sides {
		var err error
		in[i], st[i], err = side.stack.find(name)
		if err == unix.ENOENT || err == unix.ENOTDIR {
			continue
		}
		if err != nil {
			return err
		}
		kinds[i] = kindOf(st[i])
	}
	if change := (PathChange{Path: name, Kind: kinds[1], OldKind: kinds[0], Mode: permissions(st[1]), OldMode: permissions(st[0])}); kinds[0] != kinds[1] {
		change.Op = Modify
		switch Nothing {
		case kinds[0]:
			change.Op = Create
		case kinds[1]:
			change.Op, change.Mode = Delete, 0
		}
		c.add(change, st[1])
	} else if kinds[0] != Nothing && (st[0].Dev != st[1].Dev || st[0].Ino != st[1].Ino) {
		same, err := isSame(name, in, st, kinds[0])
		if err != nil {
			return err
		}
		if !same || permissions(st[0]) != permissions(st[1]) && kinds[0] != Symlink {
			if change.Op = Modify; same {
				change.Op = Mode
			}
			c.add(change, st[1])
		}
	}
	if kinds[0] != Dir && kinds[1] != Dir {
		return nil
	}
	whole = whole || kinds[0] != kinds[1]
	for _, one := range c.own {
		st, err := one.stat(name)
		whole = whole || err == nil && (kindOf(st) != Dir || isOpaque(name, one))
	}
	return c.compareDir(name, whole)
}

// add adds a change. to is the state of a file after it.
func (c *comparison) add(change PathChange, to unix.Stat_t) {
	if change.Kind == File {
		change.Size = to.Size
	}
	if change.Kind == Symlink {
		change.LinkTarget, _ = c.sides[1].readLink(change.Path)
	}
	c.list = append(c.list, change)
}

// isSame reports whether a path has the same content in two trees, which both have a file or
// symlink or directory there.
func isSame(name string, in [2]*tree, st [2]unix.Stat_t, kind Kind) (bool, error) {
	switch kind {
	case Dir:
		return true, nil
	case Symlink:
		a, err := in[0].readLink(name)
		if err != nil {
			return false, err
		}
		b, err := in[1].readLink(name)
		return a == b, err
	case File:
	default:
		return st[0].Mode == st[1].Mode && st[0].Rdev == st[1].Rdev, nil
	}
	if st[0].Size != st[1].Size {
		return false, nil
	}
	var files [2]*os.File
	for i, t := range in {
		f, err := t.openFile(name)
		if err != nil {
			return false, err
		}
		defer f.Close()
		files[i] = f
	}
	var parts [2][64 << 10]byte
	for {
		n, err := io.ReadFull(files[0], parts[0][:])
		m, _ := io.ReadFull(files[1], parts[1][:])
		if !bytes.Equal(parts[0][:n], parts[1][:m]) {
			return false, nil
		}
		if err != nil {
			return err == io.EOF || err == io.ErrUnexpectedEOF, nil
		}
	}
}
