package project

import (
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// ceilingNetworkKey describes the network of a layer above the project.
func ceilingNetworkKey() strictyaml.Key {
	return strictyaml.Key{Name: "network", Type: strictyaml.Bool, Words: []string{"on", "off"}, Default: "on", Example: "{allow: [api.example.com], presets: [npm]}",
		Doc: "`off` means that no command, agent or MCP server reaches the network, and that golem contacts no repository, no endpoint and no server for telemetry. A map limits all of these to its hosts. `models` is about models.",
		Or: []strictyaml.Key{{Type: strictyaml.Group, Keys: []strictyaml.Key{
			{Name: "allow", Type: strictyaml.Texts, Empty: true, Example: `[api.example.com, "*.example.org:8443"]`,
				Doc: "The only hosts: a name, `*.` and a name for all names below it, or an address; with `:PORT` unless it is 80 or 443. Programs may limit them further, and nobody can approve another host."},
			{Name: "presets", Type: strictyaml.Texts, Empty: true, Example: "[npm]",
				Doc: "The only presets whose hosts may be used although `allow` lacks them, for reads: `" + strings.Join(policy.PresetNames(), "`, `") + "`. The settings of the user's package client name the hosts."},
		}}}}
}

// checkNetwork reports wrong hosts and presets of the layer.
func (l Layer) checkNetwork(problems *strictyaml.Problems) {
	n, ok := l.at("network")
	if !ok || n.Kind != strictyaml.Map {
		return
	}
	if len(n.Fields) == 0 {
		problems.Add(n, "network: an empty map", "write network: off, or the hosts: network: {allow: [api.example.com]}")
	}
	for _, f := range n.Fields {
		if f.Value.Kind == strictyaml.Null {
			problems.Add(f.Value, "network."+f.Key.Text+": nothing", "[] is an empty list")
		}
	}
	for _, item := range l.items("network", "allow") {
		if _, err := policy.ParseHost(item.Text); err != nil {
			what, hint, _ := strings.Cut(err.Error(), "; ")
			problems.Add(item, "network.allow: "+what, hint)
		}
	}
	for _, item := range l.items("network", "presets") {
		if !slices.Contains(policy.PresetNames(), item.Text) {
			problems.Add(item, "network.presets: no preset "+sandbox.Shown(item.Text), "there are "+strings.Join(policy.PresetNames(), ", "))
		}
	}
}

// network returns the hosts that the layer allows, without those of presets, and the place
// that says so. It returns false if the layer allows all.
func (l Layer) network() (policy.Hosts, strictyaml.Place, bool) {
	n, ok := l.at("network")
	switch {
	case !ok || n.Kind == strictyaml.Scalar && (n.Text == "on" || n.Text == "true"):
		return policy.AllHosts(), n.Place, false
	case n.Kind == strictyaml.Map:
		var texts []string
		for _, item := range l.items("network", "allow") {
			texts = append(texts, item.Text)
		}
		return policy.HostsOf(texts...), n.Place, true
	}
	return policy.Hosts{}, n.Place, true
}

// NetworkOff returns the place that forbids the network, and whether there is one.
func (c Ceiling) NetworkOff() (strictyaml.Place, bool) {
	for _, l := range c {
		if hosts, place, limits := l.network(); limits && hosts.IsEmpty() && len(l.items("network", "presets")) == 0 {
			return place, true
		}
	}
	return strictyaml.Place{}, false
}

// NetworkLimits says how the ceiling limits the network and a server for models, "" for
// none, whatever a program asks for.
func (c Ceiling) NetworkLimits(server string) (list []string) {
	if place, denied := c.DeniedServer(server); denied && server != "" {
		list = append(list, "no model runs at "+server+": "+place.String())
	}
	if place, off := c.NetworkOff(); off {
		return append(list, "the network stays off: "+place.String())
	}
	for _, l := range c {
		if _, place, limits := l.network(); limits {
			list = append(list, "the network reaches no other hosts than those of "+place.String())
		}
	}
	return list
}

// DeniedHost returns the place that forbids connections to a host and a port, and whether
// there is one. It does not know the hosts of presets.
func (c Ceiling) DeniedHost(host string, port uint16) (strictyaml.Place, bool) {
	for _, l := range c {
		if hosts, place, limits := l.network(); limits && len(hosts.Find(host, port)) == 0 {
			return place, true
		}
	}
	return strictyaml.Place{}, false
}

// DeniedURL is DeniedHost for the host of a URL.
func (c Ceiling) DeniedURL(text string) (strictyaml.Place, bool) {
	return c.DeniedAddress(hostOfURL(text))
}

// DeniedServer returns the place that forbids a server for models that is not the vendor's own,
// and whether there is one. A layer that limits models or the network allows this machine and
// the hosts of its network. Without that, the project's file would choose who answers as "ollama:m".
func (c Ceiling) DeniedServer(text string) (strictyaml.Place, bool) {
	u, err := url.Parse(text)
	if err == nil && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()) {
		return strictyaml.Place{}, false
	}
	for _, l := range c {
		_, saysNetwork := l.at("network")
		if n, ok := l.at("models"); ok && !saysNetwork {
			return n.Place, true
		}
	}
	return c.DeniedURL(text)
}

// DeniedAddress is DeniedHost for a host with its port. It denies a text without them.
func (c Ceiling) DeniedAddress(text string) (strictyaml.Place, bool) {
	name, number, err := net.SplitHostPort(text)
	port, wrong := strconv.ParseUint(number, 10, 16)
	if err != nil || wrong != nil {
		name, port = "", 0
	}
	return c.DeniedHost(name, uint16(port))
}

