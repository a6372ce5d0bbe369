package jail_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// supervisedAttacks try to leave a network that leads to golem at the level landlock,
// where golem makes and connects all sockets.
func supervisedAttacks() []attack {
	return []attack{
		{"S07 programs in a network that leads to golem", func(t *testing.T, y *attackEnv) {
			f := leadOut(t, y, false)
			f.programs(y)
			y.is(hideSource(y.sh(`curl -sS http://203.0.113.7:8443/ http://1.1.1.1/`)), "203.0.113.7:8443 arrived from 198.18.0.1 for 203.0.113.7:8443\n1.1.1.1 arrived from 198.18.0.1 for 1.1.1.1:80\n")
			if f.opened != 1 {
				t.Errorf("%d networks, want 1", f.opened)
			}
		}},
		{"S07 ways out of a network that leads to golem", func(t *testing.T, y *attackEnv) {
			e := newListeners(t)
			f := leadOut(t, y, false)
			for _, a := range e.addresses {
				y.probe("dial", a[0], a[1])
			}
			e.checkHeard(t, "")
			_, out := y.probe("udp", "203.0.113.7:443", "198.18.1.0:443", "[2001:db8::1]:443")
			y.is(out, strings.Repeat("udp ECONNREFUSED\n", 3))
			_, out = y.probe("dial", "tcp", "[2001:db8::1]:80", "tcp", "[::1]:80", "tcp", "127.0.0.1:"+e.port, "tcp", "0.0.0.0:"+e.port)
			y.is(out, "tcp ENETUNREACH\ntcp ENETUNREACH\ntcp ECONNREFUSED\ntcp ECONNREFUSED\n")
			_, out = y.probe("bind", "tcp/127.0.0.1:8080", "tcp/0.0.0.0:0", "tcp/[::1]:0")
			y.answers(out, 3, "EACCES", "EAFNOSUPPORT", "EADDRNOTAVAIL")
			_, out = y.probe("leave", slices.Concat(e.addresses[0][:], e.addresses[3][:])...)
			y.is(out, strings.TrimLeft(`
kind 1 262 EPROTONOSUPPORT
kind 1 132 EPROTONOSUPPORT
kind 2 1 EPROTONOSUPPORT
kind 2 136 EPROTONOSUPPORT
kind 3 1 EPROTONOSUPPORT
kind 3 255 EPROTONOSUPPORT
kind 5 132 EPROTONOSUPPORT
family 1 EAFNOSUPPORT
family 16 EAFNOSUPPORT
family 17 EAFNOSUPPORT
family 38 EAFNOSUPPORT
family 40 EAFNOSUPPORT
option 0 4 ENOPROTOOPT
option 1 25 EPERM
option 1 62 EPERM
option 1 26 EPERM
option 6 23 ENOPROTOOPT
option 6 30 ENOPROTOOPT
option 6 31 ENOPROTOOPT
option 41 57 ENOPROTOOPT
option 284 1 ENOPROTOOPT
fast open ENOTSUP
fast open by message ENOTSUP
fast open by messages ENOTSUP
send to an address EPIPE
send a message to an address EPIPE
bind EACCES
listen EACCES
no descriptor EBADF
no socket ENOTSOCK
no address EFAULT
short address EINVAL
long address EINVAL
another family EAFNOSUPPORT
disconnect EAFNOSUPPORT
a copy done
its original EISCONN
again EISCONN
mapped done
wrong address for the family EAFNOSUPPORT
own filter done
own listener EBUSY
connect after it ECONNREFUSED
own listener of sockets done
datagram done
datagram by message done
`, "\n"))
			e.checkHeard(t, "")
			// A thread changes the address while golem reads it.
			_, out = y.probe("swap", "203.0.113.7:80", "127.0.0.1:"+e.port)
			if ok := regexp.MustCompile(`^203\.0\.113\.7 [1-9]\d*, refused \d+\n$`).MatchString(out); !ok {
				t.Errorf("got %q", out)
			}
			e.checkHeard(t, "")
			// Another program of the machine cannot use golem's listeners.
			y.is(y.sh(`true`), "")
			for _, l := range f.addresses() {
				c, err := net.Dial("tcp", l)
				check(t, err)
				c.SetDeadline(time.Now().Add(hang))
				if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
					t.Errorf("%s: got %d, %v", l, n, err)
				}
				c.Close()
			}
			// When golem no longer serves, nothing answers.
			f.cut()
			y.is(y.sh(`curl -s http://203.0.113.7/; echo $?; curl -s http://curl.example/; echo $?`), "7\n6\n")
			y.session.Close()
			y.session = nil
			if f.closed != 1 {
				t.Errorf("the end of the session closed the server %d times, want once", f.closed)
			}
		}},
		{"S07 many sockets in a network that leads to golem", func(t *testing.T, y *attackEnv) {
			leadOut(t, y, false)
			_, out := y.probe("ask much")
			y.is(out, "2000 answers\n")
			_, out = y.probe("open much")
			y.is(out, "5000 opened, done\n")
		}},
	}
}

