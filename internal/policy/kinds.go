package policy

import (
	"slices"
	"strings"

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

// Only returns the files narrowed to kinds. Whether a name is a file or a folder
// is not known here, and neither is its size: the sandbox keeps to the kinds,
// and [Files.Apply] refuses one that does not.
func (f Files) Only(kinds ...Kind) Files {
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

// kept returns an error if a mount of the sandbox lets more files through.
func (k Kind) kept(s *sandbox.Sandbox) error {
	for _, m := range s.Mounts() {
		holder, ok := s.MountOf(k.Path)
		if !holds(k.Path, m.Target) && !(ok && holder.Target == m.Target) {
			continue
		}
		if !k.keptBy(m) {
			return &sandbox.Error{Op: "restrict", Path: k.Path, Code: sandbox.ErrInvalid,
				Hint: k.From + ": suffixes and max_file_bytes hold for all workers alike; write them in the project, at " + m.Target + ", or leave them out here"}
		}
	}
	return nil
}

func (k Kind) keptBy(m sandbox.Mount) bool {
	if k.MaxBytes > 0 && (m.MaxFileBytes == 0 || m.MaxFileBytes > k.MaxBytes) {
		return false
	}
	if len(k.Suffixes) == 0 {
		return true
	}
	return len(m.Suffixes) > 0 && !slices.ContainsFunc(m.Suffixes, func(has string) bool {
		return !slices.ContainsFunc(k.Suffixes, func(asks string) bool {
			return strings.HasSuffix(strings.ToLower(has), strings.ToLower(asks))
		})
	})
}
