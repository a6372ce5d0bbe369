package tool

import (
	"fmt"
	"strings"

	"github.com/golem-forge/golem/internal/people/visible"
)

// maxDone is how many changes a Done names, and maxPart how many characters of their parts.
const (
	maxDone = 8
	maxPart = 200
)

// A Done is what a call did to files: how many changes it applied or undid, and which.
type Done struct {
	Undone bool // otherwise they were applied
	Count  int
	First  []Change // the first changes
	More   int      // how many others there are
}

// NewDone returns what a call did that applied all of the changes.
func NewDone(list []Change) *Done { return (&Done{Count: len(list)}).name(list) }

// name returns d with the names of the changes.
func (d *Done) name(list []Change) *Done {
	first := list[:min(len(list), maxDone)]
	return &Done{d.Undone, d.Count, first, len(list) - len(first)}
}

// String returns the line of a result: the names of applied changes, or the number of
// undone ones.
func (d *Done) String() string {
	if d.Undone {
		return "undone: " + visible.Count(d.Count, "change")
	}
	return "applied: " + d.list(map[Op]string{Create: "created ", Update: "changed ", Delete: "deleted "})
}

// Named returns the line with the names of undone changes too.
func (d *Done) Named() string {
	if !d.Undone {
		return d.String()
	}
	return d.String() + ": " + d.list(map[Op]string{Create: "restored ", Update: "restored ", Delete: "deleted ", Move: "moved back "})
}

func (d *Done) list(words map[Op]string) string {
	var names []string
	for _, c := range d.First {
		word := words[c.Op]
		if c.OnlyMode {
			word = "permissions of "
		}
		one := word + visible.Name(c.Path)
		if c.Part != "" {
			one += " (" + visible.Line(c.Part, maxPart) + ")"
		}
		names = append(names, one)
	}
	text := strings.Join(names, ", ")
	if d.More > 0 {
		text += fmt.Sprintf(" and %d more", d.More)
	}
	return text
}