// hideSource replaces the addresses of connections by the one that they have at the level
// namespaces.
func hideSource(out string) string {
	return regexp.MustCompile(`127\.18\.\d+\.\d+`).ReplaceAllString(out, "198.18.0.1")
}

// tryLeave tries to use sockets in ways that do not lead to golem. The arguments are pairs
// of a network and an address on the host.
func tryLeave(args []string) {
	runtime.LockOSThread()
	for _, k := range [][2]int{{unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, {unix.SOCK_STREAM, unix.IPPROTO_SCTP}, {unix.SOCK_DGRAM, unix.IPPROTO_ICMP}, {unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE},
		{unix.SOCK_RAW, unix.IPPROTO_ICMP}, {unix.SOCK_RAW, unix.IPPROTO_RAW}, {unix.SOCK_SEQPACKET, unix.IPPROTO_SCTP}} {
		_, err := unix.Socket(unix.AF_INET, k[0], k[1])
		printResult(fmt.Sprint("kind ", k[0], " ", k[1]), err)
	}
	for _, family := range []int{unix.AF_UNIX, unix.AF_NETLINK, unix.AF_PACKET, unix.AF_ALG, unix.AF_VSOCK} {
		_, err := unix.Socket(family, unix.SOCK_DGRAM, 0)
		printResult(fmt.Sprint("family ", family), err)
	}
	ear, _ := netip.ParseAddrPort(args[1])
	at := &unix.SockaddrInet4{Port: int(ear.Port()), Addr: ear.Addr().As4()}
	tcp := newTCP(unix.AF_INET)
	route := []byte{131, 7, 4, ear.Addr().As4()[0], ear.Addr().As4()[1], ear.Addr().As4()[2], ear.Addr().As4()[3], 0} // a source route
	for _, o := range [][2]int{{unix.IPPROTO_IP, unix.IP_OPTIONS}, {unix.SOL_SOCKET, unix.SO_BINDTODEVICE}, {unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX}, {unix.SOL_SOCKET, unix.SO_ATTACH_FILTER}, {unix.IPPROTO_TCP, unix.TCP_FASTOPEN},
		{unix.IPPROTO_TCP, unix.TCP_FASTOPEN_CONNECT}, {unix.IPPROTO_TCP, unix.TCP_ULP}, {unix.IPPROTO_IPV6, unix.IPV6_RTHDR}, {unix.SOL_MPTCP, 1}} {
		printResult(fmt.Sprint("option ", o[0], " ", o[1]), unix.SetsockoptString(tcp, o[0], o[1], string(route)))
	}
	printResult("fast open", unix.Sendto(tcp, []byte("out"), unix.MSG_FASTOPEN|unix.MSG_NOSIGNAL, at))
	printResult("fast open by message", unix.Sendmsg(tcp, []byte("out"), nil, at, unix.MSG_FASTOPEN|unix.MSG_NOSIGNAL))
	printResult("fast open by messages", sendMessages(tcp, at, unix.MSG_FASTOPEN))
	printResult("send to an address", unix.Sendto(tcp, []byte("out"), unix.MSG_NOSIGNAL, at))
	printResult("send a message to an address", unix.Sendmsg(tcp, []byte("out"), nil, at, unix.MSG_NOSIGNAL))
	printResult("bind", unix.Bind(tcp, &unix.SockaddrInet4{}))
	printResult("listen", unix.Listen(tcp, 1))

	printResult("no descriptor", unix.Connect(999, at))
	printResult("no socket", unix.Connect(0, at))
	_, _, errno := unix.RawSyscall(unix.SYS_CONNECT, uintptr(tcp), 8, 16)
	printResult("no address", errno)
	var raw unix.RawSockaddrAny
	_, _, errno = unix.RawSyscall(unix.SYS_CONNECT, uintptr(tcp), uintptr(unsafe.Pointer(&raw)), 1)
	printResult("short address", errno)
	_, _, errno = unix.RawSyscall(unix.SYS_CONNECT, uintptr(tcp), uintptr(unsafe.Pointer(&raw)), 1<<20)
	printResult("long address", errno)
	printResult("another family", unix.Connect(tcp, &unix.SockaddrUnix{Name: "@x"}))
	_, _, errno = unix.RawSyscall(unix.SYS_CONNECT, uintptr(tcp), uintptr(unsafe.Pointer(&raw)), 16)
	printResult("disconnect", errno)

	web := &unix.SockaddrInet4{Port: 80, Addr: [4]byte{203, 0, 113, 7}}
	second, _ := unix.Dup(tcp)
	printResult("a copy", firstLine(second, unix.Connect(second, web)))
	printResult("its original", unix.Connect(tcp, at))
	printResult("again", unix.Connect(second, web))
	six := newTCP(unix.AF_INET6)
	printResult("mapped", firstLine(six, unix.Connect(six, &unix.SockaddrInet6{Port: 80, Addr: netip.MustParseAddr("::ffff:203.0.113.7").As16()})))
	printResult("wrong address for the family", unix.Connect(newTCP(unix.AF_INET), &unix.SockaddrInet6{Port: 80, Addr: netip.MustParseAddr("::ffff:203.0.113.7").As16()}))

	printResult("own filter", ownFilter(0))
	printResult("own listener", ownFilter(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER))
	printResult("connect after it", unix.Connect(newTCP(unix.AF_INET), at))

	// A socket for questions to name servers takes no address.
	names, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	printResult("own listener of sockets", err)
	for i := 0; i+1 < len(args); i += 2 {
		to, err := netip.ParseAddrPort(args[i+1])
		if args[i] != "udp" || err != nil || !to.Addr().Is4() {
			continue
		}
		at = &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
		break
	}
	printResult("datagram", unix.Sendto(names, []byte("out"), 0, at))
	printResult("datagram by message", unix.Sendmsg(names, []byte("out"), nil, at, 0))
}

func newTCP(family int) int {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		printResult("socket", err)
	}
	return fd
}

