package review

import (
	"slices"

	"github.com/golem-forge/golem/internal/people/visible"
)

// A Collector collects the flags of many changes. Everything that shows changes to a
// person uses one, so that all of them warn of the same files in the same order. It keeps
// no contents.
type Collector struct {
	changes []FileChange
	flags   []Flag
	unread  map[string]bool // files whose content was not read
}

// maxUnread is how many files are named whose content was not read. If there are more,
// one flag counts them.
const maxUnread = 20

// Grow makes room for so many more changes.
func (l *Collector) Grow(n int) { l.changes = slices.Grow(l.changes, n) }

// Add adds a change, and returns its own flags, the riskiest first.
func (l *Collector) Add(c FileChange) []Flag {
	list := Flags(c)
	l.AddKnown(c, list)
	return list
}

// AddKnown adds a change whose own flags are known already. It needs no contents.
func (l *Collector) AddKnown(c FileChange, own []Flag) {
	l.flags = append(l.flags, own...)
	if c.Cut && c.New == nil && c.Operation != remove {
		if l.unread == nil {
			l.unread = make(map[string]bool)
		}
		l.unread[c.Path] = true
	}
	c.Old, c.New, c.Diff = nil, nil, ""
	l.changes = append(l.changes, c)
}

// Flags returns the flags of all changes, and those of the changes as a whole, in the
// order of Order.
func (l *Collector) Flags() []Flag {
	many := len(l.unread) > maxUnread
	var list []Flag
	for _, f := range l.flags {
		if !many || f.Kind != NotSeen || !l.unread[f.Path] {
			list = append(list, f)
		}
	}
	if many {
		list = append(list, flag(NotSeen, "", "the content of %s was not looked at", visible.Count(len(l.unread), "file")))
	}
	list = append(list, All(l.changes)...)
	Order(list)
	return list
}
