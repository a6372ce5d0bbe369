package project

import (
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/work/strictyaml"
)

// readSandbox reads the sandbox: the directories in one of the spellings, and the common
// keys.
func (l *loader) readSandbox() {
	n, written := l.tree.At("sandbox")
	if !written {
		n = strictyaml.Node{Place: strictyaml.Default, Kind: strictyaml.Map}
	}
	l.readRules(n, "/")
	readNetwork(l)
	dialect, ok := l.findSpelling(n)
	if !ok {
		l.unclear = true
		return
	}
	l.project.Dialect = dialect
	switch dialect {
	case mounts:
		l.readMounts(n)
	case paths:
		l.readPaths(n)
	default:
		l.readZones(n)
	}
	slices.SortFunc(l.project.Mounts, func(a, b Mount) int { return strings.Compare(a.Target, b.Target) })
	l.project.settleTrust()
}

// readRules reads the approval levels of the whole sandbox or of one directory.
func (l *loader) readRules(n strictyaml.Node, target string) {
	list, ok := n.At("approval")
	if !ok || !l.isValid(list) {
		return
	}
	for _, verb := range []policy.Verb{policy.Read, policy.Write, policy.Delete} {
		if v, ok := list.At(verb.String()); ok {
			level, _ := policy.ParseApproval(v.Text)
			l.project.Rules = append(l.project.Rules, policy.Rule{Verb: verb, Target: target, Approval: level, From: v.Place.String()})
		}
	}
}
