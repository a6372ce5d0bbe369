package jail

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The network that leads to golem at the level landlock, where commands have no network
// namespace. A seccomp filter makes the kernel ask golem's own process for each socket and
// each connect. golem makes the socket, hands it to the command, and keeps a copy. It
// reads the address of a connect once and connects its copy to a listener of its own on
// the loopback interface. The kernel never uses an address from the memory of a command,
// so a thread that changes it in between has no effect. When golem is gone, the kernel
// answers these calls with ENOSYS.
//
// There are no UDP sockets. A command that asks for one gets the end of a pair of Unix
// sockets, whose other end is golem's resolver. Such a socket ignores addresses.

// supervised returns the filter for commands with such a network. Landlock refuses them
// TCP a second time. The kernel would send the packets of a socket elsewhere with options
// such as source routes, so commands may set only options that cannot do this.
func supervised() []unix.SockFilter {
	var b filterBuilder
	b.load(atCall)
	b.when(unix.SYS_CONNECT, asks)
	b.when(unix.SYS_BIND, asks)
	b.when(unix.SYS_LISTEN, deny|uint32(unix.EACCES)) // also chooses a port by itself
	b.call(unix.SYS_SOCKET, func() {
		b.load(atArgs)
		b.when(unix.AF_INET, asks)
		b.when(unix.AF_INET6, asks)
		b.always(deny | uint32(unix.EAFNOSUPPORT))
	})
	for _, c := range []struct{ call, flags uint32 }{{unix.SYS_SENDTO, 3}, {unix.SYS_SENDMSG, 2}, {unix.SYS_SENDMMSG, 3}} {
		b.call(c.call, func() {
			b.load(atArgs + 8*c.flags)
			b.any(unix.MSG_FASTOPEN, deny|uint32(unix.EOPNOTSUPP)) // connects
		})
	}
	// A filter of its own could drop the answers to golem's connect, and golem would wait.
	b.call(unix.SYS_SETSOCKOPT, func() {
		b.load(atArgs + 8)
		b.call(unix.SOL_SOCKET, func() {
			b.load(atArgs + 16)
			for _, option := range []uint32{unix.SO_BINDTODEVICE, unix.SO_BINDTOIFINDEX, unix.SO_MARK, unix.SO_ATTACH_FILTER, unix.SO_ATTACH_BPF} {
				b.when(option, deny|uint32(unix.EPERM))
			}
		})
		for level, options := range harmlessOptions() {
			b.call(level, func() {
				b.load(atArgs + 16)
				for _, option := range options.set {
					b.when(option, allow)
				}
				for _, option := range options.ignored {
					b.when(option, deny) // without an error
				}
				b.always(deny | uint32(unix.ENOPROTOOPT))
			})
		}
		b.always(deny | uint32(unix.ENOPROTOOPT))
	})
	b.always(allow)
	return b.program
}

// An optionList has the socket options of a level that commands may set, and those that
// have no effect. Resolvers insist on some of the latter, and a socket for questions has
// none of them.
type optionList struct{ set, ignored []uint32 }

// harmlessOptions returns the socket options of internet sockets, by level.
func harmlessOptions() map[uint32]optionList {
	return map[uint32]optionList{
		unix.IPPROTO_IP: {[]uint32{unix.IP_TOS, unix.IP_TTL, unix.IP_BIND_ADDRESS_NO_PORT},
			[]uint32{unix.IP_RECVERR, unix.IP_RECVTTL, unix.IP_RECVTOS, unix.IP_PKTINFO, unix.IP_MTU_DISCOVER}},
		unix.IPPROTO_IPV6: {[]uint32{unix.IPV6_V6ONLY, unix.IPV6_UNICAST_HOPS, unix.IPV6_TCLASS},
			[]uint32{unix.IPV6_RECVERR, unix.IPV6_MTU_DISCOVER, unix.IPV6_RECVPKTINFO, unix.IPV6_RECVTCLASS, unix.IPV6_RECVHOPLIMIT}},
		unix.IPPROTO_TCP: {[]uint32{unix.TCP_NODELAY, unix.TCP_MAXSEG, unix.TCP_CORK, unix.TCP_KEEPIDLE, unix.TCP_KEEPINTVL, unix.TCP_KEEPCNT, unix.TCP_SYNCNT, unix.TCP_LINGER2,
			unix.TCP_WINDOW_CLAMP, unix.TCP_QUICKACK, unix.TCP_CONGESTION, unix.TCP_USER_TIMEOUT, unix.TCP_NOTSENT_LOWAT, unix.TCP_THIN_LINEAR_TIMEOUTS, unix.TCP_THIN_DUPACK}, nil},
	}
}

