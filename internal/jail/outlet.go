package jail

import (
	"io"
	"net"
	"net/netip"
)

// An Egress gives commands a network of their own that leads only to golem: they have
// the loopback interface, and every other TCP connection and every question to a name
// server arrives at the sockets of an Outlet. No packet leaves the network.
type Egress struct {
	// Ports are the ports that golem accepts connections on if the kernel has no nftables.
	// With nftables it accepts them on all.
	Ports []uint16
	// PortsOnly uses no nftables, as on a kernel without it.
	PortsOnly bool
	// Serve starts to serve the outlet of a network. Sessions that share a network share
	// its outlet, and Serve is called once. Close of the result ends the service before
	// the network ends.
	Serve func(Outlet) (io.Closer, error)
}

// An Outlet has the sockets at which a network of commands arrives. Only this process
// holds them.
type Outlet struct {
	Names       net.PacketConn // questions to name servers, by UDP
	NamesTCP    net.Listener   // the same by TCP
	Connections []net.Listener // all other connections
	// NoRedirect says why connections arrive only for the ports of the Egress, "" if they
	// arrive for all ports.
	NoRedirect string
}

// Close closes the sockets.
func (o Outlet) Close() error {
	for _, c := range append([]net.Listener{o.NamesTCP}, o.Connections...) {
		if c != nil {
			c.Close()
		}
	}
	if o.Names != nil {
		o.Names.Close()
	}
	return nil
}

// outletAddress is the address of the loopback interface, besides 127.0.0.1, in a network
// that leads to golem. Connections have it as their source, and golem listens on it. The
// range is reserved for tests of networks, so no real host has it.
const outletAddress = "198.18.0.1"

// OutletAddress returns the address that golem itself uses in a network of commands.
func OutletAddress() netip.Addr { return netip.MustParseAddr(outletAddress) }

// resolvConf is the /etc/resolv.conf of commands whose network leads to golem.
const resolvConf = "nameserver " + outletAddress + "\n"
