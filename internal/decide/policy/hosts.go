package policy

import (
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"
)

// Hosts is a set of rules for hosts. The zero value is no network.
//
// For a host and a port, the rules with the longest pattern decide, and a request passes
// if one of them allows it. So "*.example.com" does not widen what a rule for
// "api.example.com" with the same port allows.
type Hosts struct {
	all   bool
	rules []HostRule // valid, in the canonical form, sorted
}

// AllHosts returns the set of all hosts.
func AllHosts() Hosts { return Hosts{all: true} }

// HostsOf returns the set of hosts that the texts name, without further limits. It ignores
// texts that [ParseHost] does not accept. That includes a bare "*": use [AllHosts] for all
// hosts.
func HostsOf(texts ...string) Hosts {
	var rules []HostRule
	for _, text := range texts {
		if r, err := ParseHost(text); err == nil {
			rules = append(rules, r)
		}
	}
	return HostsOfRules(rules...)
}

// HostsOfRules returns the set of hosts that the rules allow. It ignores an invalid rule,
// see [HostRule.Validate].
func HostsOfRules(rules ...HostRule) Hosts {
	var list []HostRule
	for _, r := range rules {
		if r.Validate() == nil {
			list = append(list, r.normalize())
		}
	}
	return Hosts{rules: compactRules(list)}
}

// IsHost reports whether text is a pattern. A pattern is a host name or an address, or
// "*." before a name. "*." matches all names below the name but not the name itself.
// Names are ASCII, in any case. Other scripts are written as in DNS, xn--….
func IsHost(text string) bool {
	name := hostName(text)
	if below, ok := strings.CutPrefix(name, "*."); ok {
		return isDomain(below)
	}
	return isDomain(name) || isAddress(name)
}

// hostName returns a host name in lower case, without a dot at the end. It lowers only
// ASCII names, because some other letters would become ASCII.
func hostName(text string) string {
	text = strings.TrimSuffix(text, ".")
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return text
		}
	}
	return strings.ToLower(text)
}

// canonicalHost returns the form of a host under which rules name it. Programs in a jail do
// not ask golem for localhost, so it is 127.0.0.1.
func canonicalHost(text string) string {
	host := hostName(text)
	if host == "localhost" {
		return "127.0.0.1"
	}
	if isDomain(host) {
		return host
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Unmap().String()
	}
	return host
}

// isDomain reports whether a name consists of letters, digits, "-" and "_" in parts
// between dots. A program that connects may read anything else in another way than the
// pattern: "evil.org/.example.com". A name that ends in a number is an address for many
// programs ("127.1", "0x7f000001"), so it is no name.
func isDomain(name string) bool {
	const most = 253
	if name == "" || len(name) > most {
		return false
	}
	last := byte('.')
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_':
		case c == '.' && last != '.':
		default:
			return false
		}
		last = c
	}
	return last != '.' && !isNumber(name[strings.LastIndexByte(name, '.')+1:])
}

// isNumber reports whether a part of a name is a number, as inet_aton reads it.
func isNumber(part string) bool {
	digits := "0123456789"
	if hex, ok := strings.CutPrefix(part, "0x"); ok {
		part, digits = hex, "0123456789abcdef"
	}
	return strings.Trim(part, digits) == ""
}

func isAddress(name string) bool {
	a, err := netip.ParseAddr(name)
	return err == nil && a.Zone() == ""
}

// Allows reports whether connections to the host are allowed, at least at one port.
func (h Hosts) Allows(host string) bool {
	if h.all {
		return true
	}
	host = canonicalHost(host)
	if !isDomain(host) && !isAddress(host) {
		return false
	}
	for _, r := range h.rules {
		if r.nothing || !hostWithin(host, r.Host) {
			continue
		}
		for _, port := range r.Ports {
			if h.closest(host, port) == r.Host {
				return true
			}
		}
	}
	return false
}

// Find returns the rules for a host, which is a name or an address, and a port. It returns
// nil if the host may not be reached there. A request needs only one of the rules. Rules
// with a credential come first: what they allow uses the credential.
func (h Hosts) Find(host string, port uint16) []HostRule {
	host = canonicalHost(host)
	if !isDomain(host) && !isAddress(host) {
		return nil
	}
	return h.at(host, port)
}

// at returns the rules for a host or a pattern in its canonical form.
func (h Hosts) at(host string, port uint16) []HostRule {
	if h.all {
		return []HostRule{{Host: host, Ports: []uint16{port}}}
	}
	var found []HostRule
	closest := h.closest(host, port)
	for _, r := range h.rules {
		if r.Host == closest && !r.nothing && slices.Contains(r.Ports, port) {
			found = append(found, r)
		}
	}
	return found
}