// A supervisor makes and connects the sockets of commands.
type supervisor struct {
	out         *outlet
	most        int            // sockets of each kind
	connections netip.AddrPort // golem's listener for connections
	streams     netip.AddrPort // that for questions to name servers by TCP
	questions   *questions
	answering   sync.WaitGroup

	mu       sync.Mutex
	sockets  map[uint64]unconnected    // by inode number
	oldest   []uint64                  // their numbers, in order
	askers   map[uint64]bool           // sockets for questions, by inode number
	wanted   map[netip.AddrPort]wanted // by the address of the socket, until golem has accepted it
	programs map[netip.AddrPort]string // those of accepted connections, until the server has asked
	sources  uint32
	host     []uint16 // as in Egress
}

// An unconnected is golem's copy of a TCP socket that it made for a command. golem closes
// it when the socket is connected.
type unconnected struct{ fd, domain int }

// mostSockets returns how many unconnected sockets, and how many sockets for questions,
// golem keeps for commands. They must not use up the descriptors of golem. If there are
// too many unconnected ones, the oldest cannot be connected any more.
func mostSockets() int {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return 128
	}
	return int(min(4096, files.Cur/8))
}

// canReadMemory returns an error if golem cannot read the memory of commands.
func canReadMemory() error {
	data, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	if scope := strings.TrimSpace(string(data)); err == nil && (scope == "2" && os.Geteuid() != 0 || scope == "3") {
		return errors.New("kernel.yama.ptrace_scope is " + scope + ", so golem cannot read the addresses that programs connect to")
	}
	return nil
}

// newSupervisor opens the listeners of a network and has them served.
func newSupervisor(e Egress) (*supervisor, error) {
	if err := canReadMemory(); err != nil {
		return nil, err
	}
	s := &supervisor{host: e.Host, most: mostSockets(), questions: newQuestions(), sockets: make(map[uint64]unconnected), askers: make(map[uint64]bool), wanted: make(map[netip.AddrPort]wanted), programs: make(map[netip.AddrPort]string)}
	s.out = &outlet{names: []net.PacketConn{s.questions}, find: s.destination}
	for _, at := range []*netip.AddrPort{&s.streams, &s.connections} {
		fd, err := listenAt(unix.SOCK_STREAM, [4]byte{127, 0, 0, 1}, 0)
		if err != nil {
			return nil, errors.Join(err, s.out.close())
		}
		f := os.NewFile(uintptr(fd), "listener")
		l, err := net.FileListener(f)
		f.Close()
		if err != nil {
			return nil, errors.Join(err, s.out.close())
		}
		*at = l.Addr().(*net.TCPAddr).AddrPort()
		if at == &s.streams {
			s.out.streams = &commandListener{Listener: l, isWanted: func(c net.Conn) bool { _, ok := s.accept(c); return ok }}
		} else {
			s.out.connections = []net.Listener{&commandListener{Listener: l, isWanted: s.isWanted}}
		}
	}
	var err error
	if s.out.server, err = e.Open(s.program); err != nil {
		return nil, errors.Join(err, s.out.close())
	}
	s.out.start()
	return s, nil
}