// firstLine sends a request and checks that golem answers.
func firstLine(fd int, err error) error {
	if err != nil {
		return err
	}
	unix.Write(fd, []byte("GET / HTTP/1.0\r\nHost: x.example\r\n\r\n"))
	b := make([]byte, 4096)
	n, err := unix.Read(fd, b)
	if err == nil && !strings.HasPrefix(string(b[:max(n, 0)]), "HTTP/1.0 200") {
		return fmt.Errorf("%q", b[:max(n, 0)])
	}
	return err
}

// sendMessages calls sendmmsg with one message to an address.
func sendMessages(fd int, to *unix.SockaddrInet4, flags int) error {
	name := unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: to.Addr}
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(&name.Port))[:], uint16(to.Port))
	text := []byte("out")
	part := unix.Iovec{Base: &text[0], Len: uint64(len(text))}
	m := struct {
		unix.Msghdr
		size uint32
	}{Msghdr: unix.Msghdr{Name: (*byte)(unsafe.Pointer(&name)), Namelen: unix.SizeofSockaddrInet4, Iov: &part, Iovlen: 1}}
	_, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&m)), 1, uintptr(flags|unix.MSG_NOSIGNAL), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// ownFilter installs a filter that allows everything.
func ownFilter(flags uintptr) error {
	program := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0x7fff0000}}
	prog := unix.SockFprog{Len: 1, Filter: &program[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, 1 /* SECCOMP_SET_MODE_FILTER */, flags, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return errno
	}
	return nil
}

// trySwap connects to an address while another thread changes it to a second one and
// back. It prints how many connections golem accepted.
func trySwap(args []string) {
	var raw [16]byte
	sockaddrs := make([][16]byte, 2)
	for i, text := range args {
		at := netip.MustParseAddrPort(text)
		binary.NativeEndian.PutUint16(sockaddrs[i][:], unix.AF_INET)
		binary.BigEndian.PutUint16(sockaddrs[i][2:], at.Port())
		a := at.Addr().As4()
		copy(sockaddrs[i][4:], a[:])
	}
	raw = sockaddrs[0]
	var done atomic.Bool
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for i := 0; !done.Load(); i++ {
			raw = sockaddrs[i%2]
		}
	})
	first, refused := 0, 0
	for range 500 {
		fd := newTCP(unix.AF_INET)
		_, _, errno := syscall.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&raw)), 16)
		if errno == 0 {
			first++
			unix.Write(fd, []byte("out"))
		} else {
			refused++
		}
		unix.Close(fd)
	}
	done.Store(true)
	swapping.Wait()
	fmt.Printf("%s %d, refused %d\n", strings.Split(args[0], ":")[0], first, refused)
}

// tryOpenMuch opens more sockets than golem keeps, and closes them. Later ones work.
func tryOpenMuch([]string) {
	opened := 0
	for range 5000 {
		fd := newTCP(unix.AF_INET)
		if fd >= 0 && unix.Close(fd) == nil {
			opened++
		}
	}
	fd := newTCP(unix.AF_INET)
	err := firstLine(fd, unix.Connect(fd, &unix.SockaddrInet4{Port: 80, Addr: [4]byte{203, 0, 113, 7}}))
	printResult(fmt.Sprintf("%d opened,", opened), err)
	os.Stdout.Sync()
}
