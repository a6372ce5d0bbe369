package network

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/jail"
)

// counts are the hosts that commands asked for in vain, one count for each command that
// runs. Commands that share a network run into each other's counts.
type counts struct {
	mu      sync.Mutex
	running map[*jail.Refused]map[string]bool
}

// Limits for commands that ask for many hosts.
const (
	maxCounted   = 256 // hosts of a command that golem tells apart
	maxSuggested = 3   // hosts without a preset that golem suggests to allow
)

// begin starts a count, and returns what ends it.
func (c *counts) begin() (end func() jail.Refused) {
	r := &jail.Refused{}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil {
		c.running = make(map[*jail.Refused]map[string]bool)
	}
	c.running[r] = make(map[string]bool)
	return func() jail.Refused {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.running, r)
		return *r
	}
}

// add counts a host that golem refused. The port is 0 for a name that was only looked up.
func (c *counts) add(host string, port uint16) {
	if port != 0 && port != 80 && port != 443 { // a host without a port means these two
		host = net.JoinHostPort(host, strconv.Itoa(int(port)))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for r, known := range c.running {
		switch r.Times++; {
		case known[host]:
		case len(known) >= maxCounted:
			r.More = true
		default:
			known[host], r.Hosts = true, append(r.Hosts, host)
		}
	}
}

// clientWords are words in a command that mean the client of a preset.
func clientWords() map[string][]string {
	return map[string][]string{
		"debian": {"apt", "apt-get"},
		"go":     {"go"},
		"npm":    {"npm", "npx", "pnpm", "yarn", "node", "corepack"},
		"pypi":   {"pip", "pip3", "python", "python3"},
	}
}

// suggestTime is how long the package clients may take to name their hosts.
const suggestTime = 5 * time.Second

// suggest returns what --net adds so that a command reaches some hosts: presets first, and
// the hosts that no preset has. It returns nil if these are many, or one cannot be added.
// The command says which preset counts if several have a host. Denied is the policy that
// forbids some of the hosts, "" for none.
func (n *Networks) suggest(ctx context.Context, command, hosts []string) (add []string, denied string) {
	ctx, cancel := context.WithTimeout(ctx, suggestTime)
	defer cancel()
	rest := slices.Clone(hosts)
	for _, name := range orderPresets(command) {
		if len(rest) == 0 {
			break
		}
		preset := n.findPreset(ctx, name)
		others := slices.DeleteFunc(slices.Clone(rest), func(host string) bool { return hasHost(preset.Hosts, host) })
		if len(others) == len(rest) {
			continue
		}
		rest = others
		if _, place, less := n.Project.Ceiling.LimitHosts(preset.Hosts, name); less {
			denied = place.String()
		} else {
			add = append(add, "+"+name)
		}
	}
	if len(rest) > maxSuggested {
		return nil, denied
	}
	for _, host := range rest {
		r, err := policy.ParseHost(host)
		if err != nil || !strings.ContainsAny(host, ".:") {
			return nil, denied
		}
		if allowed, place, less := n.Project.Ceiling.LimitHosts(policy.HostsOfRules(r), ""); !less {
			add = append(add, "+"+host)
		} else if allowed.IsEmpty() {
			denied = place.String()
		} else if one := allowed.Patterns()[0]; hasHost(allowed, one) { // one of its ports
			add = append(add, "+"+one)
		}
	}
	return add, denied
}

// orderPresets returns the names of all presets: first those whose client a command names.
func orderPresets(command []string) []string {
	words := strings.FieldsFunc(strings.Join(command, " "), func(r rune) bool { return strings.ContainsRune(" \t\n;&|()/'\"", r) })
	isNamed := func(name string) bool {
		return slices.ContainsFunc(clientWords()[name], func(w string) bool { return slices.Contains(words, w) })
	}
	return slices.SortedStableFunc(slices.Values(policy.PresetNames()), func(a, b string) int {
		switch {
		case isNamed(a) && !isNamed(b):
			return -1
		case isNamed(b) && !isNamed(a):
			return 1
		}
		return 0
	})
}

// hasHost reports whether a list has a host, as counts write it.
func hasHost(list policy.Hosts, host string) bool {
	at, err := netip.ParseAddrPort(host)
	if err == nil {
		return len(list.Find(at.Addr().String(), at.Port())) > 0
	}
	if name, text, err := net.SplitHostPort(host); err == nil {
		port, _ := strconv.ParseUint(text, 10, 16) // counts wrote it
		return len(list.Find(name, uint16(port))) > 0
	}
	return list.Allows(host)
}

// findPreset returns the hosts of a preset. It asks the package client once.
func (n *Networks) findPreset(ctx context.Context, name string) Preset {
	n.mu.Lock()
	known, ok := n.presets[name]
	n.mu.Unlock()
	if ok || n.Presets == nil || ctx.Err() != nil {
		return known
	}
	list := n.Presets(ctx, []string{name})
	if len(list) == 0 || ctx.Err() != nil { // another time there may be more of it
		return Preset{}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.presets == nil {
		n.presets = make(map[string]Preset)
	}
	n.presets[name] = list[0]
	return list[0]
}

// FewRetries returns variables with which package clients that reach only some hosts give up
// soon. By default npm tries for 72 seconds to reach a host that golem refuses, and no
// answer to a question or connection stops it. Without any host, they try once.
func FewRetries(hosts policy.Hosts) []string {
	switch {
	case hosts.IsAll():
		return nil
	case hosts.IsEmpty():
		return []string{"npm_config_fetch_retries=0", "PIP_RETRIES=0", "CARGO_NET_RETRY=0"}
	}
	return []string{"npm_config_fetch_retry_mintimeout=1000", "npm_config_fetch_retry_maxtimeout=2000", "PIP_RETRIES=3", "CARGO_NET_RETRY=1"}
}
