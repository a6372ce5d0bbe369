package egress

import (
	"context"
	"crypto/x509"
	"net"
	"net/netip"
)

// DialSocket dials with the checks of the socket only, as after a name was checked that
// has another address now.
func (n *Network) DialSocket(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	return n.dialer.DialContext(ctx, "tcp", to.String())
}

// WhyForbidden returns why the network does not connect to an address.
func (n *Network) WhyForbidden(to netip.AddrPort) string { return n.whyForbidden("", to) }

// MakeLeaf returns a certificate of the session's authority, for any host.
func (n *Network) MakeLeaf(host string) (*x509.Certificate, error) {
	c, err := n.o.Authority.leaf(host)
	if err != nil {
		return nil, err
	}
	return c.Leaf, nil
}

// Authority returns the certificate of the session's authority.
func (n *Network) Authority() []byte { return n.o.Authority.PEM() }

// Unfinished returns how many bytes the network keeps of unfinished messages.
func (n *Network) Unfinished() int64 { return n.budget.used.Load() }

// CloseIdle closes the connections to servers that no request uses.
func (n *Network) CloseIdle() { n.direct.CloseIdleConnections() }

// Resolve is the default of Options.Resolve.
func Resolve(ctx context.Context, name string) ([]netip.Addr, error) { return resolve(ctx, name) }
