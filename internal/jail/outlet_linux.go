package jail

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// outletKey is the name of a network that leads to golem. It differs from the names of
// networks that lead nowhere.
func outletKey(p Policy) string {
	if p.Egress.NamesOnly {
		return "names " + p.Loopback
	}
	return "outlet " + p.Loopback
}

// An opening is the reply of a holder that was asked for a network that leads to golem.
// Its files are the sockets of an outlet, in the order of the fields.
type opening struct {
	Error      string
	NoRedirect string
	Names      int  // how many of the files are for questions by UDP
	Holder     int  // its process
	Peers      bool // the last file is the socket of peers
}

// openEgress makes the network of a policy and has it served, unless the holder has it
// already.
func (h *Helper) openEgress(p Policy) error {
	if p.Egress == nil {
		return nil
	}
	h.asking.Lock()
	defer h.asking.Unlock()
	key := outletKey(p)
	if _, ok := h.outlets[key]; ok {
		return nil
	}
	if err := h.send(ask{Outlet: true, Loopback: key, Ports: p.Egress.Ports, HostPorts: p.Egress.Host, PortsOnly: p.Egress.PortsOnly, NamesOnly: p.Egress.NamesOnly}); err != nil {
		return fmt.Errorf("%w: %w", ErrEnded, err)
	}
	var o opening
	files, err := h.receive(&o)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrEnded, err)
	case o.Error != "":
		return errors.New(o.Error)
	}
	who := peers{holder: o.Holder}
	if last := len(files) - 1; o.Peers && last >= 0 {
		who.socket, files = os.NewFile(uintptr(files[last]), "peers"), files[:last]
	}
	out, err := outletOf(files, o, p.Egress.NamesOnly)
	out.peers = &who
	if err != nil {
		who.close()
		return err
	}
	if out.server, err = p.Egress.Open(out.program); err != nil {
		return errors.Join(err, out.close())
	}
	out.start()
	if h.outlets == nil {
		h.outlets = make(map[string]*outlet)
	}
	h.outlets[key] = out
	return nil
}

// An outlet has the sockets at which a network of commands arrives, and serves them.
type outlet struct {
	names       []net.PacketConn // questions to name servers, by UDP
	streams     net.Listener     // the same by TCP
	connections []net.Listener   // all other connections
	noRedirect  string           // why connections arrive only for some ports, "" if they arrive for all
	peers       *peers
	server      Server
	serving     sync.WaitGroup

	// find returns the address and port that a command connected to, for one of connections.
	find func(net.Conn) (netip.AddrPort, error)
}

// start starts to serve the sockets.
func (o *outlet) start() {
	for _, c := range o.names {
		o.serving.Go(func() { o.server.ServeDNS(c) })
	}
	o.serving.Go(func() { o.server.ServeDNSStreams(o.streams) })
	for _, l := range o.connections {
		o.serving.Go(func() { o.server.Serve(l, o.find) })
	}
}

// close closes the sockets, then the server, and waits until nothing is served any more.
func (o *outlet) close() (err error) {
	for _, l := range append([]net.Listener{o.streams}, o.connections...) {
		if l != nil {
			l.Close()
		}
	}
	for _, c := range o.names {
		c.Close()
	}
	if o.server != nil {
		err = o.server.Close()
	}
	o.serving.Wait()
	if o.peers != nil {
		o.peers.close()
	}
	return err
}

// outletOf returns the outlet with these sockets. One with only names takes no connections.
func outletOf(files []int, o opening, namesOnly bool) (out *outlet, err error) {
	out = &outlet{noRedirect: o.NoRedirect}
	out.find = out.destination
	for i, fd := range files {
		f := os.NewFile(uintptr(fd), "outlet")
		if i < o.Names {
			var c net.PacketConn
			if c, err = net.FilePacketConn(f); err == nil {
				out.names = append(out.names, c)
			}
		} else {
			var l net.Listener
			if l, err = net.FileListener(f); err == nil && i == o.Names {
				out.streams = l
			} else if err == nil {
				out.connections = append(out.connections, l)
			}
		}
		f.Close() // the connection has a copy
		if err != nil {
			closeAll(files[i+1:])
			return out, errors.Join(fmt.Errorf("the sockets of the network: %w", err), out.close())
		}
	}
	if out.streams == nil || len(out.connections) == 0 && !namesOnly {
		return out, errors.Join(errors.New("the network has no sockets"), out.close())
	}
	return out, nil
}

