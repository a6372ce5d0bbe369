// Package taint records what a worker has read. Untrusted input may steer the worker that
// reads it, so a tainted worker needs approval for effects outside its overlay.
package taint

import (
	"slices"
	"strings"
	"sync"

	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/sandbox"
)

// maxRead is how many names an exposure remembers.
const maxNames = 10_000

// A Tracker records what a worker has taken in: how much, by which names, and whether
// anything of it came from a place that is not trusted. It may be used by many
// goroutines at once.
type Tracker struct {
	Untrusted []string // the names at and below which nothing is to be trusted,
	Trusted   []string // but for what is at and below these
	Direct    []string // mounts whose files are changed at once, and
	Overlaid  []string // those that keep what is changed

	// Linked, where set, returns the place that is not trusted in which a file has another
	// name, or one of those in a folder, "" for none.
	LinkedSource func(name string, tree bool) string

	// Told, where set, is called when the worker first takes in what is not trusted. Kept,
	// where set, returns what those have taken in who share its files, "" for nothing: they
	// may do so at any time.
	OnTaint      func(from string)
	SharedSource func() string

	mu    sync.Mutex
	bytes int64
	read  map[string]bool // names of files, the first ones; false of those that it has written
	from  string          // the first place that was not trusted, "" for none
}

// Bytes returns how much was taken in.
func (e *Tracker) Bytes() int64 {
	if e == nil {
		return 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.bytes
}

// FilesRead returns names of files that were read and are not of its own making, not all if
// there were many.
func (e *Tracker) FilesRead() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var names []string
	for name, read := range e.read {
		if read {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Source returns the first place that was read and is not trusted, "" for none.
func (e *Tracker) Source() string {
	if e == nil {
		return ""
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.from == "" && e.SharedSource != nil {
		e.from = e.SharedSource()
	}
	return e.from
}

// MarkTainted notes that what is not trusted was taken in, "" for nothing.
func (e *Tracker) MarkTainted(from string) {
	if e == nil || from == "" {
		return
	}
	e.mu.Lock()
	first := e.from == ""
	if first {
		e.from = from
	}
	e.mu.Unlock()
	if first && e.OnTaint != nil {
		e.OnTaint(from)
	}
}

// Merge notes that another has told what it knows. Nobody hears nothing.
func (e *Tracker) Merge(other *Tracker) {
	if e == nil || other == nil {
		return
	}
	e.AddBytes(other.Bytes())
	e.MarkTainted(other.Source())
}

// RecordSeen notes what effects let a call see: whatever is done to a file may tell what is in
// it, as the diff of a change does. A command sees all that is there.
func (e *Tracker) RecordSeen(effects []policy.Effect) {
	for _, one := range effects {
		switch {
		case one.Verb == policy.Run:
			if len(e.Untrusted) > 0 {
				e.MarkTainted(e.Untrusted[0])
			}
		case strings.HasPrefix(one.Target, "/"):
			e.MarkTainted(e.UntrustedMount(one.Target, one.Tree))
			if e.LinkedSource != nil && e.Source() == "" {
				e.MarkTainted(e.LinkedSource(one.Target, one.Tree))
			}
			e.recordName(one)
		}
	}
}

// UntrustedMount returns the name that is not trusted and that a name is at or below, or with
// tree above; "" for none. The nearest of the names that say something decides.
func (e *Tracker) UntrustedMount(name string, tree bool) string {
	from, near := "", -1
	for _, place := range e.Untrusted {
		if isBelow(place, name) && len(place) > near {
			from, near = place, len(place)
		}
		if tree && isBelow(name, place) {
			return place
		}
	}
	for _, place := range e.Trusted {
		if isBelow(place, name) && len(place) > near {
			from, near = "", len(place)
		}
	}
	return from
}

// isBelow reports whether a name is a folder's or that of something in it.
func isBelow(folder, name string) bool {
	return folder == "/" || name == folder || strings.HasPrefix(name, folder+"/")
}

// recordName remembers the name of a file.
func (e *Tracker) recordName(one policy.Effect) {
	if one.Tree {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.read == nil {
		e.read = make(map[string]bool)
	}
	if own, known := e.read[one.Target]; len(e.read) < maxNames || known {
		e.read[one.Target] = one.Verb != policy.Write && (own || !known)
	}
}

// AddBytes notes how many bytes were handed to the worker.
func (e *Tracker) AddBytes(n int64) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.bytes += n
}

// Rules are what holds for a worker that has taken in what is not trusted: one more
// layer of consent, below which nothing of the others goes.
func (e *Tracker) Rules(t tool.Tool) []policy.Rule {
	from := e.Source()
	if from == "" {
		return nil
	}
	because := "untrusted: " + sandbox.Shown(from) + " was read"
	ask := func(verb policy.Verb, target string, consent policy.Approval) policy.Rule {
		return policy.Rule{Verb: verb, Target: target, Approval: consent, From: because}
	}
	rules := []policy.Rule{ask(policy.Connect, "*", policy.Ask)}
	for _, verb := range []policy.Verb{policy.Write, policy.Delete} {
		for _, target := range e.Direct {
			rules = append(rules, ask(verb, target, policy.Ask))
		}
		for _, target := range e.Overlaid {
			rules = append(rules, ask(verb, target, policy.PreApproved))
		}
	}
	if t.Program != "" {
		rules = append(rules, ask(policy.Run, t.Program, policy.Ask))
	}
	if t.UsesNetwork {
		rules = append(rules, ask(policy.Use, t.Name, policy.Ask))
	}
	return rules
}
