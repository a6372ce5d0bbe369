package strictyaml

import (
	"slices"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// DidYouMean returns a hint for a word that is none of the known ones: the nearest, or else
// all.
func DidYouMean(word string, known []string) string {
	if near := sandbox.Nearest(word, known); len(near) > 0 {
		return "did you mean " + near[0] + "?"
	}
	if len(known) == 0 {
		return "the project has none"
	}
	return "there are " + strings.Join(slices.Sorted(slices.Values(known)), ", ")
}
