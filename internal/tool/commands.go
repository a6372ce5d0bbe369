package tool

import (
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/policy"
)

// CommandEffects returns the effects of a command that does whatever it likes with
// what it is shown: all that may be read unasked, changes where both a write and
// a delete may be consented to and every file is allowed, and the network where
// it is open. With these effects declared, the sandbox of the run is what the
// command may see.
func (n Names) CommandEffects() []policy.Effect {
	return append(n.effectsOfCommand(n.gate.boundaries(), false), n.ConnectEffects(true)...)
}

// CommandEffectsIn returns the effects of a program that is shown one folder of these, with
// all below it, and reaches the network where it is to.
func (n Names) CommandEffectsIn(folder string, readonly, network bool) []policy.Effect {
	names := append(n.gate.boundaries(), folder)
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(name string) bool {
		return folder != "/" && name != folder && !strings.HasPrefix(name, folder+"/")
	})
	return append(n.effectsOfCommand(names, readonly), n.ConnectEffects(network)...)
}

// effectsOfCommand returns the effects of a command on what it sees of these.
func (n Names) effectsOfCommand(names []string, readonly bool) (effects []policy.Effect) {
	for _, name := range names {
		if !n.IsVisibleToCommands(name) {
			continue
		}
		effects = append(effects, policy.Effect{Verb: policy.Read, Target: name, Tree: true})
		if !readonly && n.gate.canChange(name) {
			effects = append(effects, policy.Effect{Verb: policy.Write, Target: name, Tree: true},
				policy.Effect{Verb: policy.Delete, Target: name, Tree: true})
		}
	}
	return effects
}

// ConnectEffects returns the effect of reaching every host, where that is wanted and may be.
func (n Names) ConnectEffects(wanted bool) []policy.Effect {
	if !wanted || !n.gate.HasNetwork() {
		return nil
	}
	return []policy.Effect{{Verb: policy.Connect, Target: "*"}}
}

// IsVisibleToCommands reports whether a command sees a canonical name.
func (n Names) IsVisibleToCommands(name string) bool {
	return n.gate.Files.CanRead(name) && n.isOpen(name)
}

// HasNetwork reports whether commands may reach every host.
func (g Gate) HasNetwork() bool {
	return g.Grant.Hosts.IsAll() && g.Decide(policy.Effect{Verb: policy.Connect, Target: "*"}).Approval > policy.Blocked
}

// boundaries are the names at which what may be done changes, of the files and of
// the rules, by every name that they have.
func (g Gate) boundaries() []string {
	names := g.Files.Anchors()
	for _, verb := range []policy.Verb{policy.Read, policy.Write, policy.Delete} {
		names = append(names, g.ruleTargets(verb)...)
	}
	for _, name := range slices.Clone(names) {
		names = append(names, g.Files.Aliases(name)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// canChange reports whether somebody may consent to any change at a name. Which
// files a command writes is not known before: where suffixes or sizes are
// limited it writes none.
func (g Gate) canChange(name string) bool {
	if !g.Files.CanWrite(name) {
		return false
	}
	for _, at := range append(g.Files.Aliases(name), name) {
		m, _ := g.Files.MountOf(at)
		narrow := func(k policy.Kind) bool { return k.Path == "/" || k.Path == at || strings.HasPrefix(at, k.Path+"/") }
		if len(m.Suffixes) > 0 || m.MaxFileBytes > 0 || slices.ContainsFunc(g.Grant.Files.Kinds(), narrow) {
			return false
		}
	}
	return g.Decide(policy.Effect{Verb: policy.Write, Target: name}).Approval > policy.Blocked &&
		g.Decide(policy.Effect{Verb: policy.Delete, Target: name}).Approval > policy.Blocked
}
