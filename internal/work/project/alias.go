package project

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
)

// approvals returns the approval levels that the file sets, with extra rules for
// directories that two mounts show. If a rule asks or blocks under one name, it does so
// under the other. Each mount gets its own layer, so that a rule closer by name does not
// lift the rule of another mount.
func (p *Project) approvals() policy.Approvals {
	c := policy.Approvals{}.With(p.Rules...)
	for i, m := range p.Mounts {
		var own []policy.Rule
		for _, r := range p.Rules {
			// A repeated preApproved would allow what nobody approved under the other
			// name.
			if r.Approval != policy.PreApproved && p.mountOf(r.Target) == i {
				own = append(own, r)
			}
		}
		if len(own) == 0 {
			continue
		}
		var layer []policy.Rule
		for j, other := range p.Mounts {
			if i != j {
				layer = append(layer, p.aliasRules(own, m, other, i, j)...)
			}
		}
		c = c.With(layer...)
	}
	return c.WithDefaults(p.defaultRules()...)
}

// defaultRules returns the default levels for writes and deletes if a mount is an overlay.
// In an overlay they need no approval, because changes reach the user's files only when
// they are applied, which asks. A mount inside an overlay asks like any other.
func (p *Project) defaultRules() []policy.Rule {
	if !slices.ContainsFunc(p.Mounts, func(m Mount) bool { return m.Mode == Overlay }) {
		return nil
	}
	var rules []policy.Rule
	for _, m := range p.Mounts {
		level, from := policy.Ask, m.From
		if m.Mode == Overlay {
			level, from = policy.PreApproved, m.ModeFrom
		}
		for _, verb := range []policy.Verb{policy.Write, policy.Delete} {
			rules = append(rules, policy.Rule{Verb: verb, Target: m.Target, Approval: level, From: from.String()})
		}
	}
	return rules
}

// aliasRules returns the rules of mount m under the names that the mount other has for the
// same directories. The indexes i and j are their places in the table.
func (p *Project) aliasRules(rules []policy.Rule, m, other Mount, i, j int) []policy.Rule {
	here, there := m.Target, other.Target // the names of the directory that both show
	if rel, ok := relative(other.hostDir(), m.hostDir()); ok {
		here = joinBelow(m.Target, filepath.ToSlash(rel))
	} else if rel, ok := relative(m.hostDir(), other.hostDir()); ok {
		there = joinBelow(other.Target, filepath.ToSlash(rel))
	} else {
		return nil
	}
	// If a third mount covers the shared directory, one of the two does not show it.
	// Often that mount is the other of the two, at its own place.
	if p.mountOf(here) != i || p.mountOf(there) != j {
		return nil
	}
	var list []policy.Rule
	for _, r := range rules {
		switch {
		case policy.AtOrBelow(r.Target, here):
			r.Target = there
		case policy.AtOrBelow(here, r.Target):
			r.Target = joinBelow(there, strings.TrimPrefix(r.Target[len(here):], "/"))
		default:
			continue
		}
		list = append(list, r)
	}
	return list
}

// HostDir returns the directory of the mount on the host.
func (m Mount) HostDir() string {
	if m.Base != "" {
		return filepath.Join(string(m.Base), string(m.Source))
	}
	return string(m.Source)
}

// RealHostDir returns the directory of the mount on the host, without symlinks if it exists.
func (m Mount) RealHostDir() string {
	if real, err := filepath.EvalSymlinks(m.HostDir()); err == nil {
		return real
	}
	return m.HostDir()
}

// hostDir returns the mount's directory on the host, as an absolute path.
func (m Mount) hostDir() string {
	switch {
	case m.real != "":
		return m.real
	case m.Base != "":
		return filepath.Join(string(m.Base), string(m.Source))
	}
	return filepath.Clean(string(m.Source))
}

// mountOf returns the index of the mount that shows a name, -1 if none does.
func (p *Project) mountOf(name string) int {
	best := -1
	for i, m := range p.Mounts {
		if policy.AtOrBelow(m.Target, name) && (best < 0 || len(m.Target) > len(p.Mounts[best].Target)) {
			best = i
		}
	}
	return best
}

// joinBelow joins a relative path to a directory.
func joinBelow(dir, rel string) string {
	if rel == "." || rel == "" {
		return dir
	}
	return strings.TrimSuffix(dir, "/") + "/" + rel
}