// close ends the network. The cells have ended, so the kernel asks nothing any more.
func (s *supervisor) close() error {
	err := s.out.close()
	done := make(chan struct{})
	go func() {
		s.answering.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(patience): // a process cannot end, because the kernel holds it
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.sockets {
		unix.Close(u.fd)
	}
	s.sockets = nil
	return err
}

// serve answers the requests of a cell's filter until no process has it.
func (s *supervisor) serve(listener int) {
	s.answering.Go(func() {
		answerRequests(listener, func(q callRequest) {
			switch q.call {
			case unix.SYS_SOCKET:
				s.open(listener, q)
			case unix.SYS_CONNECT:
				q.reply(listener, s.connect(listener, q))
			case unix.SYS_BIND:
				q.reply(listener, s.bind(listener, q))
			default:
				q.reply(listener, unix.ENOSYS)
			}
		})
	})
}

// open makes a socket and hands it to the command. It makes only TCP sockets, without
// Multipath TCP, and sockets for questions.
func (s *supervisor) open(listener int, q callRequest) {
	domain, kind, protocol := int(int32(q.args[0])), int(int32(q.args[1])), int(int32(q.args[2]))
	const flags = unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	switch {
	case kind&^flags == unix.SOCK_STREAM && (protocol == 0 || protocol == unix.IPPROTO_TCP):
		fd, err := unix.Socket(domain, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|kind&unix.SOCK_NONBLOCK, unix.IPPROTO_TCP)
		if err != nil {
			q.reply(listener, err)
			return
		}
		if err := s.keep(fd, domain); err != nil {
			unix.Close(fd)
			q.reply(listener, err)
			return
		}
		q.hand(listener, fd, kind)
	case kind&^flags == unix.SOCK_DGRAM && (protocol == 0 || protocol == unix.IPPROTO_UDP):
		fd, err := s.newAsker(kind & unix.SOCK_NONBLOCK)
		if err != nil {
			q.reply(listener, err)
			return
		}
		q.hand(listener, fd, kind)
		unix.Close(fd)
	default:
		q.reply(listener, unix.EPROTONOSUPPORT)
	}
}

// keep remembers golem's copy of a socket.
func (s *supervisor) keep(fd, domain int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.sockets) >= s.most && len(s.oldest) > 0 {
		if old, ok := s.sockets[s.oldest[0]]; ok {
			unix.Close(old.fd)
			delete(s.sockets, s.oldest[0])
		}
		s.oldest = s.oldest[1:]
	}
	if len(s.oldest) >= 2*s.most {
		s.oldest = slices.DeleteFunc(s.oldest, func(n uint64) bool { _, ok := s.sockets[n]; return !ok })
	}
	s.sockets[st.Ino] = unconnected{fd, domain}
	s.oldest = append(s.oldest, st.Ino)
	return nil
}

// newAsker returns a socket whose other end is the resolver.
func (s *supervisor) newAsker(nonblock int) (int, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|nonblock, 0)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fds[0], &st); err != nil {
		return -1, errors.Join(err, closeAll(fds[:]))
	}
	f := os.NewFile(uintptr(fds[1]), "questions")
	c, err := net.FileConn(f)
	f.Close()
	if err != nil {
		unix.Close(fds[0])
		return -1, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.askers) >= s.most {
		unix.Close(fds[0])
		c.Close()
		return -1, unix.ENFILE
	}
	s.askers[st.Ino] = true
	s.questions.add(c.(*net.UnixConn), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.askers, st.Ino)
	})
	return fds[0], nil
}

