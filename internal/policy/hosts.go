package policy

import (
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"
)

// Hosts are names of hosts, "*.example.com" for all below one. The zero value
// is no network.
type Hosts struct {
	all      bool
	patterns []string // ordered, lower case
}

// AllHosts is an open network.
func AllHosts() Hosts { return Hosts{all: true} }

// HostsOf returns a set of hosts. What is no pattern, see [IsHost], matches
// nothing and is not taken: a bare "*" too, for an open network is said by
// [AllHosts].
func HostsOf(patterns ...string) Hosts {
	var list []string
	for _, p := range patterns {
		if IsHost(p) {
			list = append(list, hostName(p))
		}
	}
	slices.Sort(list)
	return Hosts{patterns: slices.Compact(list)}
}

// IsHost reports whether text is a pattern of hosts: the name of a host or an
// address, or "*." before a name for all below it, but not the name itself.
// Names are ASCII, in any case; those in other scripts are written as DNS has
// them, xn--….
func IsHost(text string) bool {
	name := hostName(text)
	if below, ok := strings.CutPrefix(name, "*."); ok {
		return isDomain(below)
	}
	return isDomain(name) || isAddress(name)
}

// hostName returns the name of a host in lower case, without a dot at the end.
// Only ASCII has lower case here: of other letters some would turn into it.
func hostName(text string) string {
	text = strings.TrimSuffix(text, ".")
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return text
		}
	}
	return strings.ToLower(text)
}

// isDomain reports whether a name is made of letters, digits, "-" and "_" in
// parts between dots. Whoever connects may read anything else in another way
// than the pattern did: "evil.org/.example.com".
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
	return last != '.'
}

func isAddress(name string) bool {
	a, err := netip.ParseAddr(name)
	return err == nil && a.Zone() == ""
}

// Allows reports whether the host may be reached.
func (h Hosts) Allows(host string) bool {
	if h.all {
		return true
	}
	host = hostName(host)
	for _, p := range h.patterns {
		if hostWithin(host, p) {
			return isDomain(host) || isAddress(host)
		}
	}
	return false
}

// IsAll reports whether every host may be reached.
func (h Hosts) IsAll() bool { return h.all }

// IsEmpty reports whether no host may be reached.
func (h Hosts) IsEmpty() bool { return !h.all && len(h.patterns) == 0 }

// Patterns returns the patterns, nil for none and for all.
func (h Hosts) Patterns() []string { return slices.Clone(h.patterns) }

// hostWithin reports whether all that p matches is matched by q, where p is a
// host or a pattern, and q a pattern.
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
	var both []string
	for _, p := range h.patterns {
		for _, q := range g.patterns {
			if hostWithin(p, q) {
				both = append(both, p)
			} else if hostWithin(q, p) {
				both = append(both, q)
			}
		}
	}
	return HostsOf(both...)
}

func (h Hosts) within(g Hosts) []Excess {
	if g.all {
		return nil
	}
	have := joinNames(g.patterns, "no network")
	if h.all {
		return []Excess{{"host", "*", "every host", have}}
	}
	var excess []Excess
	for _, p := range h.patterns {
		if !slices.ContainsFunc(g.patterns, func(q string) bool { return hostWithin(p, q) }) {
			excess = append(excess, Excess{"host", p, "it", have})
		}
	}
	return excess
}