// hostOfURL returns the host and the port of a URL, or of user@host:path.
func hostOfURL(text string) string {
	if u, err := url.Parse(text); err == nil && u.Host != "" {
		port := u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "ssh": "22", "git": "9418"}[u.Scheme]
		}
		if port == "" {
			port = "443"
		}
		return net.JoinHostPort(u.Hostname(), port)
	}
	_, rest, ok := strings.Cut(text, "@")
	if !ok {
		rest = text
	}
	host, _, _ := strings.Cut(rest, ":")
	return net.JoinHostPort(host, "22")
}

// Dir returns the directory of a repository on this machine, "" for one elsewhere.
func (t Target) Dir() string {
	if u, err := url.Parse(t.URL); err == nil && u.Scheme == "file" {
		return filepath.Clean(filepath.FromSlash(u.Path))
	}
	return string(t.Path)
}

// Address returns the host of a repository with its port, "" for one on this machine.
func (t Target) Address() string {
	switch {
	case t.Dir() != "":
		return ""
	case t.URL == "":
		return hostOfURL("https://github.com")
	}
	return hostOfURL(t.URL)
}

// LimitHosts returns what the ceiling allows of some hosts, and the first place that allows less
// than they ask for. The hosts are those of a preset, "" for none.
func (c Ceiling) LimitHosts(asked policy.Hosts, preset string) (policy.Hosts, strictyaml.Place, bool) {
	limited, by, less := asked, strictyaml.Place{}, false
	for _, l := range c {
		hosts, place, limits := l.network()
		if !limits || preset != "" && slices.ContainsFunc(l.items("network", "presets"), func(n strictyaml.Node) bool { return n.Text == preset }) {
			continue
		}
		next := limitTo(limited, hosts)
		if !less && (next.IsAll() != limited.IsAll() || !slices.Equal(next.Patterns(), limited.Patterns())) {
			by, less = place, true
		}
		limited = next
	}
	return limited, by, less
}

// limitTo returns what some hosts allow at the hosts and ports of a list. Their other limits
// stay, and so do their credentials, which the list does not name.
func limitTo(asked, list policy.Hosts) policy.Hosts {
	if list.IsAll() {
		return asked
	}
	limits := list.Rules()
	for _, r := range asked.Rules() {
		for _, s := range list.Rules() {
			s.Credential = r.Credential
			limits = append(limits, s)
		}
	}
	return policy.Grant{Hosts: asked}.Meet(policy.Grant{Hosts: policy.HostsOfRules(limits...)}).Hosts
}

// limitNetwork limits the hosts of the project to those of the ceiling. Hosts that the user
// adds for this call, or a network of the user's for it, are a problem if they go beyond it.
func (l *loader) limitNetwork() {
	p, c := l.project, l.env.Ceiling
	asked, from := policy.HostsOfRules(l.env.Hosts...), strictyaml.Place{Source: "--net"}
	if at := p.networkAt; len(l.env.Hosts) == 0 && !p.ByAgent && at.Source != "" && at.Line == 0 {
		asked, from = p.Network, at
	}
	if place, off := c.NetworkOff(); off && !asked.IsEmpty() {
		l.problems.Note(strictyaml.Problem{Place: from, What: "the network is off: " + place.String(), Hint: "leave out " + from.Source})
	} else if allowed, place, less := c.LimitHosts(asked, ""); less {
		what := "every host"
		for _, r := range asked.Rules() {
			if one, _, less := c.LimitHosts(policy.HostsOfRules(r), ""); less || one.IsEmpty() {
				what = r.String()
				break
			}
		}
		l.problems.Note(strictyaml.Problem{Place: from, What: what + " is not allowed: " + place.String(), Hint: allowedHosts(c, allowed)})
	}
	limited, place, less := c.LimitHosts(p.Network, "")
	if off, is := c.NetworkOff(); is {
		place, less = off, true
	}
	if less {
		p.Network = limited
		text := "[" + strings.Join(limited.Patterns(), ", ") + "]"
		if limited.IsEmpty() {
			text = "false"
		}
		l.setEffective(place, text, "sandbox", "network")
	}
	p.Fetch, _, _ = c.LimitHosts(p.Fetch, "")
}

// allowedHosts is the hint of a problem with hosts.
func allowedHosts(c Ceiling, some policy.Hosts) string {
	all, _, _ := c.LimitHosts(policy.AllHosts(), "")
	const most = 6
	list := all.Patterns()
	if len(list) == 0 {
		return "it allows only presets; leave out the hosts"
	}
	if more := len(list) - most; more > 0 {
		list = append(list[:most], "…")
	}
	return "the hosts that may be reached are " + strings.Join(list, ", ")
}

// AddPreset adds the hosts of a preset to those that commands reach, unless these are all. It
// returns the place of the layer that does not allow some of them, and whether there is one.
func (p *Project) AddPreset(name string, rules []policy.HostRule) (strictyaml.Place, bool) {
	add := func(to *policy.Hosts, rules []policy.HostRule) {
		if len(rules) > 0 && !to.IsAll() {
			*to = policy.HostsOfRules(slices.Concat(to.Rules(), rules)...)
		}
	}
	add(&p.asked.network, rules)
	limited, place, less := p.Ceiling.LimitHosts(policy.HostsOfRules(rules...), name)
	add(&p.Network, limited.Rules())
	return place, less
}

// leastLevel returns the weakest level of the jail that the ceiling allows, and the place that
// says so.
func (c Ceiling) leastLevel() (least policy.Level, place strictyaml.Place) {
	for _, l := range c {
		if n, ok := l.at("require_os_sandbox"); ok {
			if level, _ := policy.ParseLevel(n.Text); level > least {
				least, place = level, n.Place
			}
		}
	}
	return least, place
}
