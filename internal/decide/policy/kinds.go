package policy

import (
	"slices"

	"github.com/golem-forge/golem/sandbox"
)

// A Kind limits which files may be read and written at a path and below it. It limits
// their suffixes, if it has any, and their size, if MaxBytes is above zero.
type Kind struct {
	Path     string
	Suffixes []string
	MaxBytes int64
	From     string // the place of the setting
}

// WithKinds returns the files limited to kinds. It is not known here whether a name is a
// file or a directory, nor its size: the sandbox that [Files.Apply] returns enforces the
// kinds.
func (f Files) WithKinds(kinds ...Kind) Files {
	f.kinds = slices.Concat(f.kinds, kinds)
	for i, k := range f.kinds {
		if name, ok := cleanName(k.Path); ok {
			f.kinds[i].Path = name
		}
	}
	return f
}

// Kinds returns the kinds, in the order in which they were added.
func (f Files) Kinds() []Kind { return slices.Clone(f.kinds) }

// limit returns the kind as a layer of limits that allows everything else.
func (k Kind) limit() []sandbox.Limit {
	return []sandbox.Limit{
		{Path: "/", Access: sandbox.ReadWrite},
		{Path: k.Path, Access: sandbox.ReadWrite, Suffixes: k.Suffixes, MaxFileBytes: k.MaxBytes},
	}
}
