package jail

import (
	"encoding/binary"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Constants of the kernel's sock_diag interface that the package unix lacks.
const (
	showUnix = 0x4 | 0x10 | 0x20 // UDIAG_SHOW_PEER, UDIAG_SHOW_RQLEN, UDIAG_SHOW_MEMINFO
	showInet = 1 << (inetMemory - 1)

	unixPeer, unixQueue, unixMemory, inetMemory = 2, 4, 5, 7 // attributes

	unixHead, inetHead = 16, 72 // sizes of the fixed parts of an answer

	listening = 10 // TCP_LISTEN, also for Unix sockets
)

// maxDatagrams is about how many senders can have filled the queue of a datagram socket.
const maxDatagrams = 10

// openSockets opens the list of sockets in the network namespace of the calling thread.
func openSockets() (int, error) {
	return unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
}

// socketBuffers returns about how many bytes the sockets of this network namespace hold. They
// belong to the kernel and not to a process. If isOwn is not nil, only the sockets count for
// whose inodes it returns true.
func socketBuffers(isOwn func(inode uint32) bool) int64 {
	fd, err := openSockets()
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	return buffersIn(fd, isOwn)
}

// buffersIn does so for a list of sockets.
func buffersIn(fd int, isOwn func(inode uint32) bool) (sum int64) {
	const unixInode, inetInode = 4, inetHead - 4 // where an answer has the inode
	counts := func(answer []byte, at int) bool {
		return isOwn == nil || len(answer) >= at+4 && isOwn(binary.NativeEndian.Uint32(answer[at:]))
	}
	request := make([]byte, 24)
	request[0] = unix.AF_UNIX
	binary.NativeEndian.PutUint32(request[4:], ^uint32(0)) // all states
	binary.NativeEndian.PutUint32(request[12:], showUnix)
	askSockets(fd, request, func(answer []byte) {
		if counts(answer, unixInode) {
			sum += unixBuffers(answer)
		}
	})
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		for _, protocol := range []byte{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
			request := make([]byte, 56)
			request[0], request[1], request[2] = family, protocol, showInet
			binary.NativeEndian.PutUint32(request[4:], ^uint32(0))
			askSockets(fd, request, func(answer []byte) {
				if counts(answer, inetInode) {
					sum += inetBuffers(answer)
				}
			})
		}
	}
	return sum
}

// A socketCount counts the bytes in the sockets of processes in the network of the host, which
// has other sockets, too.
type socketCount struct {
	first int // process
	sum   int64
	skip  int // how many of the next checks use this sum
}

// maxListed is how many sockets golem looks at for each check on average.
const maxListed = 2000

// of returns the bytes in the sockets of processes. The more sockets there are, the more often
// it returns the last count.
func (c *socketCount) of(pids []int) int64 {
	if len(pids) == 0 {
		return 0
	}
	if pids[0] == c.first && c.skip > 0 {
		c.skip--
		return c.sum
	}
	own := socketsOf(pids)
	c.first, c.sum, c.skip = pids[0], 0, len(own)/maxListed
	if len(own) > 0 {
		listed := 0
		c.sum = socketBuffers(func(inode uint32) bool { listed++; return own[inode] })
		c.skip += listed / maxListed
	}
	return c.sum
}

// socketsOf returns the inodes of the sockets that processes have open.
func socketsOf(pids []int) map[uint32]bool {
	own := make(map[uint32]bool)
	for _, pid := range pids {
		dir := "/proc/" + strconv.Itoa(pid) + "/fd"
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			name, _ := os.Readlink(dir + "/" + e.Name())
			inode, isSocket := strings.CutPrefix(strings.TrimSuffix(name, "]"), "socket:[")
			if n, err := strconv.ParseUint(inode, 10, 32); isSocket && err == nil {
				own[uint32(n)] = true
			}
		}
	}
	return own
}

// askSockets calls each with every answer to a request.
func askSockets(fd int, request []byte, each func(answer []byte)) {
	head := make([]byte, unix.SizeofNlMsghdr)
	binary.NativeEndian.PutUint32(head, uint32(len(head)+len(request)))
	binary.NativeEndian.PutUint16(head[4:], unix.SOCK_DIAG_BY_FAMILY)
	binary.NativeEndian.PutUint16(head[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	if unix.Sendto(fd, append(head, request...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}) != nil {
		return
	}
	buffer := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buffer, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return
		}
		for rest := buffer[:n]; len(rest) >= unix.SizeofNlMsghdr; {
			size := int(binary.NativeEndian.Uint32(rest))
			if size < unix.SizeofNlMsghdr || size > len(rest) {
				return
			}
			switch binary.NativeEndian.Uint16(rest[4:]) {
			case unix.NLMSG_DONE, unix.NLMSG_ERROR:
				return
			case unix.SOCK_DIAG_BY_FAMILY:
				each(rest[unix.SizeofNlMsghdr:size])
			}
			rest = rest[min((size+3)&^3, len(rest)):]
		}
	}
}

// unixBuffers returns the bytes that a Unix socket holds. The kernel counts them at the
// sender. If the sender is closed, it tells only that something is in the queue of the
// receiver. The count is then the most that the sender could have sent.
func unixBuffers(answer []byte) int64 {
	if len(answer) < unixHead {
		return 0
	}
	kind, state := answer[1], answer[2]
	attributes := socketAttributes(answer[unixHead:])
	memory := attributes[unixMemory]
	if len(memory) < 6*4 {
		return 0
	}
	sum, room := wordAt(memory, 2), wordAt(memory, 3)
	queue, peer := attributes[unixQueue], attributes[unixPeer]
	if state == listening || len(queue) < 4 || wordAt(queue, 0) == 0 {
		return sum
	}
	switch {
	case kind == unix.SOCK_DGRAM:
		sum += maxDatagrams * room
	case len(peer) < 4 || wordAt(peer, 0) == 0:
		sum += max(room, wordAt(queue, 0))
	}
	return sum
}

// inetBuffers returns the bytes that a TCP or UDP socket holds.
func inetBuffers(answer []byte) int64 {
	if len(answer) < inetHead {
		return 0
	}
	memory := socketAttributes(answer[inetHead:])[inetMemory]
	if len(memory) < 8*4 {
		return 0
	}
	return wordAt(memory, 0) + max(wordAt(memory, 2), wordAt(memory, 5)) + wordAt(memory, 7)
}

// socketAttributes returns the attributes of an answer by their numbers.
func socketAttributes(rest []byte) map[uint16][]byte {
	all := make(map[uint16][]byte)
	for len(rest) >= 4 {
		size := int(binary.NativeEndian.Uint16(rest))
		if size < 4 || size > len(rest) {
			break
		}
		all[binary.NativeEndian.Uint16(rest[2:])] = rest[4:size]
		rest = rest[min((size+3)&^3, len(rest)):]
	}
	return all
}

// wordAt returns a number of 32 bits.
func wordAt(list []byte, i int) int64 { return int64(binary.NativeEndian.Uint32(list[4*i:])) }
