package project

import (
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// networkKey describes the block with the hosts that commands reach.
func networkKey() strictyaml.Key {
	return strictyaml.Key{Name: "network", Type: strictyaml.Group, Example: "{allow: [api.example.com]}",
		Or:  []strictyaml.Key{{Type: strictyaml.Bool, Words: []string{"on", "off"}}},
		Doc: "The hosts that commands reach, or `on` or `off`. `sandbox.network` is the short form; use one of the two.", Keys: []strictyaml.Key{
			{Name: "allow", Type: strictyaml.Groups, Short: "host", Empty: true, Example: `[api.example.com, "*.example.org:8443"]`,
				Doc: "The hosts, each a text or a map. `[]` is no host.", Keys: []strictyaml.Key{
					{Name: "host", Type: strictyaml.Text, Example: `"*.example.com"`,
						Doc: "A name, `*.` and a name for all names below it, or an address; with `:PORT` unless it is 80 or 443. Required."},
					{Name: "methods", Type: strictyaml.Texts, Example: "[GET, HEAD]", Doc: "The only HTTP methods that pass. For this and the next three keys golem reads the requests inside TLS."},
					{Name: "paths", Type: strictyaml.Texts, Example: `["/repos/me/**"]`,
						Doc: "The only URL paths that pass. `*` is one segment, and `**` at the end any number."},
					{Name: "git", Type: strictyaml.Word, Words: []string{"read"}, Example: "read", Doc: "`read` lets only reads pass: git can clone and fetch, and golem refuses a push."},
					{Name: "credential", Type: strictyaml.Text, Example: "github",
						Doc: "The name of a credential that golem adds to every request. The host takes no other authentication."},
				}},
			{Name: "allow_private", Type: strictyaml.Bool, Default: "false", Example: "true",
				Doc: "Whether a name may lead to a private address. Without it golem connects to none, unless `allow` names the address itself."},
			{Name: "ask", Type: strictyaml.Bool, Default: "false", Example: "true",
				Doc: "Whether golem asks about a host that is not listed, if at least one is. Otherwise it refuses the host."},
			{Name: "fetch", Type: strictyaml.Texts, Example: "[docs.example.com]",
				Doc: "More hosts, which only the tool `web_fetch` reads from. Commands do not reach them. After a worker has read untrusted content, golem asks about each address there."},
			{Name: "presets", Type: strictyaml.Texts, Example: "[go, npm]",
				Doc: "Sets of hosts: `" + strings.Join(policy.PresetNames(), "`, `") + "`. Each has the hosts from which your package client downloads, for reads only. `golem tools --network` lists them."},
		}}
}

// readNetwork reads the hosts that commands reach: in the short form, in the block, and
// those that the user adds.
func readNetwork(l *loader) {
	readAllCredentials(l)
	short, isShort := l.valueAt("sandbox", "network")
	block, isBlock := l.valueAt("network")
	switch {
	case isShort && isBlock && short.Place.Line > 0 && block.Place.Line > 0:
		l.problems.Add(short, "sandbox.network beside network", "keep one of the two: network has all keys, and sandbox.network is its short form")
	case isShort && (!isBlock || short.Place.Line == 0):
		l.project.networkAt = short.Place
		readShortNetwork(l, short)
	case isBlock:
		l.project.networkAt = block.Place
		readNetworkBlock(l, block)
	case len(l.env.Agent.Hosts) > 0:
		l.project.ByAgent, l.project.AskHosts = true, true
		l.project.networkAt = strictyaml.Place{Source: "the profile " + l.env.Agent.Name}
		l.project.Network = policy.HostsOfRules(l.env.Agent.Hosts...)
	}
	l.project.Optional = l.env.Agent.Optional
	if at, ok := block.At("fetch"); ok && isBlock {
		var rules []policy.HostRule
		for _, item := range at.Items {
			if r, ok := readHost(l, "network.fetch", item); ok {
				rules = append(rules, r)
			}
		}
		l.project.Fetch = policy.HostsOfRules(rules...)
	}
	l.project.Presets = slices.Clone(l.env.Presets)
	if at, ok := block.At("presets"); ok && isBlock && l.project.networkAt == block.Place {
		for _, item := range at.Items {
			if !slices.Contains(policy.PresetNames(), item.Text) {
				l.problems.Add(item, "network.presets: no preset "+sandbox.Shown(item.Text), "there are "+strings.Join(policy.PresetNames(), ", "))
			} else if !slices.Contains(l.project.Presets, item.Text) {
				l.project.Presets = append(l.project.Presets, item.Text)
			}
		}
	}
	if p := l.project; len(l.env.Hosts) > 0 && !p.Network.IsAll() {
		p.networkAt = strictyaml.Place{Source: "--net"}
		p.Network = policy.HostsOfRules(slices.Concat(p.Network.Rules(), l.env.Hosts)...)
		l.setEffective(p.networkAt, "["+strings.Join(p.Network.Patterns(), ", ")+"]", "sandbox", "network")
	}
}

// NetworkPlace returns the place that says which hosts commands reach.
func (p *Project) NetworkPlace() strictyaml.Place {
	if place, off := p.Ceiling.NetworkOff(); off {
		return place
	}
	if p.networkAt == (strictyaml.Place{}) {
		return strictyaml.Default
	}
	return p.networkAt
}

// readShortNetwork reads sandbox.network.
func readShortNetwork(l *loader, n strictyaml.Node) {
	switch {
	case n.Kind == strictyaml.Null:
		l.problems.Add(n, "sandbox.network: nothing", "it is true, false or a list of hosts")
	case n.Bool():
		l.project.Network = policy.AllHosts()
	case slices.Contains(n.Texts(), "*"):
		l.problems.Add(n, "sandbox.network: * is no host", "network: true is an open network, false none")
	default:
		var rules []policy.HostRule
		for _, item := range n.Items {
			if r, ok := readHost(l, "sandbox.network", item); ok {
				rules = append(rules, r)
			}
		}
		l.project.Network = policy.HostsOfRules(rules...)
	}
}

// readHost reads a host with or without a port.
func readHost(l *loader, name string, n strictyaml.Node) (policy.HostRule, bool) {
	r, err := policy.ParseHost(n.Text)
	if err != nil {
		what, hint, _ := strings.Cut(err.Error(), "; ")
		l.problems.Add(n, name+": "+what, hint)
	}
	return r, err == nil
}

// readNetworkBlock reads the block network.
func readNetworkBlock(l *loader, n strictyaml.Node) {
	if n.Kind == strictyaml.Scalar {
		if l.project.Network = policy.HostsOfRules(); n.Bool() || n.Text == "on" {
			l.project.Network = policy.AllHosts()
		}
		return
	}
	list, ok := n.At("allow")
	if ok && list.Kind == strictyaml.Null {
		l.problems.Add(list, "network.allow: nothing", "it is a list of hosts, and [] is no host")
	}
	var rules []policy.HostRule
	for _, item := range list.Items {
		if r, ok := readHostRule(l, item); ok {
			rules = append(rules, r)
		}
	}
	l.project.Network = policy.HostsOfRules(rules...)
}

// readHostRule reads an item of network.allow.
func readHostRule(l *loader, n strictyaml.Node) (policy.HostRule, bool) {
	const name = "network.allow"
	if n.Kind == strictyaml.Scalar {
		return readHost(l, name, n)
	}
	host, ok := n.At("host")
	if !ok {
		l.problems.Add(n, name+": no host", "write host: NAME, such as host: api.example.com")
		return policy.HostRule{}, false
	}
	r, ok := readHost(l, name+".host", host)
	if !ok {
		return r, false
	}
	n.Decode(map[string]any{"methods": &r.Methods, "paths": &r.Paths, "credential": &r.Credential}, nil)
	r.GitRead = n.Has("git")
	if at, ok := n.At("credential"); ok && !l.checkCredential(at, r) {
		return r, false
	}
	if err := r.Validate(); err != nil {
		what, hint, _ := strings.Cut(err.Error(), "; ")
		l.problems.Add(n, name+": "+what, hint)
		return r, false
	}
	return r, true
}

// readAllCredentials reads the credentials of the project. A definition of the user
// replaces that of the project: the user says where a secret is.
func readAllCredentials(l *loader) {
	l.project.Credentials = slices.Concat(l.env.Ceiling.Credentials(), l.env.Agent.Credentials)
	all, _ := l.tree.At("credentials")
	all.Fields = slices.DeleteFunc(slices.Clone(all.Fields), func(f strictyaml.Field) bool { return !l.isValid(f.Key) || !l.isValid(f.Value) })
	for _, c := range readCredentials(all, false, &l.problems) {
		if _, known := l.project.Credential(c.Name); !known {
			l.project.Credentials = append(l.project.Credentials, c)
		}
	}
}

// checkCredential reports a rule whose credential is unknown, or would send the key of a
// vendor to a host of somebody else.
func (l *loader) checkCredential(n strictyaml.Node, r policy.HostRule) bool {
	const label = "network.allow.credential: "
	c, ok := l.project.Credential(r.Credential)
	if !ok || c.Agent {
		var names []string
		for _, c := range l.project.Credentials {
			if !c.Agent {
				names = append(names, c.Name)
			}
		}
		hint := "define it under credentials, in this file or in your own configuration"
		if near := sandbox.Nearest(r.Credential, names); len(near) > 0 {
			hint = "did you mean " + near[0] + "? " + hint
		}
		l.problems.Add(n, label+"no credential "+quote(r.Credential), hint)
		return false
	}
	vendor, ok := c.vendor()
	if ok && !isVendorHost(vendor, r) {
		l.problems.Add(n, label+c.Source()+" does not go to "+sandbox.Shown(r.Host),
			"golem sends a key of "+vendor.Name+" only to "+strings.Join(vendor.Hosts, ", ")+"; for another host, use a key of that host in another variable or secret")
		return false
	}
	return true
}