// destination returns the address and port that a command connected to, for a connection
// that arrived at one of o.connections.
func (o *outlet) destination(c net.Conn) (netip.AddrPort, error) {
	if o.noRedirect != "" { // every address is local, so the connection still has it
		local, ok := c.LocalAddr().(*net.TCPAddr)
		if !ok {
			return netip.AddrPort{}, errors.New("not a TCP connection")
		}
		at := local.AddrPort()
		return netip.AddrPortFrom(at.Addr().Unmap(), at.Port()), nil
	}
	t, ok := c.(*net.TCPConn)
	if !ok {
		return netip.AddrPort{}, errors.New("not a TCP connection")
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return netip.AddrPort{}, err
	}
	var at netip.AddrPort
	controlled := raw.Control(func(fd uintptr) {
		// The kernel returns a struct sockaddr_in, which fits into this type.
		var got *unix.IPv6Mreq
		if got, err = unix.GetsockoptIPv6Mreq(int(fd), unix.SOL_IP, soOriginalDst); err == nil {
			b := got.Multiaddr
			at = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), uint16(b[2])<<8|uint16(b[3]))
		}
	})
	return at, errors.Join(controlled, err)
}

// soOriginalDst is SO_ORIGINAL_DST.
const soOriginalDst = 80

// closeOutlets ends the service of all networks that lead to golem.
func (h *Helper) closeOutlets() {
	for _, o := range h.outlets {
		o.close()
	}
	h.outlets = nil
}

// Ports in a network that leads to golem. A command can bind none below 1024.
const (
	namePort       = 53
	connectionPort = 1
	// nameSockets are the sockets for questions by UDP, from namePort on. The kernel drops
	// questions that find the buffer of their socket full. One buffer is too small for a
	// thousand threads that ask at once, and its size has a limit (net.core.rmem_max).
	nameSockets = 8
	nameBuffer  = 4 << 20 // bytes, unless the limit is lower
)

// open makes a network that leads to golem, and returns its sockets. Only the caller of
// golem keeps them.
func (n *networks) open(a ask) (files []int, o opening) {
	in, err := newThread(apartNetwork)
	if err == nil {
		err = in.do(func() (err error) {
			if files, o, err = prepareOutlet(a); err != nil {
				return err
			}
			if socket, err := newPeerSocket(); err == nil { // otherwise connections have no program
				files, o.Peers = append(files, socket), true
			}
			return nil
		})
	}
	if err != nil {
		return nil, opening{Error: "a network that leads to golem: " + err.Error()}
	}
	n.add(a.Loopback, in)
	o.Holder = os.Getpid()
	return files, o
}

// add records the thread of a network.
func (n *networks) add(name string, in thread) {
	if n.more == nil {
		n.more = make(map[string]thread)
	}
	n.more[name] = in
}

// prepareOutlet makes every address local in the network namespace of the calling thread,
// or only that of the name server, and opens the sockets of the outlet.
func prepareOutlet(a ask) (files []int, o opening, err error) {
	defer func() {
		if err != nil {
			closeAll(files)
			files = nil
		}
	}()
	if err := routeToSelf(a.NamesOnly); err != nil {
		return nil, o, err
	}
	own := netip.MustParseAddr(outletAddress).As4()
	listen := func(kind int, at [4]byte, port int) error {
		fd, err := listenAt(kind, at, port)
		if err != nil {
			return fmt.Errorf("listen on port %d: %w", port, err)
		}
		files = append(files, fd)
		return nil
	}
	why := errors.New("it is not used")
	if !a.PortsOnly && !a.NamesOnly {
		why = redirect(own, a.HostPorts)
	}
	if o.Names = nameSockets; why != nil {
		o.Names, o.NoRedirect = 1, why.Error()
	}
	for i := range o.Names {
		if err := listen(unix.SOCK_DGRAM, own, namePort+i); err != nil {
			return files, o, err
		}
	}
	if err := listen(unix.SOCK_STREAM, own, namePort); err != nil {
		return files, o, err
	}
	switch {
	case a.NamesOnly:
		return files, o, nil
	case why == nil:
		return files, o, listen(unix.SOCK_STREAM, own, connectionPort)
	}
	ports := slices.Clone(a.Ports)
	slices.Sort(ports)
	ports = slices.DeleteFunc(slices.Compact(ports), func(p uint16) bool { return p == 0 || p == namePort })
	if len(ports) > maxPorts {
		return files, o, fmt.Errorf("the kernel has no nftables (%w), so golem needs a socket for each port, and %d are too many; at most %d are allowed", why, len(ports), maxPorts)
	}
	for _, port := range ports {
		if err := listen(unix.SOCK_STREAM, [4]byte{}, int(port)); err != nil {
			return files, o, err
		}
	}
	return files, o, nil
}

// maxPorts is the most ports that a network without nftables leads to golem.
const maxPorts = 24

// listenAt opens a socket. It sets no option that would let a command share the port.
func listenAt(kind int, at [4]byte, port int) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	err = unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: at})
	if kind == unix.SOCK_DGRAM {
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, nameBuffer)
	} else if err == nil {
		err = unix.Listen(fd, 4096)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