// connect connects a socket of a command to golem, and returns the result for the command.
func (s *supervisor) connect(listener int, q callRequest) error {
	address, inode, err := q.addressAndSocket(listener)
	if err != nil {
		return err
	}
	s.mu.Lock()
	asker := s.askers[inode]
	u, ok := s.sockets[inode]
	s.mu.Unlock()
	family, to := destinationOf(address)
	switch {
	case asker && (family == unix.AF_UNSPEC || to.Port() == namePort):
		return nil
	case asker:
		return unix.ECONNREFUSED
	case !ok:
		return unix.EISCONN
	case family != unix.AF_INET && family != unix.AF_INET6 || family == unix.AF_INET6 && u.domain == unix.AF_INET:
		return unix.EAFNOSUPPORT
	case !to.Addr().Is4():
		return unix.ENETUNREACH
	case to.Addr() == netip.AddrFrom4([4]byte{127, 0, 0, 1}) && slices.Contains(s.host, to.Port()): // of the host
	case to.Port() == 0 || to.Port() != namePort && (to.Addr().IsLoopback() || to.Addr().IsUnspecified()):
		return unix.ECONNREFUSED // commands have no loopback interface
	}
	from, err := s.bindSource(u)
	if err != nil {
		return err
	}
	program := threadProgram(int(q.pid)) // while it waits
	s.mu.Lock()
	s.wanted[from] = wanted{to, program}
	s.mu.Unlock()
	golem := s.connections
	if to.Port() == namePort {
		golem = s.streams
	}
	err = unix.Connect(u.fd, sockaddr(u.domain, golem))
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && err != unix.EINPROGRESS {
		delete(s.wanted, from)
		return err
	}
	unix.Close(u.fd)
	delete(s.sockets, inode)
	return err
}

// bind answers a request for an address: a socket for questions needs none, and commands
// may not have another.
func (s *supervisor) bind(listener int, q callRequest) error {
	_, inode, err := q.addressAndSocket(listener)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.askers[inode] {
		return nil
	}
	return unix.EACCES
}

// bindSource gives a socket an address of the loopback interface, by which golem
// recognizes its connection. It uses many addresses, because the ports of one do not
// suffice for many short connections.
func (s *supervisor) bindSource(u unconnected) (netip.AddrPort, error) {
	s.mu.Lock()
	s.sources++
	n := s.sources
	s.mu.Unlock()
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 18, byte(n >> 8), byte(n)}), 0)
	if err := unix.Bind(u.fd, sockaddr(u.domain, at)); err != nil && err != unix.EINVAL { // EINVAL after a connect that failed
		return netip.AddrPort{}, err
	}
	own, err := unix.Getsockname(u.fd)
	switch own := own.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(own.Addr), uint16(own.Port)), err
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(own.Addr).Unmap(), uint16(own.Port)), err
	}
	return netip.AddrPort{}, unix.EINVAL
}

// sockaddr returns an IPv4 address in the form of a socket's domain.
func sockaddr(domain int, at netip.AddrPort) unix.Sockaddr {
	if domain == unix.AF_INET6 {
		return &unix.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()}
	}
	return &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
}

// destinationOf returns the family of a struct sockaddr, and its address and port if it is
// one of the internet.
func destinationOf(b []byte) (family uint16, to netip.AddrPort) {
	family = binary.NativeEndian.Uint16(b)
	switch {
	case family == unix.AF_INET && len(b) >= unix.SizeofSockaddrInet4:
		return family, netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:]))
	case family == unix.AF_INET6 && len(b) >= 24: // without the scope
		return family, netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])).Unmap(), binary.BigEndian.Uint16(b[2:]))
	}
	return unix.AF_MAX, netip.AddrPort{}
}

