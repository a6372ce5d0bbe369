package tool

import (
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/sandbox"
)

// Names are what a planner may ask about: where names lead and what the policy
// lets be done there. Of what is in the files it learns nothing, since nothing
// is decided yet.
type Names struct {
	gate    Gate
	skipped *[]string // what a plan leaves out for want of consent
	origin  policy.Origin
}

// Locate is the sandbox's: the canonical name that a name leads to, if an
// operation with this access may go there. Where names may not be read without
// consent it does not tell what is there: a name on which it would fail for that
// is returned as it is, to be decided about.
func (n Names) Locate(op, name string, access sandbox.Access, itself bool) (string, error) {
	name = n.fromCommand(name)
	at, err := n.gate.Files.Locate(op, name, access, itself)
	switch sandbox.CodeOf(err) {
	case sandbox.ErrNotDir, sandbox.ErrOutside, sandbox.ErrConflict, sandbox.ErrNotRegular:
		asked, bad := n.gate.Files.Canonical(name)
		if bad == nil && n.gate.Files.Access(asked) >= access && !n.isOpen(asked) {
			return asked, nil
		}
	}
	return at, err
}

// isOpen reports whether a name may be read without consent.
func (n Names) isOpen(name string) bool {
	return n.gate.Decide(policy.Effect{Verb: policy.Read, Target: name}).Approval == policy.PreApproved
}

// ReadsToApprove returns the effects of reading those of some files that the worker may not read
// without consent, for who tells of their contents without opening them. To the user
// nothing is closed.
func (n Names) ReadsToApprove(files ...string) []policy.Effect {
	var list []policy.Effect
	for _, name := range files {
		if n.origin != policy.User && !n.isOpen(name) {
			list = append(list, policy.Effect{Verb: policy.Read, Target: name})
		}
	}
	return list
}

// AnyHidden reports whether one of some files may not be read at all. To the user nothing is
// hidden.
func (n Names) AnyHidden(files ...string) bool {
	return n.origin != policy.User && slices.ContainsFunc(files, func(name string) bool { return !n.CanRead(name) })
}

// IsUserCall reports whether the user calls.
func (n Names) IsUserCall() bool { return n.origin == policy.User }

// Canonical is the sandbox's: the one form of a name, links not followed.
func (n Names) Canonical(name string) (string, error) {
	return n.gate.Files.Canonical(n.fromCommand(name))
}

// fromCommand takes a name as commands print it, who see the mount at / as
// /work, for the name that it has here. Where something is at /work here, that
// is meant.
func (n Names) fromCommand(name string) string {
	if name != "/work" && !strings.HasPrefix(name, "/work/") || !n.gate.Files.CanRead("/") {
		return name
	}
	canonical, err := n.gate.Files.Canonical(name)
	if err != nil || canonical != "/work" && !strings.HasPrefix(canonical, "/work/") {
		return name
	}
	if there, err := n.gate.Files.Exists("/work"); there || err != nil {
		return name
	}
	return "/" + strings.TrimPrefix(strings.TrimPrefix(canonical, "/work"), "/")
}

// CanRead reports whether the policy lets a name be read.
func (n Names) CanRead(name string) bool { return n.gate.Files.CanRead(name) }

// MaxBytes returns the size that the mount at a name allows a file, 0 for any.
func (n Names) MaxBytes(name string) int64 {
	m, _ := n.gate.Files.MountOf(name)
	return m.MaxFileBytes
}

// IsPermanent reports whether a name is there for ever: a mount, or above one.
func (n Names) IsPermanent(name string) bool {
	for _, m := range n.gate.Files.Mounts() {
		if name == "/" || name == m.Target || strings.HasPrefix(m.Target, name+"/") {
			return true
		}
	}
	return false
}

// ReadTreeEffects is Reads for who looks at all that is in a folder.
func (n Names) ReadTreeEffects(at string) []policy.Effect {
	effects := n.ReadEffects(at)
	for i := range effects {
		effects[i].Tree = true
	}
	return effects
}

// ReadEffects returns the effects of reading what is at a canonical name. A folder
// that is shown only because something below it is has nothing of its own: to
// look at it is to look at that, as far as nobody needs to be asked; what is
// left out is told with the result.
func (n Names) ReadEffects(at string) []policy.Effect {
	if n.gate.Files.CanRead(at) {
		return []policy.Effect{{Verb: policy.Read, Target: at}}
	}
	var all, open []policy.Effect
	for _, root := range n.gate.Files.ReadableRoots() {
		if at != "/" && !strings.HasPrefix(root, at+"/") {
			continue
		}
		e := policy.Effect{Verb: policy.Read, Target: root}
		all = append(all, e)
		if n.isOpen(root) {
			open = append(open, e)
		}
	}
	if len(open) == 0 || len(open) == len(all) {
		return all
	}
	for _, e := range all {
		if !n.isOpen(e.Target) {
			*n.skipped = append(*n.skipped, e.Target)
		}
	}
	return open
}
