// Package steps compares what sessions held at different steps.
package steps

import (
	"path"

	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/files/patch"
)

// A Difference is a path that two moments have with different contents.
type Difference struct {
	overlay.PathChange
	Target string // of the overlay
	// Old and New are the contents of a text, nil for none. IsText is false if one of them is
	// no text, or too large to compare.
	Old, New []byte
	IsText   bool
}

// Name returns the path in the sandbox.
func (d Difference) Name() string { return path.Join(d.Target, d.Path) }

// Count returns how many lines the difference adds and removes.
func (d Difference) Count() (added, removed int) {
	if !d.IsText {
		return 0, 0
	}
	for _, h := range patch.Hunks(string(d.Old), string(d.New)) {
		for _, line := range h.Lines {
			switch line.Mark {
			case patch.Added:
				added++
			case patch.Removed:
				removed++
			}
		}
	}
	return added, removed
}

// maxCompared is the size of the largest file whose lines Differences compares.
const maxCompared = 1 << 20
