package tool

import (
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/policy"
)

// Commands returns the effects of a command that does whatever it likes with
// what it is shown: all that may be read unasked, changes where both a write and
// a delete may be consented to and every file is allowed, and the network where
// it is open. With these effects declared, the sandbox of the run is what the
// command may see.
func (n Names) Commands() []policy.Effect {
	return append(n.commands(n.gate.places(), false), n.Connects(true)...)
}

// CommandsIn returns the effects of a program that is shown one folder of these, with
// all below it, and reaches the network where it is to.
func (n Names) CommandsIn(folder string, readonly, network bool) []policy.Effect {
	names := append(n.gate.places(), folder)
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(name string) bool {
		return folder != "/" && name != folder && !strings.HasPrefix(name, folder+"/")
	})
	return append(n.commands(names, readonly), n.Connects(network)...)
}

// commands returns the effects of a command on what it sees of these.
func (n Names) commands(names []string, readonly bool) (effects []policy.Effect) {
	for _, name := range names {
		if !n.Shows(name) {
			continue
		}
		effects = append(effects, policy.Effect{Verb: policy.Read, Target: name, Tree: true})
		if !readonly && n.gate.changeable(name) {
			effects = append(effects, policy.Effect{Verb: policy.Write, Target: name, Tree: true},
				policy.Effect{Verb: policy.Delete, Target: name, Tree: true})
		}
	}
	return effects
}

// Connects returns the effect of reaching every host, where that is wanted and may be.
func (n Names) Connects(wanted bool) []policy.Effect {
	if !wanted || !n.gate.Network() {
		return nil
	}
	return []policy.Effect{{Verb: policy.Connect, Target: "*"}}
}

// Shows reports whether a command sees a canonical name.
func (n Names) Shows(name string) bool { return n.gate.Files.CanRead(name) && n.open(name) }

// Network reports whether commands may reach every host.
func (g Gate) Network() bool {
	return g.Grant.Hosts.IsAll() && g.Judge(policy.Effect{Verb: policy.Connect, Target: "*"}).Consent > policy.Blocked
}

// places are the names at which what may be done changes, of the files and of
// the rules, by every name that they have.
func (g Gate) places() []string {
	names := g.Files.Anchors()
	for _, verb := range []policy.Verb{policy.Read, policy.Write, policy.Delete} {
		names = append(names, g.candidates(verb)...)
	}
	for _, name := range slices.Clone(names) {
		names = append(names, g.Files.Aliases(name)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// changeable reports whether somebody may consent to any change at a name. Which
// files a command writes is not known before: where suffixes or sizes are
// limited it writes none.
func (g Gate) changeable(name string) bool {
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
	return g.Judge(policy.Effect{Verb: policy.Write, Target: name}).Consent > policy.Blocked &&
		g.Judge(policy.Effect{Verb: policy.Delete, Target: name}).Consent > policy.Blocked
}
