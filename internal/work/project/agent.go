package project

import (
	"slices"

	"github.com/golem-forge/golem/internal/decide/policy"
)

// An Agent is what the program that the user runs needs, by its profile.
type Agent struct {
	Name        string            // of the profile
	Hosts       []policy.HostRule // the network, unless a file or a flag says which one
	Optional    []string          // hosts that it asks for and does not need, for a network that its profile says
	Private     []string          // names of servers that the user chose, which may lead to private addresses
	Credentials []Credential      // that the rules of Hosts name
}

// addAgentCredentials adds the agent's credentials to the rules for their hosts, for hosts
// that the agent may reach. A rule that has a credential keeps it.
func addAgentCredentials(p *Project, a Agent) {
	if p.Network.IsAll() {
		return
	}
	p.Private = a.Private
	rules := p.Network.Rules()
	for _, host := range a.Hosts {
		if host.Credential == "" {
			continue
		}
		for _, port := range host.Ports {
			rules = addAgentCredential(p.Network, rules, host, port)
		}
	}
	p.Network = policy.HostsOfRules(rules...)
}

// addAgentCredential adds the credential to what the network allows at one host and port.
// The rule for the host itself wins over a pattern, and there must be no second one
// without the credential: it would let requests with another key pass.
func addAgentCredential(network policy.Hosts, rules []policy.HostRule, host policy.HostRule, port uint16) []policy.HostRule {
	found := network.Find(host.Host, port)
	if len(found) == 0 || slices.ContainsFunc(found, func(r policy.HostRule) bool { return r.Credential != "" }) {
		return rules
	}
	var list []policy.HostRule
	for _, r := range rules {
		if r.Host == host.Host {
			r.Ports = slices.DeleteFunc(slices.Clone(r.Ports), func(each uint16) bool { return each == port })
			if len(r.Ports) == 0 {
				continue
			}
		}
		list = append(list, r)
	}
	for _, r := range found {
		r.Host, r.Ports, r.Credential = host.Host, []uint16{port}, host.Credential
		list = append(list, r)
	}
	return list
}
