package jail

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// loopbackIndex is the number of the loopback interface in every network namespace.
const loopbackIndex = 1

// routeToSelf makes every IPv4 address an address of the network namespace of the calling
// thread, as `ip route add local default dev lo` does. There is no route out. Connections
// get the outlet's address as their source, because with 127.0.0.1 only programs would
// take the machine for one without a network, and ask for no addresses. With onlyOwn, only
// the outlet's address is one.
func routeToSelf(onlyOwn bool) error {
	c, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return fmt.Errorf("routes: %w", err)
	}
	defer c.Close()
	own := netip.MustParseAddr(outletAddress).AsSlice()
	send := func(kind netlink.HeaderType, head []byte, encode func(*netlink.AttributeEncoder)) error {
		e := netlink.NewAttributeEncoder()
		encode(e)
		attributes, err := e.Encode()
		if err == nil {
			_, err = c.Execute(netlink.Message{Header: netlink.Header{Type: kind, Flags: netlink.Request | netlink.Acknowledge | netlink.Create | netlink.Excl}, Data: append(head, attributes...)})
		}
		return err
	}
	// struct ifaddrmsg
	address := binary.NativeEndian.AppendUint32([]byte{unix.AF_INET, 32, 0, unix.RT_SCOPE_UNIVERSE}, loopbackIndex)
	if err := send(unix.RTM_NEWADDR, address, func(e *netlink.AttributeEncoder) {
		e.Bytes(unix.IFA_LOCAL, own)
		e.Bytes(unix.IFA_ADDRESS, own)
	}); err != nil {
		return fmt.Errorf("address %s: %w", outletAddress, err)
	}
	if onlyOwn {
		return nil
	}
	// struct rtmsg
	route := []byte{unix.AF_INET, 0, 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_STATIC, unix.RT_SCOPE_HOST, unix.RTN_LOCAL, 0, 0, 0, 0}
	if err := send(unix.RTM_NEWROUTE, route, func(e *netlink.AttributeEncoder) {
		e.Uint32(unix.RTA_OIF, loopbackIndex)
		e.Bytes(unix.RTA_PREFSRC, own)
	}); err != nil {
		return fmt.Errorf("local default route: %w", err)
	}
	return nil
}

// redirect adds rules of nftables to the network namespace of the calling thread: they
// send questions to every name server, and every TCP connection, to ports of an address.
// They spread questions by UDP over all nameSockets. Connections to 127.0.0.0/8 stay as
// they are, except those to some ports of 127.0.0.1.
func redirect(to [4]byte, host []uint16) error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	table := c.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "golem"})
	chain := c.AddChain(&nftables.Chain{Name: "output", Table: table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityNATDest})
	add := func(list ...expr.Any) { c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: list}) }
	for _, port := range host {
		add(append([]expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, equals(unix.IPPROTO_TCP),
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4}, equals(127, 0, 0, 1),
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}, equals(byte(port>>8), byte(port))},
			sendTo(to, connectionPort, 1)...)...)
	}
	add(&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 1}, // the first byte of the destination
		equals(127), &expr.Verdict{Kind: expr.VerdictAccept})
	for protocol, sockets := range map[byte]uint16{unix.IPPROTO_UDP: nameSockets, unix.IPPROTO_TCP: 1} {
		add(append([]expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, equals(protocol),
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}, // the port of the destination
			equals(0, namePort)}, sendTo(to, namePort, sockets)...)...)
	}
	add(append([]expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, equals(unix.IPPROTO_TCP)}, sendTo(to, connectionPort, 1)...)...)
	if err := c.Flush(); err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	return nil
}

// equals ends a rule unless the loaded bytes are these.
func equals(data ...byte) expr.Any {
	return &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: data}
}

// sendTo changes the destination to an address and one of some ports, at random.
func sendTo(to [4]byte, port, ports uint16) []expr.Any {
	return []expr.Any{
		&expr.Immediate{Register: 1, Data: to[:]},
		&expr.Immediate{Register: 2, Data: binary.BigEndian.AppendUint16(nil, port)},
		&expr.Immediate{Register: 3, Data: binary.BigEndian.AppendUint16(nil, port+ports-1)},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1, RegProtoMin: 2, RegProtoMax: 3, Random: ports > 1},
	}
}
