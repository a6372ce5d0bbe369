package tool

import (
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
)

// CommandEffects returns the effects of a command that may do anything with the files it
// sees. It sees what can be read without approval. It may change a path if both a write
// and a delete can be approved there and the mount allows every file. It connects to the
// hosts of the grant. A sandbox restricted to these effects shows exactly what
// the command may see.
func (n Names) CommandEffects() []policy.Effect {
	return append(n.effectsOfCommand(n.gate.boundaries(), false), n.ConnectEffects(true)...)
}

// CommandEffectsIn returns the effects of a program that sees one directory with
// everything below it, and has the network if asked for.
func (n Names) CommandEffectsIn(folder string, readonly, network bool) []policy.Effect {
	names := append(n.gate.boundaries(), folder)
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(name string) bool {
		return folder != "/" && name != folder && !strings.HasPrefix(name, folder+"/")
	})
	return append(n.effectsOfCommand(names, readonly), n.ConnectEffects(network)...)
}

// effectsOfCommand returns the effects of a command on those of the names that it sees.
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

// ConnectEffects returns the effects of connecting to the hosts of the grant, if that is
// wanted.
func (n Names) ConnectEffects(wanted bool) []policy.Effect {
	if !wanted {
		return nil
	}
	return connectEffects(n.gate.Hosts())
}

// IsVisibleToCommands reports whether a command sees a canonical name.
func (n Names) IsVisibleToCommands(name string) bool {
	return n.gate.Files.CanRead(name) && n.isOpen(name)
}

// connectEffects returns one effect for each host pattern.
func connectEffects(h policy.Hosts) (effects []policy.Effect) {
	if h.IsAll() {
		return []policy.Effect{{Verb: policy.Connect, Target: "*"}}
	}
	for _, r := range h.Rules() {
		e := policy.Effect{Verb: policy.Connect, Target: r.Host}
		if !slices.Contains(effects, e) {
			effects = append(effects, e)
		}
	}
	return effects
}

// Hosts returns the hosts that commands may connect to. A rule that blocks one of them
// blocks all.
func (g Gate) Hosts() policy.Hosts {
	for _, e := range connectEffects(g.Grant.Hosts) {
		if g.Decide(e).Approval == policy.Blocked {
			return policy.Hosts{}
		}
	}
	return g.Grant.Hosts
}

// HasNetwork reports whether commands may connect to every host.
func (g Gate) HasNetwork() bool { return g.Hosts().IsAll() }

// boundaries returns the names at which the mounts or the rules change what is allowed,
// with all their aliases.
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

// canChange reports whether any change at a name can be approved. It is not known which
// files a command will write, so a mount that limits suffixes or sizes does not count.
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
