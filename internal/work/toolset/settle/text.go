package settle

import (
	"slices"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/internal/files/patch"
)

// HasHunks reports whether the diff of two contents has hunks to choose from. Both must
// be text in UTF-8, because a diff of anything else is not shown byte for byte.
func HasHunks(old, new []byte) bool {
	return old != nil && new != nil && filecontent.IsText(old) && filecontent.IsText(new) && utf8.Valid(old) && utf8.Valid(new)
}

// withHunks returns old with some of the hunks of its diff to new applied. Hunks are
// numbered from 1. Name names the chosen ones, and count is how many the diff has.
func withHunks(old, new string, numbers []int) (text, name string, count int, err error) {
	all := patch.Hunks(old, new)
	var chosen []patch.Hunk
	for i, h := range all {
		if slices.Contains(numbers, i+1) {
			chosen = append(chosen, h)
		}
	}
	text, err = patch.Apply(old, chosen)
	return text, patch.Name(all, chosen), len(all), err
}
