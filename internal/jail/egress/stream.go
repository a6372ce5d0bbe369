package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
)

// helloTime is how long a program may take for its first bytes.
const helloTime = time.Minute

// A stream is one connection of a program.
type stream struct {
	n     *Network
	id    uint64
	tape  *tape // the program's side
	host  string
	port  uint16
	rules []policy.HostRule
	ended bool // golem ends TLS
	web   bool // the HTTP server has the connection
	load  *load
	// opened is set when golem records that the connection passes. It does not do so for
	// each of many connections.
	opened bool
	// detached is set before golem closes the server's side and keeps the program's.
	detached atomic.Bool
	refused  atomic.Pointer[error] // why golem refused the connection

	program, decision string
	passed            passed
	start             time.Time
	sent, received    atomic.Int64
	requests          atomic.Int64
}

// Serve serves connections until the listener or the network is closed. The destination
// of a connection is the address and port that the program connected to.
func (n *Network) Serve(l net.Listener, destination func(net.Conn) (netip.AddrPort, error)) error {
	return n.accept(l, func(c net.Conn) { n.serve(c, destination) })
}

func (n *Network) serve(c net.Conn, destination func(net.Conn) (netip.AddrPort, error)) {
	s := &stream{n: n, id: n.count.Add(1), tape: &tape{Conn: c, recording: true, budget: &n.budget}, start: n.o.Now()}
	defer s.tape.release()
	to, err := destination(c)
	if err != nil {
		s.refuse(err)
		return
	}
	if n.o.Program != nil {
		s.program = n.o.Program(c)
	}
	s.port = to.Port()
	if s.host, err = n.hostAt(to.Addr().Unmap()); err == nil {
		s.rules, s.decision, err = n.decide(n.ctx, s.host, s.port, s.program, s.tape.watch)
	}
	if err != nil {
		s.refuse(err)
		return
	}
	s.carry()
}

// carry records a connection that golem allows, passes it, and records its end.
func (s *stream) carry() {
	n := s.n
	if s.opened = n.tally.begin(s.record(Opened)); s.opened {
		if err := n.o.Record(s.record(Opened)); err != nil {
			s.refuse(fmt.Errorf("golem cannot record the connection: %w", err))
			return
		}
	}
	if err := s.pass(n.ctx); err != nil {
		s.refuse(err)
		return
	}
	closed := s.record(Closed)
	switch {
	case closed.Requests > 0:
	case s.ended:
		closed.Why = "no request came: the program may not trust the session's authority"
	case s.web && closed.Sent > 0:
		closed.Why = "no HTTP request came; golem passes other protocols only at a port that the list names, other than 80 and 443"
	}
	if !s.opened {
		n.tally.skip(closed)
		return
	}
	n.o.Record(n.tally.end(closed))
}

// hostAt returns the name that an address stands in for, or else the address as text.
func (n *Network) hostAt(a netip.Addr) (string, error) {
	if name, ok := n.names.name(a); ok {
		return name, nil
	}
	if standInRange.Contains(a) {
		return a.String(), refusal(a.String() + " stands in for no name: the program did not look one up")
	}
	return a.String(), nil
}

// decide returns the rules for a host and a port, and what allows them. Watch watches the
// connection while a question about it is open; it may be nil.
func (n *Network) decide(ctx context.Context, host string, port uint16, program string, watch func() (gone <-chan struct{}, stop func())) ([]policy.HostRule, string, error) {
	rules := n.o.Hosts.Find(host, port)
	asks := len(rules) == 0 || n.o.Tainted != nil && n.o.Tainted() && slices.ContainsFunc(rules, policy.HostRule.CanWrite)
	if !asks {
		return rules, "list: " + rules[0].String(), nil
	}
	if n.o.Ask == nil && len(rules) > 0 {
		return nil, "", refusal("the session has read untrusted content, and nobody can be asked about " + host)
	}
	if n.o.Denied != nil && len(rules) == 0 {
		if err := n.o.Denied(host, port); err != nil {
			n.o.Missed(host, port)
			return nil, "", refusal(err.Error())
		}
	}
	if _, err := netip.ParseAddr(host); len(rules) == 0 && (err == nil || !n.o.asksUnlisted()) {
		at := net.JoinHostPort(host, strconv.Itoa(int(port)))
		n.o.Missed(host, port)
		return nil, "", refusal(at + " is not on the list of hosts; to allow it, use --net +" + at)
	}
	if len(rules) == 0 && slices.Contains(n.o.Optional, host) {
		return nil, "", refusal("the agent does not need " + host + "; to allow it, use --net +" + host)
	}
	if len(rules) == 0 && port == 22 && slices.ContainsFunc(n.o.Hosts.Find(host, 443), func(r policy.HostRule) bool { return r.GitRead }) {
		return nil, "", refusal("git reads " + host + " over HTTPS, and has no key for ssh here; to allow it, use --net +" + host + ":22")
	}
	decision, err := n.ask(ctx, Question{Host: host, Ports: askedPorts(port), Program: program, Listed: len(rules) > 0}, watch)
	if err == nil && len(rules) == 0 {
		rules = []policy.HostRule{{Host: host, Ports: askedPorts(port)}}
	}
	return rules, decision, err
}

// asksUnlisted reports whether golem asks about hosts that are not listed.
func (o Options) asksUnlisted() bool { return o.Ask != nil && !o.ListedOnly }

// isWeb reports whether a port is for HTTP and TLS only.
func isWeb(port uint16) bool { return port == 80 || port == 443 }

// needsRequests reports whether golem must read the requests of the stream.
func (s *stream) needsRequests() bool {
	return slices.ContainsFunc(s.rules, policy.HostRule.NeedsRequests)
}

// refuse resets the connection, so that the program notices at once, and records why.
func (s *stream) refuse(err error) {
	type lingerer interface{ SetLinger(int) error }
	if c, ok := s.tape.Conn.(lingerer); ok {
		c.SetLinger(0)
	}
	s.refused.Store(&err)
	s.tape.Close()
	r := s.record(Refused)
	if r.Why = err.Error(); errors.Is(err, context.Canceled) {
		r.Why = "the network was closed"
	}
	if s.opened {
		s.n.o.Record(r) // the end of a connection that was recorded as open
		return
	}
	s.n.report(r)
}

func (s *stream) record(step Step) Event {
	now := s.n.o.Now()
	return Event{
		ID: s.id, Step: step, Time: now, Host: s.host, Port: s.port, Program: s.program, Decision: s.decision, Ended: s.ended,
		Sent: s.sent.Load(), Received: s.received.Load(), Duration: now.Sub(s.start), Requests: s.requests.Load(),
		Tainted: s.n.o.Tainted != nil && s.n.o.Tainted(), Read: s.web, Passed: s.passed.all(),
	}
}