// addressAndSocket reads the address in the memory of a process that called connect or
// bind, and returns it with the inode number of the socket.
func (q callRequest) addressAndSocket(listener int) (address []byte, inode uint64, err error) {
	size := int32(q.args[2])
	if size < 2 || size > unix.SizeofSockaddrAny {
		return nil, 0, unix.EINVAL
	}
	process := fmt.Sprintf("/proc/%d/", q.pid)
	link, err := os.Readlink(process + "fd/" + strconv.Itoa(int(int32(q.args[0]))))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, 0, unix.EBADF
	case err != nil:
		return nil, 0, unix.EACCES // the process hides from others
	}
	number, isSocket := strings.CutPrefix(strings.TrimSuffix(link, "]"), "socket:[")
	if inode, err = strconv.ParseUint(number, 10, 64); !isSocket || err != nil {
		return nil, 0, unix.ENOTSOCK
	}
	memory, err := os.Open(process + "mem")
	if err != nil {
		return nil, 0, unix.EACCES
	}
	defer memory.Close()
	address = make([]byte, size)
	if _, err := memory.ReadAt(address, int64(q.args[1])); err != nil {
		return nil, 0, unix.EFAULT
	}
	// If the process is gone, another may have its number.
	if !q.isAlive(listener) {
		return nil, 0, unix.ENOENT
	}
	return address, inode, nil
}

// questions is a net.PacketConn for all questions to name servers.
type questions struct {
	arrived chan nameQuestion
	done    chan struct{}
	once    sync.Once
	reading sync.WaitGroup

	mu    sync.Mutex
	conns map[*asker]struct{}
}

type nameQuestion struct {
	from *asker
	text []byte
}

// An asker is golem's end of a pair of sockets. It is also the address of the other end.
type asker struct{ *net.UnixConn }

func (asker) Network() string { return "unixpacket" }
func (asker) String() string  { return "a command" }

const maxQuestion = 4096

func newQuestions() *questions {
	return &questions{arrived: make(chan nameQuestion), done: make(chan struct{}), conns: make(map[*asker]struct{})}
}

// add reads the questions of a socket until the command closes its end, and then calls
// ended.
func (q *questions) add(c *net.UnixConn, ended func()) {
	a := &asker{c}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-q.done:
		c.Close()
		return
	default:
	}
	q.conns[a] = struct{}{}
	q.reading.Go(func() {
		defer func() {
			q.mu.Lock()
			delete(q.conns, a)
			q.mu.Unlock()
			c.Close()
			ended()
		}()
		b := make([]byte, maxQuestion)
		for {
			n, err := c.Read(b)
			if err != nil {
				return
			}
			select {
			case q.arrived <- nameQuestion{a, slices.Clone(b[:n])}:
			case <-q.done:
				return
			}
		}
	})
}

// ReadFrom implements net.PacketConn.
func (q *questions) ReadFrom(b []byte) (int, net.Addr, error) {
	select {
	case next := <-q.arrived:
		return copy(b, next.text), next.from, nil
	case <-q.done:
		return 0, nil, net.ErrClosed
	}
}

// WriteTo implements net.PacketConn. It does not wait for a command that does not read.
func (q *questions) WriteTo(b []byte, to net.Addr) (n int, err error) {
	a, ok := to.(*asker)
	if !ok {
		return 0, errors.New("not an address of a command")
	}
	raw, err := a.SyscallConn()
	if err != nil {
		return 0, err
	}
	wrong := raw.Write(func(fd uintptr) bool {
		n, err = unix.SendmsgN(int(fd), b, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		return true
	})
	return n, errors.Join(wrong, err)
}

// Close implements net.PacketConn.
func (q *questions) Close() error {
	q.mu.Lock()
	q.once.Do(func() { close(q.done) })
	for a := range q.conns {
		a.Close()
	}
	q.mu.Unlock()
	q.reading.Wait()
	return nil
}

// LocalAddr implements net.PacketConn.
func (*questions) LocalAddr() net.Addr { return asker{} }

// SetDeadline implements net.PacketConn, without deadlines.
func (*questions) SetDeadline(time.Time) error { return errors.ErrUnsupported }

// SetReadDeadline implements net.PacketConn, without deadlines.
func (*questions) SetReadDeadline(time.Time) error { return errors.ErrUnsupported }

// SetWriteDeadline implements net.PacketConn, without deadlines.
func (*questions) SetWriteDeadline(time.Time) error { return errors.ErrUnsupported }
