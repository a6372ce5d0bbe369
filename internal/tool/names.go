package tool

import (
	"strings"

	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/sandbox"
)

// Names are what a planner may ask about: where names lead and what the policy
// lets be done there. Of what is in the files it learns nothing, since nothing
// is decided yet.
type Names struct {
	files *sandbox.Sandbox
	grant policy.Grant
	left  *[]string // what a plan leaves out for want of consent
}

// Locate is the sandbox's: the canonical name that a name leads to, if an
// operation with this access may go there.
func (n Names) Locate(op, name string, access sandbox.Access, itself bool) (string, error) {
	return n.files.Locate(op, name, access, itself)
}

// Canonical is the sandbox's: the one form of a name, links not followed.
func (n Names) Canonical(name string) (string, error) { return n.files.Canonical(name) }

// CanRead reports whether the policy lets a name be read.
func (n Names) CanRead(name string) bool { return n.files.CanRead(name) }

// MaxBytes returns the size that the mount at a name allows a file, 0 for any.
func (n Names) MaxBytes(name string) int64 {
	m, _ := n.files.MountOf(name)
	return m.MaxFileBytes
}

// Stays reports whether a name is there for ever: a mount, or above one.
func (n Names) Stays(name string) bool {
	for _, m := range n.files.Mounts() {
		if name == "/" || name == m.Target || strings.HasPrefix(m.Target, name+"/") {
			return true
		}
	}
	return false
}

// Reads returns the effects of reading what is at a canonical name. A folder
// that is shown only because something below it is has nothing of its own: to
// look at it is to look at that, as far as nobody needs to be asked; what is
// left out is told with the result.
func (n Names) Reads(at string) []policy.Effect {
	if n.files.CanRead(at) {
		return []policy.Effect{{Verb: policy.Read, Target: at}}
	}
	var all, open []policy.Effect
	for _, root := range n.files.ReadableRoots() {
		if at != "/" && !strings.HasPrefix(root, at+"/") {
			continue
		}
		e := policy.Effect{Verb: policy.Read, Target: root}
		all = append(all, e)
		if n.grant.Decide(e).Consent == policy.PreApproved {
			open = append(open, e)
		}
	}
	if len(open) == 0 || len(open) == len(all) {
		return all
	}
	for _, e := range all {
		if n.grant.Decide(e).Consent < policy.PreApproved {
			*n.left = append(*n.left, e.Target)
		}
	}
	return open
}