// closest returns the longest pattern with rules for a host and a port, "" if there is
// none.
func (h Hosts) closest(host string, port uint16) string {
	var closest string
	for _, r := range h.rules {
		if !hostWithin(host, r.Host) || !slices.Contains(r.Ports, port) {
			continue
		}
		if r.Host == host {
			return host
		}
		if len(r.Host) > len(closest) {
			closest = r.Host
		}
	}
	return closest
}

// IsAll reports whether all hosts are allowed.
func (h Hosts) IsAll() bool { return h.all }

// IsEmpty reports whether no host is allowed.
func (h Hosts) IsEmpty() bool { return !h.all && len(h.Rules()) == 0 }

// Rules returns the rules that allow something, nil for none and for all hosts.
func (h Hosts) Rules() []HostRule {
	var rules []HostRule
	for _, r := range h.rules {
		if !r.nothing {
			rules = append(rules, r.clone())
		}
	}
	return rules
}

// Patterns returns the rules as texts, nil for none and for all.
func (h Hosts) Patterns() []string {
	var texts []string
	for _, r := range h.rules {
		if !r.nothing {
			texts = append(texts, r.String())
		}
	}
	return texts
}

// hostWithin reports whether pattern q matches everything that p matches. P may also be a
// host. A pattern with a star matches no address.
func hostWithin(p, q string) bool {
	if p == q {
		return true
	}
	if len(q) < 2 || q[:2] != "*." {
		return false
	}
	below := q[1:]
	return len(p) > len(below) && strings.HasSuffix(p, below)
}

func (h Hosts) meet(g Hosts) Hosts {
	switch {
	case h.all:
		return g
	case g.all:
		return h
	}
	// Between two patterns of either set, neither set changes its rules. So the rules at
	// every pattern and port of both are all there is.
	var both []HostRule
	for _, p := range h.patternsWith(g) {
		for _, port := range h.portsWith(g) {
			both = append(both, meetRules(h.at(p, port), g.at(p, port), p, port)...)
		}
	}
	met := Hosts{rules: compactRules(both)}
	met.rules = slices.DeleteFunc(met.rules, func(r HostRule) bool { return r.nothing && !met.needsNothing(r) })
	return met
}

// meetRules returns what one of a and one of b allow at a pattern and a port: at least
// the rule that allows nothing.
func meetRules(a, b []HostRule, pattern string, port uint16) []HostRule {
	var both []HostRule
	for _, r := range a {
		for _, s := range b {
			if met, ok := r.meet(s); ok {
				met.Host, met.Ports = pattern, []uint16{port}
				both = append(both, met)
			}
		}
	}
	if both == nil {
		both = []HostRule{{Host: pattern, Ports: []uint16{port}, nothing: true}}
	}
	return both
}

// needsNothing reports whether a shorter pattern would allow something without a rule
// that allows nothing.
func (h Hosts) needsNothing(nothing HostRule) bool {
	return slices.ContainsFunc(h.rules, func(r HostRule) bool {
		return !r.nothing && hostWithin(nothing.Host, r.Host) &&
			slices.ContainsFunc(r.Ports, func(port uint16) bool { return slices.Contains(nothing.Ports, port) })
	})
}

func (h Hosts) within(g Hosts) []Excess {
	if g.all {
		return nil
	}
	have := joinNames(g.Patterns(), "no network")
	if h.all {
		return []Excess{{"host", "*", "every host", have}}
	}
	var beyond []HostRule
	for _, p := range h.patternsWith(g) {
		for _, port := range h.portsWith(g) {
			parents := g.at(p, port)
			for _, r := range h.at(p, port) {
				if !slices.ContainsFunc(parents, r.isWithin) {
					r.Host, r.Ports = p, []uint16{port}
					beyond = append(beyond, r)
				}
			}
		}
	}
	var excess []Excess
	for _, r := range compactRules(beyond) {
		excess = append(excess, Excess{"host", r.String(), "it", have})
	}
	return excess
}

// patternsWith returns the patterns of two sets.
func (h Hosts) patternsWith(g Hosts) []string {
	var all []string
	for _, r := range slices.Concat(h.rules, g.rules) {
		all = append(all, r.Host)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// portsWith returns the ports of two sets.
func (h Hosts) portsWith(g Hosts) []uint16 {
	var all []uint16
	for _, r := range slices.Concat(h.rules, g.rules) {
		all = append(all, r.Ports...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
