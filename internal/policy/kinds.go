package policy

import (
	"slices"

	"github.com/golem-forge/golem/sandbox"
)

// A Kind narrows which files may be read and written at a path and below it: by
// their suffixes, where there are any, and their size, where it is above zero.
type Kind struct {
	Path     string
	Suffixes []string
	MaxBytes int64
	From     string // where it is written
}

// WithKinds returns the files narrowed to kinds. Whether a name is a file or a folder
// is not known here, and neither is its size: the sandbox that [Files.Apply]
// makes keeps to the kinds.
func (f Files) WithKinds(kinds ...Kind) Files {
	f.kinds = slices.Concat(f.kinds, kinds)
	for i, k := range f.kinds {
		if name, ok := cleanName(k.Path); ok {
			f.kinds[i].Path = name
		}
	}
	return f
}

// Kinds returns the kinds, those of the first who had a say first.
func (f Files) Kinds() []Kind { return slices.Clone(f.kinds) }

// limit is the kind as a layer of its own, which lets all else through.
func (k Kind) limit() []sandbox.Limit {
	return []sandbox.Limit{
		{Path: "/", Access: sandbox.ReadWrite},
		{Path: k.Path, Access: sandbox.ReadWrite, Suffixes: k.Suffixes, MaxFileBytes: k.MaxBytes},
	}
}
