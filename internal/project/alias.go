package project

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/policy"
)

// consent returns the consent that is written, and above it what follows for
// directories that are shown by two names: what is asked or blocked by one is so by
// the other. Each mount has a layer of its own, so that a rule of one that is
// closer by name does not lift what another says.
func (p *Project) consent() policy.Consents {
	c := policy.Consents{}.With(p.Rules...)
	for i, m := range p.Mounts {
		var own []policy.Rule
		for _, r := range p.Rules {
			// To repeat what needs no consent would give it where nobody did.
			if r.Consent != policy.PreApproved && p.mountOf(r.Target) == i {
				own = append(own, r)
			}
		}
		if len(own) == 0 {
			continue
		}
		var layer []policy.Rule
		for j, other := range p.Mounts {
			if i != j {
				layer = append(layer, p.aliases(own, m, other, i, j)...)
			}
		}
		c = c.With(layer...)
	}
	return c.Otherwise(p.unwritten()...)
}

// unwritten are the consents that hold where nobody has written one, of mounts that
// are layers: what is changed there touches nothing of the user's before it is
// applied, which asks. A mount that stands in one is as any other.
func (p *Project) unwritten() []policy.Rule {
	if !slices.ContainsFunc(p.Mounts, func(m Mount) bool { return m.Mode == Overlay }) {
		return nil
	}
	var rules []policy.Rule
	for _, m := range p.Mounts {
		consent, from := policy.Ask, m.From
		if m.Mode == Overlay {
			consent, from = policy.PreApproved, m.ModeFrom
		}
		for _, verb := range []policy.Verb{policy.Write, policy.Delete} {
			rules = append(rules, policy.Rule{Verb: verb, Target: m.Target, Consent: consent, From: from.String()})
		}
	}
	return rules
}

// aliases returns the rules of one mount by the names that another has for the
// same directories; i and j are the places of the two in the table.
func (p *Project) aliases(rules []policy.Rule, m, other Mount, i, j int) []policy.Rule {
	here, there := m.Target, other.Target // the names of what they share
	if rel, ok := relative(other.folder(), m.folder()); ok {
		here = below(m.Target, filepath.ToSlash(rel))
	} else if rel, ok := relative(m.folder(), other.folder()); ok {
		there = below(other.Target, filepath.ToSlash(rel))
	} else {
		return nil
	}
	// Where a further mount covers the shared place, the one of the two does not
	// show it; often that mount is the other of the two, at its own place.
	if p.mountOf(here) != i || p.mountOf(there) != j {
		return nil
	}
	var list []policy.Rule
	for _, r := range rules {
		switch {
		case above(r.Target, here):
			r.Target = there
		case above(here, r.Target):
			r.Target = below(there, strings.TrimPrefix(r.Target[len(here):], "/"))
		default:
			continue
		}
		list = append(list, r)
	}
	return list
}

// directory returns the mount's directory on the host, absolute.
func (m Mount) folder() string {
	switch {
	case m.real != "":
		return m.real
	case m.Base != "":
		return filepath.Join(string(m.Base), string(m.Source))
	}
	return filepath.Clean(string(m.Source))
}

// mountOf returns which mount shows a name, -1 if none does.
func (p *Project) mountOf(name string) int {
	best := -1
	for i, m := range p.Mounts {
		if above(m.Target, name) && (best < 0 || len(m.Target) > len(p.Mounts[best].Target)) {
			best = i
		}
	}
	return best
}

// below returns the name of what lies at a relative path below a directory.
func below(dir, rel string) string {
	if rel == "." || rel == "" {
		return dir
	}
	return strings.TrimSuffix(dir, "/") + "/" + rel
}
