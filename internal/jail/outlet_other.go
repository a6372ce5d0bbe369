//go:build !linux

package jail

import (
	"errors"
	"net"
	"net/netip"
)

// Destination returns an error. This system has no outlets.
func (Outlet) Destination(net.Conn) (netip.AddrPort, error) {
	return netip.AddrPort{}, errors.ErrUnsupported
}
