package egress

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"
)

// pass checks what the program sends first and connects it with the host. It returns when
// the connection has ended, or an error if golem refuses it.
func (s *stream) pass(ctx context.Context) error {
	if !isWeb(s.port) && !s.needsRequests() {
		return s.passAny(ctx)
	}
	s.tape.SetReadDeadline(s.n.o.Now().Add(helloTime))
	first, err := s.tape.peek()
	if err != nil {
		return s.whyNoBytes(err)
	}
	if first == tlsHandshake {
		if err := s.checkHello(ctx); err != nil {
			return err
		}
		if s.needsRequests() {
			return s.endTLS(ctx)
		}
		server, err := s.n.dialHost(ctx, s.host, s.port)
		if err != nil {
			return err
		}
		return s.relay(server)
	}
	return s.serveWeb(ctx, nil)
}

// whyNoBytes returns why a program sent nothing. A program that leaves without a byte is
// not refused.
func (s *stream) whyNoBytes(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return refusal("the program sent nothing; at ports 80 and 443 the program must speak first")
	}
	return err
}

// checkHello checks that the TLS server name is the host. Clients send no name for an
// address.
func (s *stream) checkHello(ctx context.Context) error {
	s.tape.SetReadDeadline(s.n.o.Now().Add(helloTime))
	name, err := s.tape.readHello(ctx)
	if err != nil {
		return err
	}
	want := s.host
	if _, err := netip.ParseAddr(want); err == nil {
		want = ""
	}
	switch {
	case name == want, name == "localhost" && isLoopback(s.host):
		return nil
	case name == "":
		return refusal("the TLS hello names no server; it must name " + s.host)
	}
	return refusal("the TLS hello names " + name + ", but the program looked up " + s.host)
}

// passAny connects a program with a host at a port other than 80 and 443. The server may
// speak first. If the program speaks TLS or HTTP, it is checked like any other.
func (s *stream) passAny(ctx context.Context) error {
	server, err := s.n.dialHost(ctx, s.host, s.port)
	if err != nil {
		return err
	}
	defer s.n.release(server)
	// The server's first bytes pass while golem waits for the program's.
	var early sync.WaitGroup
	s.tape.SetReadDeadline(time.Time{})
	early.Go(func() { s.copyBack(server) })
	defer early.Wait()
	kind, err := s.tape.sniff()
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		server.Close()
		return nil // the program or the server is gone
	case kind == speaksTLS:
		err = s.checkHello(ctx)
	case kind == speaksHTTP:
		// Every request is read and sent again, over another connection.
		s.detached.Store(true)
		server.Close()
		early.Wait()
		if s.received.Load() > 0 {
			return refusal("the server spoke before the HTTP request")
		}
		return s.serveWeb(ctx, nil)
	default:
		err = nil
	}
	if err != nil {
		s.detached.Store(true)
		server.Close()
		return err
	}
	s.copyOut(server)
	return nil
}

// Kinds of protocols.
type protocol int

const (
	speaksOther protocol = iota
	speaksTLS
	speaksHTTP
)

// sniff tells TLS and HTTP from other protocols. A first line of text that mentions HTTP
// counts as HTTP, so that no line that a lenient server accepts goes unchecked.
func (t *tape) sniff() (protocol, error) {
	defer t.rewind()
	const longest = 8 << 10
	var b [4096]byte
	for {
		_, err := t.Read(b[:])
		switch line, _, complete := bytes.Cut(bytes.TrimLeft(t.bytes, "\r\n"), []byte("\n")); {
		case len(t.bytes) > 0 && t.bytes[0] == tlsHandshake:
			return speaksTLS, nil
		case bytes.Contains(bytes.ToUpper(line), []byte("HTTP/")):
			return speaksHTTP, nil
		case complete || err != nil || len(t.bytes) > longest || bytes.ContainsFunc(line, isBinary):
			return speaksOther, err
		}
	}
}

func isBinary(r rune) bool { return r < ' ' && r != '\r' && r != '\t' || r >= 0x7f }

// relay copies bytes both ways until both sides have ended, and closes the server's side.
func (s *stream) relay(server net.Conn) error {
	defer s.n.release(server)
	var back sync.WaitGroup
	back.Go(func() { s.copyBack(server) })
	s.copyOut(server)
	back.Wait()
	return nil
}

// copyOut sends what was read so far, and then the rest. The kernel copies the rest if
// both sides are TCP.
func (s *stream) copyOut(server net.Conn) {
	s.tape.SetReadDeadline(time.Time{})
	s.tape.play()
	n, err := server.Write(s.tape.bytes)
	s.sent.Add(int64(n))
	if err == nil {
		s.tape.bytes = nil
		var more int64
		more, err = io.Copy(server, s.tape.Conn)
		s.sent.Add(more)
	}
	endHalf(server, s.tape.Conn, err)
}

// copyBack sends the server's bytes to the program.
func (s *stream) copyBack(server net.Conn) {
	n, err := io.Copy(s.tape.Conn, server)
	s.received.Add(n)
	if !s.detached.Load() {
		endHalf(s.tape.Conn, server, err)
	}
}

// endHalf passes on the end of a direction. After an error it ends both.
func endHalf(to, from net.Conn, err error) {
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		half.CloseWrite()
		return
	}
	to.Close()
	from.Close()
}
