package policy

import (
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"
)

// Hosts is a set of host names, with "*.example.com" for all names below one. The zero
// value is no network.
type Hosts struct {
	all      bool
	patterns []string // sorted, in lower case
}

// AllHosts returns the set of all hosts.
func AllHosts() Hosts { return Hosts{all: true} }

// HostsOf returns a set of hosts. It ignores texts that are not patterns, see [IsHost].
// That includes a bare "*": use [AllHosts] for all hosts.
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

// isDomain reports whether a name consists of letters, digits, "-" and "_" in parts
// between dots. A program that connects may read anything else in another way than the
// pattern: "evil.org/.example.com".
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

// Allows reports whether connections to the host are allowed.
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

// IsAll reports whether all hosts are allowed.
func (h Hosts) IsAll() bool { return h.all }

// IsEmpty reports whether no host is allowed.
func (h Hosts) IsEmpty() bool { return !h.all && len(h.patterns) == 0 }

// Patterns returns the patterns, nil for none and for all.
func (h Hosts) Patterns() []string { return slices.Clone(h.patterns) }

// hostWithin reports whether pattern q matches everything that p matches. P may also be a
// host.
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
