package egress

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/golem-forge/golem/internal/decide/policy"
)

// Addresses that a name must not lead to. Each entry has a reason, for messages.
var forbidden = []struct {
	prefix  netip.Prefix
	why     string
	private bool // AllowPrivate lifts it
}{
	{netip.MustParsePrefix("169.254.169.254/32"), "metadata service", false},
	{netip.MustParsePrefix("168.63.129.16/32"), "metadata service", false},
	{netip.MustParsePrefix("100.100.100.200/32"), "metadata service", false},
	{netip.MustParsePrefix("fd00:ec2::/32"), "metadata service", false},
	{netip.MustParsePrefix("fd20:ce::254/128"), "metadata service", false},
	{netip.MustParsePrefix("0.0.0.0/8"), "this host", false},
	{netip.MustParsePrefix("10.0.0.0/8"), "private", true},
	{netip.MustParsePrefix("100.64.0.0/10"), "private", true},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback", true},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local", false},
	{netip.MustParsePrefix("172.16.0.0/12"), "private", true},
	{netip.MustParsePrefix("192.0.0.0/24"), "reserved", false},
	{netip.MustParsePrefix("192.168.0.0/16"), "private", true},
	{standInRange, "stand-in", false},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast", false},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved", false},
	{netip.MustParsePrefix("::/128"), "this host", false},
	{netip.MustParsePrefix("::1/128"), "loopback", true},
	{netip.MustParsePrefix("::/96"), "reserved", false},
	{netip.MustParsePrefix("::ffff:0:0:0/96"), "translated", false}, // to any IPv4 address
	{netip.MustParsePrefix("64:ff9b:1::/48"), "translated", false},
	{netip.MustParsePrefix("100::/64"), "reserved", false},
	{netip.MustParsePrefix("2001::/32"), "tunnel", false},
	{netip.MustParsePrefix("fc00::/7"), "private", true},
	{netip.MustParsePrefix("fe80::/10"), "link-local", false},
	{netip.MustParsePrefix("fec0::/10"), "private", true},
	{netip.MustParsePrefix("ff00::/8"), "multicast", false},
}

// whyForbidden returns why the network must not connect to an address for a host, "" if it
// may. A rule that names the address lifts everything, unless it limits requests and the
// host is a name: the rules for the name are others.
func (n *Network) whyForbidden(host string, to netip.AddrPort) string {
	private := n.mayBePrivate(host)
	a := to.Addr().Unmap()
	if a.Zone() != "" {
		return "link-local"
	}
	isLimited := func(r policy.HostRule) bool {
		return r.NeedsRequests() && r.Host != host && !(host == "localhost" && r.Host == "127.0.0.1") // a rule for localhost has the address
	}
	if rules := n.o.Hosts.Find(a.String(), to.Port()); len(rules) > 0 && !n.o.Hosts.IsAll() && !slices.ContainsFunc(rules, isLimited) {
		return ""
	}
	for _, each := range embedded(a) {
		for _, f := range forbidden {
			if f.prefix.Contains(each) {
				if f.private && private {
					return ""
				}
				return f.why
			}
		}
	}
	if !private && isOwn(a) {
		return "this host"
	}
	return ""
}

// embedded returns an address and the IPv4 address that it leads to by NAT64 or 6to4.
func embedded(a netip.Addr) []netip.Addr {
	b := a.As16()
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(a):
		return []netip.Addr{a, netip.AddrFrom4([4]byte(b[12:16]))}
	case netip.MustParsePrefix("2002::/16").Contains(a):
		return []netip.Addr{a, netip.AddrFrom4([4]byte(b[2:6]))}
	}
	return []netip.Addr{a}
}

// isOwn reports whether an address is one of this machine's.
func isOwn(a netip.Addr) bool {
	own, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(own, func(each net.Addr) bool {
		p, err := netip.ParsePrefix(each.String())
		return err == nil && p.Addr().Unmap() == a
	})
}

// checkAddresses returns the addresses to which the network may connect, or an error that
// says why it may not use any.
func (n *Network) checkAddresses(name string, port uint16, all []netip.Addr) ([]netip.AddrPort, error) {
	var good []netip.AddrPort
	var bad []string
	for _, a := range all {
		to := netip.AddrPortFrom(a.Unmap(), port)
		if why := n.whyForbidden(name, to); why != "" {
			bad = append(bad, a.Unmap().String()+" ("+why+")")
		} else {
			good = append(good, to)
		}
	}
	if len(good) == 0 {
		return nil, addressRefusal(fmt.Sprintf("%s leads to %s; golem connects there only if the list names the address", name, strings.Join(bad, ", ")))
	}
	return good, nil
}

// mayBePrivate reports whether a name may lead to a private address.
func (n *Network) mayBePrivate(name string) bool {
	return n.o.AllowPrivate || slices.Contains(n.o.Private, name)
}

// hostKey is the key of the name in the context of a dialer.
type hostKey struct{}

// checkSocket checks the address that a socket is about to connect to.
func (n *Network) checkSocket(ctx context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	name, _ := ctx.Value(hostKey{}).(string)
	if why := n.whyForbidden(name, to); why != "" {
		return addressRefusal(to.Addr().String() + " is forbidden: " + why)
	}
	return nil
}

// A refusal is an error that says why golem does not let a connection or request pass.
type refusal string

func (r refusal) Error() string { return string(r) }

// An addressRefusal is a refusal that names addresses, which programs do not learn.
type addressRefusal string

func (r addressRefusal) Error() string { return string(r) }

// As makes an addressRefusal a refusal for errors.As.
func (r addressRefusal) As(target any) bool {
	if t, ok := target.(*refusal); ok {
		*t = refusal(r)
		return true
	}
	return false
}
