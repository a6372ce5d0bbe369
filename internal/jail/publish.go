package jail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/golem-forge/golem/sandbox"
)

// A Port is a port of the host's loopback interface that leads to a port of the loopback
// interface in the jail.
type Port struct {
	Host   uint16 // on 127.0.0.1
	Inside uint16 // on 127.0.0.1 or ::1 in the jail
}

// ParsePort reads "3000", or "8080:3000" for port 3000 in the jail at port 8080 of the host.
func ParsePort(text string) (Port, error) {
	host, inside, both := strings.Cut(text, ":")
	if !both {
		inside = host
	}
	var p Port
	for _, one := range []struct {
		text string
		to   *uint16
	}{{host, &p.Host}, {inside, &p.Inside}} {
		n, err := strconv.ParseUint(one.text, 10, 16)
		if err != nil || n == 0 || strconv.FormatUint(n, 10) != one.text {
			return Port{}, errors.New(sandbox.Shown(text) + ": not a port; write PORT or HOSTPORT:PORT, with numbers from 1 to 65535")
		}
		*one.to = uint16(n)
	}
	return p, nil
}

// String returns where a person finds the port.
func (p Port) String() string {
	text := fmt.Sprintf("localhost:%d", p.Host)
	if p.Host != p.Inside {
		text += fmt.Sprintf(" (port %d inside)", p.Inside)
	}
	return text
}

// maxForwarded is the number of connections to published ports at once.
const maxForwarded = 512

// Ports publishes ports. Close closes them and their connections.
type Ports struct {
	mu        sync.Mutex
	published []publishedPort
	open      map[net.Conn]bool
	jails     []*Jail // the newest last; empty before the first command starts
	closed    bool
	work      sync.WaitGroup
}

type publishedPort struct {
	Port
	listener net.Listener
}

// Publish listens on a port of the host. Its connections wait for nothing: they end if no
// server answers in the jail.
func (p *Ports) Publish(ctx context.Context, port Port) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port.Host))))
	if err != nil {
		var cause *net.OpError
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return &sandbox.Error{Op: "publish", Path: strconv.Itoa(int(port.Host)), Code: sandbox.ErrInvalid,
			Hint: fmt.Sprintf("golem cannot listen there: %v; choose another port of the host, such as %d:%d", err, uint32(port.Host)%64535+1000, port.Inside)}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		l.Close()
		return net.ErrClosed
	}
	p.published = append(p.published, publishedPort{port, l})
	p.work.Go(func() { p.accept(l, port.Inside) })
	return nil
}

// ConnectTo makes the published ports lead to a jail, and to older ones if
// no server answers there. It reports whether they can: the commands of the jail must
// have a network of their own.
func (p *Ports) ConnectTo(s *Jail) bool {
	if !s.HasLoopback() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.jails = append(p.jails, s)
	return true
}

// List returns the published ports.
func (p *Ports) List() (list []Port) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.published {
		list = append(list, one.Port)
	}
	return list
}

// withdraw closes a port of the host. It reports whether it was published. Connections
// that are open stay open.
func (p *Ports) withdraw(host uint16) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.published, func(one publishedPort) bool { return one.Host == host })
	if i < 0 {
		return false
	}
	p.published[i].listener.Close()
	p.published = slices.Delete(p.published, i, i+1)
	return true
}

// Close closes all ports and connections.
func (p *Ports) Close() error {
	p.mu.Lock()
	p.closed = true
	for _, one := range p.published {
		one.listener.Close()
	}
	for c := range p.open {
		c.Close()
	}
	p.published = nil
	p.mu.Unlock()
	p.work.Wait()
	return nil
}

// accept forwards the connections of a listener.
func (p *Ports) accept(l net.Listener, inside uint16) {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // the other side is gone already, or golem has too many open files
			continue
		}
		if !p.keep(c) || !p.run(func() { defer p.release(c); p.forward(c, inside) }) {
			p.release(c)
		}
	}
}

// keep registers a connection. It returns false if too many are open.
func (p *Ports) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.open) >= maxForwarded {
		return false
	}
	if p.open == nil {
		p.open = make(map[net.Conn]bool)
	}
	p.open[c] = true
	return true
}

func (p *Ports) release(c net.Conn) {
	p.mu.Lock()
	delete(p.open, c)
	p.mu.Unlock()
	c.Close()
}

// run calls f in a goroutine that Close waits for. It returns false after Close.
func (p *Ports) run(f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.work.Go(f)
	}
	return !p.closed
}

// forward copies bytes both ways between a connection and a server in the jail.
func (p *Ports) forward(c net.Conn, inside uint16) {
	server := p.dial(inside)
	if server == nil {
		return // the client notices the end, as without a server
	}
	if !p.keep(server) {
		server.Close()
		return
	}
	defer p.release(server)
	var back sync.WaitGroup
	back.Go(func() { copyHalf(c, server) })
	copyHalf(server, c)
	back.Wait()
}

// dial connects to a server in the newest jail that has one. It returns
// nil if there is none, and forgets jails that have ended.
func (p *Ports) dial(inside uint16) net.Conn {
	p.mu.Lock()
	jails := slices.Clone(p.jails)
	p.mu.Unlock()
	for _, s := range slices.Backward(jails) {
		server, err := s.DialLoopback(inside)
		if err == nil {
			return server
		}
		if s.Ended() {
			p.mu.Lock()
			p.jails = slices.DeleteFunc(p.jails, func(one *Jail) bool { return one == s })
			p.mu.Unlock()
		}
	}
	return nil
}

// copyHalf copies one direction and passes on its end. After an error it ends both.
func copyHalf(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		half.CloseWrite()
		return
	}
	to.Close()
	from.Close()
}
