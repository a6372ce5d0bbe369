package policy

import (
	"slices"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// A Set is a set of names of tools, workers or credentials. The zero Set is empty.
type Set struct {
	all   bool
	names []string // sorted
}

// All returns the set of all names.
func All() Set { return Set{all: true} }

// SetOf returns a set of names. If "*" is among them, it returns All.
func SetOf(names ...string) Set {
	if slices.Contains(names, "*") {
		return All()
	}
	names = slices.Clone(names)
	slices.Sort(names)
	return Set{names: slices.Compact(names)}
}

// Has reports whether the name is in the set.
func (s Set) Has(name string) bool {
	if s.all {
		return true
	}
	_, ok := slices.BinarySearch(s.names, name)
	return ok
}

// IsEmpty reports whether the set is empty.
func (s Set) IsEmpty() bool { return !s.all && len(s.names) == 0 }

// IsAll reports whether the set has every name.
func (s Set) IsAll() bool { return s.all }

// Names returns the names, "*" for all.
func (s Set) Names() []string {
	if s.all {
		return []string{"*"}
	}
	return slices.Clone(s.names)
}

func (s Set) meet(t Set) Set {
	switch {
	case s.all:
		return t
	case t.all:
		return s
	}
	return Set{names: slices.DeleteFunc(slices.Clone(s.names), func(n string) bool { return !t.Has(n) })}
}

func (s Set) within(what string, t Set) []Excess {
	if t.all {
		return nil
	}
	if s.all {
		return []Excess{{what, "*", "every " + what, joinNames(t.names, "none")}}
	}
	var excess []Excess
	for _, n := range s.names {
		if !t.Has(n) {
			excess = append(excess, Excess{what, n, "it", joinNames(t.names, "none")})
		}
	}
	return excess
}

// joinNames returns the first names of a list, escaped for output. It returns none if the
// list is empty.
func joinNames(names []string, none string) string {
	const most = 16
	if len(names) == 0 {
		return none
	}
	var shown []string
	for _, n := range names {
		if len(shown) == most {
			shown = append(shown, "…")
			break
		}
		shown = append(shown, sandbox.Shown(n))
	}
	return strings.Join(shown, ", ")
}
