package egress

import (
	"context"
	"net"
	"net/netip"
)

// DialSocket dials with the checks of the socket only, as after a name was checked that
// has another address now.
func (n *Network) DialSocket(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	return n.dialer.DialContext(ctx, "tcp", to.String())
}

// WhyForbidden returns why the network does not connect to an address.
func (n *Network) WhyForbidden(to netip.AddrPort) string { return n.whyForbidden(to) }
