package egress

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/golem-forge/golem/internal/decide/policy"
)

const (
	maxQuestion = 4096             // bytes of a question
	standInTTL  = 60               // seconds
	dnsIdle     = 10 * time.Second // for TCP
)

// ServeDNS answers questions by UDP until the connection or the network is closed.
func (n *Network) ServeDNS(c net.PacketConn) error {
	if !n.keep(c) {
		return net.ErrClosed
	}
	defer n.release(c)
	b := make([]byte, maxQuestion)
	for {
		size, from, err := c.ReadFrom(b)
		switch {
		case n.ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			continue // an ICMP error of an earlier answer
		}
		if answer := n.answer(b[:size]); answer != nil {
			c.WriteTo(answer, from)
		}
	}
}

// ServeDNSStreams answers questions by TCP until the listener or the network is closed.
func (n *Network) ServeDNSStreams(l net.Listener) error {
	return n.accept(l, func(c net.Conn) {
		for {
			c.SetDeadline(n.o.Now().Add(dnsIdle))
			var size uint16
			if binary.Read(c, binary.BigEndian, &size) != nil || size > maxQuestion {
				return
			}
			b := make([]byte, size)
			if _, err := io.ReadFull(c, b); err != nil {
				return
			}
			answer := n.answer(b)
			if answer == nil {
				return
			}
			if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
				return
			}
		}
	})
}

// answer returns the answer to a question, nil if it deserves none. An answer has at most
// one address, so it always fits into the 512 bytes that UDP allows.
func (n *Network) answer(question []byte) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(question)
	if err != nil || h.Response {
		return nil
	}
	reply := dnsmessage.Message{Header: dnsmessage.Header{
		ID: h.ID, Response: true, OpCode: h.OpCode, RecursionDesired: h.RecursionDesired, RecursionAvailable: true,
	}}
	if h.OpCode != 0 {
		reply.RCode = dnsmessage.RCodeNotImplemented
		return pack(reply)
	}
	all, err := p.AllQuestions()
	if err != nil || len(all) != 1 {
		reply.RCode = dnsmessage.RCodeFormatError
		return pack(reply)
	}
	reply.Questions = all
	q := all[0]
	name, ok := plainName(q.Name.String())
	switch {
	case !ok:
		reply.RCode = dnsmessage.RCodeFormatError
	case q.Class != dnsmessage.ClassINET:
		reply.RCode = dnsmessage.RCodeRefused
	default:
		n.lookUp(&reply, q, name)
	}
	return pack(reply)
}

// lookUp adds the stand-in of a name to a reply, or says that there is none.
func (n *Network) lookUp(reply *dnsmessage.Message, q dnsmessage.Question, name string) {
	listed := n.o.Hosts.Allows(name)
	if !listed && !n.o.asksUnlisted() || !canBeHost(name) {
		reply.RCode = dnsmessage.RCodeNameError
		n.refuseName(name, q.Type)
		return
	}
	a, ok := n.names.find(name, listed)
	if !ok {
		reply.RCode = dnsmessage.RCodeServerFailure
		return
	}
	if q.Type == dnsmessage.TypeA {
		reply.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: standInTTL},
			Body:   &dnsmessage.AResource{A: a.As4()},
		}}
	}
}

// maxRefused is how many refused names golem records.
const maxRefused = 1000

// refuseName records that a program looked up a name that it may not reach, once for each
// name. A program that looks up both kinds of addresses has asked once.
func (n *Network) refuseName(name string, kind dnsmessage.Type) {
	if kind != dnsmessage.TypeAAAA {
		n.o.Missed(name, 0)
	}
	n.mu.Lock()
	known := n.refused[name] || len(n.refused) >= maxRefused
	if !known {
		n.refused[name] = true
	}
	n.mu.Unlock()
	if !known {
		why := name + " is not on the list of hosts"
		if n.o.Hosts.IsEmpty() {
			why = "the network is off"
		}
		n.o.Record(Event{Step: Refused, ID: n.count.Add(1), Time: n.o.Now(), Host: name, Why: why + "; to allow it, use --net +" + name})
	}
}

// canBeHost reports whether a program may mean a host by a name. Some programs read a
// name that ends in a number as an address.
func canBeHost(name string) bool {
	_, err := netip.ParseAddr(name)
	return err != nil && policy.IsHost(name)
}

// pack returns nil if a message cannot be written, which means that its name is odd.
func pack(m dnsmessage.Message) []byte {
	b, err := m.Pack()
	if err != nil {
		return nil
	}
	return b
}

// plainName returns a name in lower case and without the last dot. It returns false if a
// label has another character than a letter, a digit, a hyphen or an underscore, or is too
// long.
func plainName(text string) (string, bool) {
	name := strings.TrimSuffix(text, ".")
	if len(name) == 0 || len(name) > 253 {
		return "", false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 {
			return "", false
		}
		for i := range len(label) {
			switch c := label[i]; {
			case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
			default:
				return "", false
			}
		}
	}
	return strings.ToLower(name), true
}
