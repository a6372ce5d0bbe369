package jail

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// dialTime is how many seconds a server of a command may take to accept a connection.
const dialTime = 5

// HasLoopback reports whether the commands of the jail have a loopback interface of
// their own that this process can reach. At the level container, without a network, only
// runsc's kernel has it.
func (s *Jail) HasLoopback() bool {
	return !s.policy.Network && (s.level == Namespaces || s.plan.Networked)
}

// DialLoopback connects to a port on the loopback interface of the jail's commands: to
// 127.0.0.1, or else to ::1. The holder makes the socket in the network of the commands,
// which this process cannot enter.
func (s *Jail) DialLoopback(port uint16) (net.Conn, error) {
	if !s.HasLoopback() {
		return nil, errors.New("the commands have no network of their own")
	}
	a := ask{Dial: true}
	a.Loopback, a.Isolated = s.networkName()
	s.holder.asking.Lock()
	err := s.holder.send(a)
	var r report
	var files []int
	if err == nil {
		files, err = s.holder.receive(&r)
	}
	s.holder.asking.Unlock()
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrEnded, err)
	case r.Error != "":
		return nil, errors.New(r.Error)
	}
	defer closeAll(files)
	err = errors.New("the network of the commands has no sockets")
	for i, fd := range files {
		var to unix.Sockaddr = &unix.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}}
		if i > 0 {
			to = &unix.SockaddrInet6{Port: int(port), Addr: [16]byte{15: 1}}
		}
		for err = unix.EINTR; err == unix.EINTR; {
			err = unix.Connect(fd, to)
		}
		if err == nil {
			return connectionOf(fd)
		}
	}
	return nil, fmt.Errorf("port %d: %w", port, err)
}

// connectionOf returns the connection of a socket, which it copies.
func connectionOf(fd int) (net.Conn, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	unix.SetsockoptTimeval(own, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{})
	f := os.NewFile(uintptr(own), "loopback")
	defer f.Close()
	return net.FileConn(f)
}

// sockets makes a socket for 127.0.0.1, and one for ::1 if there is IPv6, in the network
// of a name.
func (n *networks) sockets(a ask) (files []int, r report) {
	open := func() error {
		for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
			fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err == nil {
				err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: dialTime})
				files = append(files, fd)
			}
			if err != nil && family == unix.AF_INET {
				return err
			}
		}
		return nil
	}
	in, ok := n.more[a.Loopback]
	var err error
	switch {
	case ok:
		err = in.do(open)
	case a.Isolated && n.first != nil && *n.first == a.Loopback:
		err = open()
	default:
		err = errors.New("no command has run yet")
	}
	if err != nil {
		closeAll(files)
		return nil, report{Error: err.Error()}
	}
	return files, report{}
}
