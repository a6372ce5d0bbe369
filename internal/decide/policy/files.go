package policy

import (
	"slices"

	"github.com/golem-forge/golem/sandbox"
)

// Files are layers of limits on the project's sandbox, as in [sandbox.Sandbox]. In a
// layer the longest path decides, and a name that no path covers has no access. Among
// layers the lowest access holds. The zero value has no files.
type Files struct {
	open   bool
	layers [][]sandbox.Limit
	kinds  []Kind
}

// AllFiles returns all files of the project's sandbox.
func AllFiles() Files { return Files{open: true} }

// With returns the files with one more layer. Paths need not be canonical, as for
// [sandbox.Sandbox.Restrict]. A path that Restrict refuses, because it is empty or leads
// above "/", allows nothing here and is an error in Apply.
func (f Files) With(limits ...sandbox.Limit) Files {
	layer := slices.Clone(limits)
	for i, l := range layer {
		if name, ok := cleanName(l.Path); ok {
			layer[i].Path = name
		}
	}
	f.layers = append(slices.Clip(f.layers), layer)
	return f
}

// Access returns the access at a canonical name, None at any other.
func (f Files) Access(name string) sandbox.Access {
	if !f.open || !isName(name) {
		return sandbox.None
	}
	least := sandbox.ReadWrite
	for _, layer := range f.layers {
		least = min(least, layerAccess(layer, name))
	}
	return least
}

func layerAccess(layer []sandbox.Limit, name string) sandbox.Access {
	access, length := sandbox.None, -1
	for _, l := range layer {
		switch {
		case !AtOrBelow(l.Path, name) || len(l.Path) < length:
		case len(l.Path) > length:
			access, length = l.Access, len(l.Path)
		default:
			access = min(access, l.Access)
		}
	}
	return access
}

// IsEmpty reports whether there is no access anywhere.
func (f Files) IsEmpty() bool {
	return !slices.ContainsFunc(f.anchors(), func(name string) bool { return f.Access(name) > sandbox.None })
}

// Roots returns the names at which the access starts or changes, with the access. Names
// without access are not included.
func (f Files) Roots() []sandbox.Limit {
	var roots []sandbox.Limit
	for _, name := range f.anchors() {
		if access := f.Access(name); access > sandbox.None {
			roots = append(roots, sandbox.Limit{Path: name, Access: access})
		}
	}
	return roots
}

// Apply restricts a sandbox to the files.
func (f Files) Apply(s *sandbox.Sandbox) (*sandbox.Sandbox, error) {
	if !f.open {
		return s.Restrict()
	}
	for _, layer := range f.layers {
		lesser, err := s.Restrict(layer...)
		if err != nil {
			return nil, err
		}
		s = lesser
	}
	for _, k := range f.kinds {
		lesser, err := s.Restrict(k.limit()...)
		if err != nil {
			return nil, err
		}
		s = lesser
	}
	return s, nil
}

// anchors returns the names at which the access may change. The access of two grants can
// differ only at an anchor of one of them.
func (f Files) anchors() []string {
	names := []string{"/"}
	for _, layer := range f.layers {
		for _, l := range layer {
			names = append(names, l.Path)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (f Files) meet(g Files) Files {
	return Files{f.open && g.open, slices.Concat(f.layers, g.layers), slices.Concat(f.kinds, g.kinds)}
}

func (f Files) within(g Files) []Excess {
	if !f.open {
		return nil
	}
	var excess []Excess
	names := slices.Concat(f.anchors(), g.anchors())
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if asks, has := f.Access(name), g.Access(name); asks > has {
			excess = append(excess, Excess{"file", name, asks.String(), has.String()})
		}
	}
	return excess
}
