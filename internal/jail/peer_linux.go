package jail

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// peers finds the programs that make connections in a network. The kernel tells the
// inode of a program's socket, and /proc which process has it open.
type peers struct {
	holder int // the process whose descendants have the network

	mu     sync.Mutex
	socket *os.File // asks the kernel about sockets of the network

	last atomic.Int64 // the process that connected last
}

// Limits for networks with many processes and files. Beyond them a program has no name.
const (
	maxProcesses   = 1024
	maxDescriptors = 16 << 10
)

// newPeerSocket returns a socket for questions about the sockets of the calling thread's
// network.
func newPeerSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return -1, err
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// program returns the name and the process of the program that made a connection, "" if
// golem cannot tell. The process is the host's number of it.
func (p *peers) program(from, to netip.AddrPort) string {
	inode, err := p.inode(from, to)
	if err != nil || inode == 0 {
		return ""
	}
	switch list := p.owners("socket:[" + strconv.FormatUint(uint64(inode), 10) + "]"); len(list) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("%s (pid %d)", programName(list[0]), list[0])
	default:
		return fmt.Sprintf("one of %d programs that hide their files", len(list))
	}
}

// inode returns the inode of the socket with these addresses. A program has closed its
// socket if it is 0.
func (p *peers) inode(from, to netip.AddrPort) (uint32, error) {
	const (
		byFamily  = 20 // SOCK_DIAG_BY_FAMILY
		allStates = 1<<32 - 1
		head      = unix.SizeofNlMsghdr
		inodeAt   = head + 4 + 48 + 16 // in struct inet_diag_msg
	)
	source, destination := from.Addr().Unmap(), to.Addr().Unmap()
	if !source.Is4() || !destination.Is4() {
		return 0, errors.New("not an IPv4 connection")
	}
	// struct inet_diag_req_v2, with the addresses as the program's socket has them
	question := []byte{unix.AF_INET, unix.IPPROTO_TCP, 0, 0}
	question = binary.NativeEndian.AppendUint32(question, allStates)
	question = binary.BigEndian.AppendUint16(question, from.Port())
	question = binary.BigEndian.AppendUint16(question, to.Port())
	question = append(append(question, source.AsSlice()...), make([]byte, 12)...)
	question = append(append(question, destination.AsSlice()...), make([]byte, 12)...)
	question = append(question, 0, 0, 0, 0)                                     // any interface
	question = append(question, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff) // no cookie
	message := binary.NativeEndian.AppendUint32(nil, uint32(head+len(question)))
	message = binary.NativeEndian.AppendUint16(message, byFamily)
	message = binary.NativeEndian.AppendUint16(message, unix.NLM_F_REQUEST)
	message = append(message, make([]byte, 8)...) // sequence number and sender
	message = append(message, question...)

	p.mu.Lock()
	defer p.mu.Unlock()
	if p.socket == nil {
		return 0, os.ErrClosed
	}
	fd := int(p.socket.Fd())
	if err := unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	switch {
	case err != nil:
		return 0, err
	case n < inodeAt+4 || binary.NativeEndian.Uint16(answer[4:]) != byFamily:
		return 0, errors.New("no such socket")
	}
	return binary.NativeEndian.Uint32(answer[inodeAt:]), nil
}

// owners returns the process that has a socket open. If none shows it, owners returns the
// processes that hide their files from the user (PR_SET_DUMPABLE).
func (p *peers) owners(socket string) (hidden []int) {
	descriptors := maxDescriptors
	if last := int(p.last.Load()); last != 0 {
		if has, _ := hasOpen(last, socket, &descriptors); has {
			return []int{last}
		}
	}
	self, _ := os.Stat("/proc/self/exe")
	found := []int{p.holder}
	for i := 0; i < len(found) && len(found) < maxProcesses; i++ {
		pid := found[i]
		found = append(found, childrenOf(pid)...)
		switch has, err := hasOpen(pid, socket, &descriptors); {
		case has:
			p.last.Store(int64(pid))
			return []int{pid}
		case errors.Is(err, fs.ErrPermission):
			if other, err := os.Stat(fmt.Sprintf("/proc/%d/exe", pid)); err != nil || !os.SameFile(self, other) { // no part of golem
				hidden = append(hidden, pid)
			}
		}
	}
	return hidden
}

// hasOpen reports whether a process has a file open that /proc shows with this name. It
// looks at as many files as are left.
func hasOpen(pid int, name string, left *int) (bool, error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	d, err := os.Open(dir)
	if err != nil {
		return false, err
	}
	defer d.Close()
	var buffer [64]byte
	for *left > 0 {
		names, err := d.Readdirnames(256)
		for _, fd := range names {
			*left--
			if n, err := unix.Readlink(dir+"/"+fd, buffer[:]); err == nil && string(buffer[:n]) == name {
				return true, nil
			}
		}
		if err != nil {
			return false, nil // the end
		}
	}
	return false, nil
}

// childrenOf returns the children of a process, of all its threads.
func childrenOf(pid int) (list []int) {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, t := range tasks {
		data, _ := os.ReadFile(dir + "/" + t.Name() + "/children")
		for _, word := range bytes.Fields(data) {
			if child, err := strconv.Atoi(string(word)); err == nil {
				list = append(list, child)
			}
		}
	}
	return list
}

// programName returns the name of the file that a process executes. A program can set any
// other name of its process.
func programName(pid int) string {
	name, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return "a program"
	}
	name = path.Base(strings.TrimSuffix(name, " (deleted)"))
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` || strings.ContainsAny(name, " ()") {
		return quoted
	}
	return name
}

// threadProgram names the program and the process of a thread.
func threadProgram(thread int) string {
	pid := thread
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", thread))
	if _, rest, ok := bytes.Cut(data, []byte("\nTgid:")); ok {
		line, _, _ := bytes.Cut(rest, []byte("\n"))
		if n, err := strconv.Atoi(string(bytes.TrimSpace(line))); err == nil {
			pid = n
		}
	}
	return fmt.Sprintf("%s (pid %d)", programName(pid), pid)
}

// close closes the socket.
func (p *peers) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.socket != nil {
		p.socket.Close()
		p.socket = nil
	}
}

// program names the program at the other end of a connection that arrived at one of
// o.connections, "" if golem cannot tell.
func (o *outlet) program(c net.Conn) string {
	from, ok := c.RemoteAddr().(*net.TCPAddr)
	to, err := o.destination(c)
	if !ok || err != nil {
		return ""
	}
	return o.peers.program(from.AddrPort(), to)
}
