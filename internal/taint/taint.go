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
const maxRead = 10_000

// A Tracker records what a worker has taken in: how much, by which names, and whether
// anything of it came from a place that is not trusted. It may be used by many
// goroutines at once.
type Tracker struct {
	Untrusted []string // the names at and below which nothing is to be trusted,
	Trusted   []string // but for what is at and below these
	Beyond    []string // mounts whose files are changed at once, and
	Layered   []string // those that keep what is changed

	// Linked, where set, returns the place that is not trusted in which a file has another
	// name, or one of those in a folder, "" for none.
	Linked func(name string, tree bool) string

	// Told, where set, is called when the worker first takes in what is not trusted. Kept,
	// where set, returns what those have taken in who share its files, "" for nothing: they
	// may do so at any time.
	Told func(from string)
	Kept func() string

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

// Read returns names of files that were read and are not of its own making, not all if
// there were many.
func (e *Tracker) Read() []string {
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

// From returns the first place that was read and is not trusted, "" for none.
func (e *Tracker) From() string {
	if e == nil {
		return ""
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.from == "" && e.Kept != nil {
		e.from = e.Kept()
	}
	return e.from
}

// Taint notes that what is not trusted was taken in, "" for nothing.
func (e *Tracker) Taint(from string) {
	if e == nil || from == "" {
		return
	}
	e.mu.Lock()
	first := e.from == ""
	if first {
		e.from = from
	}
	e.mu.Unlock()
	if first && e.Told != nil {
		e.Told(from)
	}
}

// Hears notes that another has told what it knows. Nobody hears nothing.
func (e *Tracker) Hears(other *Tracker) {
	if e == nil || other == nil {
		return
	}
	e.Takes(other.Bytes())
	e.Taint(other.From())
}

// Sees notes what effects let a call see: whatever is done to a file may tell what is in
// it, as the diff of a change does. A command sees all that is there.
func (e *Tracker) Sees(effects []policy.Effect) {
	for _, one := range effects {
		switch {
		case one.Verb == policy.Run:
			if len(e.Untrusted) > 0 {
				e.Taint(e.Untrusted[0])
			}
		case strings.HasPrefix(one.Target, "/"):
			e.Taint(e.Place(one.Target, one.Tree))
			if e.Linked != nil && e.From() == "" {
				e.Taint(e.Linked(one.Target, one.Tree))
			}
			e.note(one)
		}
	}
}

// Place returns the name that is not trusted and that a name is at or below, or with
// tree above; "" for none. The nearest of the names that say something decides.
func (e *Tracker) Place(name string, tree bool) string {
	from, near := "", -1
	for _, place := range e.Untrusted {
		if holds(place, name) && len(place) > near {
			from, near = place, len(place)
		}
		if tree && holds(name, place) {
			return place
		}
	}
	for _, place := range e.Trusted {
		if holds(place, name) && len(place) > near {
			from, near = "", len(place)
		}
	}
	return from
}

// holds reports whether a name is a folder's or that of something in it.
func holds(folder, name string) bool {
	return folder == "/" || name == folder || strings.HasPrefix(name, folder+"/")
}

// note remembers the name of a file.
func (e *Tracker) note(one policy.Effect) {
	if one.Tree {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.read == nil {
		e.read = make(map[string]bool)
	}
	if own, known := e.read[one.Target]; len(e.read) < maxRead || known {
		e.read[one.Target] = one.Verb != policy.Write && (own || !known)
	}
}

// Takes notes how many bytes were handed to the worker.
func (e *Tracker) Takes(n int64) {
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
	from := e.From()
	if from == "" {
		return nil
	}
	because := "untrusted: " + sandbox.Shown(from) + " was read"
	ask := func(verb policy.Verb, target string, consent policy.Consent) policy.Rule {
		return policy.Rule{Verb: verb, Target: target, Consent: consent, From: because}
	}
	rules := []policy.Rule{ask(policy.Connect, "*", policy.Ask)}
	for _, verb := range []policy.Verb{policy.Write, policy.Delete} {
		for _, target := range e.Beyond {
			rules = append(rules, ask(verb, target, policy.Ask))
		}
		for _, target := range e.Layered {
			rules = append(rules, ask(verb, target, policy.PreApproved))
		}
	}
	if t.Runs != "" {
		rules = append(rules, ask(policy.Run, t.Runs, policy.Ask))
	}
	if t.Reaches {
		rules = append(rules, ask(policy.Use, t.Name, policy.Ask))
	}
	return rules
}
