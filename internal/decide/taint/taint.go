// Package taint records which untrusted input a worker has read. Such input may steer the
// worker, so a tainted worker needs approval for effects outside its overlay.
package taint

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/sandbox"
)

// maxNames is how many file names a Tracker remembers.
const maxNames = 10_000

// A Tracker records what a worker has read: how many bytes, which files, and whether any
// of it came from an untrusted mount. Many goroutines may use it at once.
type Tracker struct {
	Untrusted []string // paths at and below which content is untrusted,
	Trusted   []string // except at and below these
	Direct    []string // mounts whose files tools change directly
	Overlaid  []string // mounts whose changes go to an overlay

	// LinkedSource, if set, returns the untrusted path at which a file has another name,
	// "" for none. With tree, it looks at the files in a directory.
	LinkedSource func(name string, tree bool) string

	// OnTaint, if set, is called when the worker first reads untrusted content.
	// SharedSource, if set, returns the untrusted path that other users of the same files
	// have read, "" for none. Its result may change at any time.
	OnTaint      func(from string)
	SharedSource func() string

	mu    sync.Mutex
	bytes int64
	read  map[string]bool // the first maxNames names of files; false for files that the worker has written itself
	from  string          // the first untrusted path that was read, "" for none
}

// Bytes returns how many bytes the worker got.
func (e *Tracker) Bytes() int64 {
	if e == nil {
		return 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.bytes
}

// FilesRead returns the names of files that the worker has read and not written itself.
// It leaves out some if there were more than maxNames.
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

// Source returns the first untrusted path that the worker has read, "" for none.
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

// CommandSource returns the untrusted path that a command of the worker may have read, ""
// for none. A command can read every mount while it runs.
func (e *Tracker) CommandSource() string {
	if e != nil && len(e.Untrusted) > 0 {
		return cmp.Or(e.Source(), e.Untrusted[0])
	}
	return e.Source()
}

// MarkTainted records that the worker has read untrusted content from a path. It ignores
// "".
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

// Merge adds the bytes and the taint of another worker, whose result this one has read.
// Either may be nil.
func (e *Tracker) Merge(other *Tracker) {
	if e == nil || other == nil {
		return
	}
	e.AddBytes(other.Bytes())
	e.MarkTainted(other.Source())
}

// RecordSeen records what effects let the worker see. Any effect on a file counts as
// reading it, because the result may show content, as the diff of a change does. A
// command counts as reading every mount.
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

// UntrustedMount returns the untrusted path that a name is at or below, "" for none. With
// tree, it also returns an untrusted path below the name. The longest matching path
// decides.
func (e *Tracker) UntrustedMount(name string, tree bool) string {
	from, near := "", -1
	for _, place := range e.Untrusted {
		if policy.AtOrBelow(place, name) && len(place) > near {
			from, near = place, len(place)
		}
		if tree && policy.AtOrBelow(name, place) {
			return place
		}
	}
	for _, place := range e.Trusted {
		if policy.AtOrBelow(place, name) && len(place) > near {
			from, near = "", len(place)
		}
	}
	return from
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

// AddBytes counts the bytes that the worker gets.
func (e *Tracker) AddBytes(n int64) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.bytes += n
}

// Rules returns the rules for a tainted worker, nil if it is not tainted. They are one
// more layer of approval rules. A call then needs approval to connect, to change files
// directly, to run the program of a foreign tool, and to use a tool that uses the
// network.
func (e *Tracker) Rules(t tool.Tool) []policy.Rule {
	from := e.Source()
	if from == "" {
		return nil
	}
	because := "untrusted: " + sandbox.Shown(from) + " was read"
	ask := func(verb policy.Verb, target string, level policy.Approval) policy.Rule {
		return policy.Rule{Verb: verb, Target: target, Approval: level, From: because}
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
