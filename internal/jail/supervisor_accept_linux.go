package jail

import (
	"errors"
	"net"
	"net/netip"
)

// A wanted is where the socket of a command wants to go, and the name of its program.
type wanted struct {
	to      netip.AddrPort
	program string
}

// isWanted reports whether a connection is one that golem made for a command. Other
// programs of the machine can connect to its listeners, too.
func (s *supervisor) isWanted(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.wanted[remote(c)]
	return ok
}

// destination returns where a command wants to go with a connection.
func (s *supervisor) destination(c net.Conn) (netip.AddrPort, error) {
	w, ok := s.accept(c)
	if !ok {
		return netip.AddrPort{}, errors.New("not a connection of a command")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.programs[remote(c)] = w.program
	return w.to, nil
}

// accept returns what a command wants with a connection, and forgets it: a later socket may
// have the same address.
func (s *supervisor) accept(c net.Conn) (wanted, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.wanted[remote(c)]
	delete(s.wanted, remote(c))
	return w, ok
}

// program names the program at the other end of a connection, after destination.
func (s *supervisor) program(c net.Conn) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer delete(s.programs, remote(c))
	return s.programs[remote(c)]
}

func remote(c net.Conn) netip.AddrPort {
	at, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(at.AddrPort().Addr().Unmap(), uint16(at.Port))
}

// A commandListener accepts only connections of commands.
type commandListener struct {
	net.Listener
	isWanted func(net.Conn) bool
}

func (l *commandListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil || l.isWanted(c) {
			return c, err
		}
		c.Close()
	}
}
