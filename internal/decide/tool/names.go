package tool

import (
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/sandbox"
)

// Names resolves names for a planner, and reports what the policy allows there. It does
// not reveal the content of files, because nothing is decided yet.
type Names struct {
	gate    Gate
	skipped *[]string // names that a plan skips because they need approval
	origin  policy.Origin
}

// Locate returns the canonical name that a name leads to, as the sandbox's Locate does.
// If a name may not be read without approval, Locate does not reveal what is there. It
// then returns the canonical form of the name for the decision, and not an error.
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

// isOpen reports whether a name may be read without approval.
func (n Names) isOpen(name string) bool {
	return n.gate.Decide(policy.Effect{Verb: policy.Read, Target: name}).Approval == policy.PreApproved
}

// AsksOnlyAt reports whether the policy asks about a write to one name, and not about a write
// to the other. No question has shown the content of the other then.
func (n Names) AsksOnlyAt(name, other string) bool {
	asks := func(name string) bool {
		return n.gate.Decide(policy.Effect{Verb: policy.Write, Target: name}).Approval == policy.Ask
	}
	return asks(name) && !asks(other)
}

// ReadsToApprove returns read effects for those of the files that the worker may not read
// without approval. A tool that reveals content without opening the files declares them.
// For a call of the user there are none.
func (n Names) ReadsToApprove(files ...string) []policy.Effect {
	var list []policy.Effect
	for _, name := range files {
		if n.origin != policy.User && !n.isOpen(name) {
			list = append(list, policy.Effect{Verb: policy.Read, Target: name})
		}
	}
	return list
}

// AnyHidden reports whether the worker may not read one of the files at all. For a call
// of the user it is false.
func (n Names) AnyHidden(files ...string) bool {
	return n.origin != policy.User && slices.ContainsFunc(files, func(name string) bool { return !n.CanRead(name) })
}

// IsUserCall reports whether the user makes the call.
func (n Names) IsUserCall() bool { return n.origin == policy.User }

// Canonical returns the canonical form of a name, as the sandbox does. It does not follow
// symlinks.
func (n Names) Canonical(name string) (string, error) {
	return n.gate.Files.Canonical(n.fromCommand(name))
}

// fromCommand converts a name that a command printed. Commands see the mount at / as
// /work. If there is a /work in the sandbox, the name means that one.
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

// CanRead reports whether the policy allows reading a name.
func (n Names) CanRead(name string) bool { return n.gate.Files.CanRead(name) }

// MaxBytes returns how large the mount at a name allows a file to be, 0 for any size.
func (n Names) MaxBytes(name string) int64 {
	m, _ := n.gate.Files.MountOf(name)
	return m.MaxFileBytes
}

// IsPermanent reports whether a name always exists: it is a mount, or above one.
func (n Names) IsPermanent(name string) bool {
	for _, m := range n.gate.Files.Mounts() {
		if name == "/" || name == m.Target || strings.HasPrefix(m.Target, name+"/") {
			return true
		}
	}
	return false
}

// ReadTreeEffects is ReadEffects for everything in a directory.
func (n Names) ReadTreeEffects(at string) []policy.Effect {
	effects := n.ReadEffects(at)
	for i := range effects {
		effects[i].Tree = true
	}
	return effects
}

// ReadEffects returns the effects of reading a canonical name. A directory may be visible
// only because of mounts below it. Then they are the effects of reading those mounts that
// need no approval. The others are skipped, and a note in the result says so. If all need
// approval, all are included.
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
