package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"strconv"
)

// Transport returns a transport for requests of golem itself. They pass the same steps as
// those of programs, and the errors say why golem refuses one. It follows no proxy
// variables: the network does.
func (n *Network) Transport() (*http.Transport, error) {
	roots := n.o.Roots
	if pem := n.o.Authority.PEM(); pem != nil {
		if roots == nil {
			var err error
			if roots, err = x509.SystemCertPool(); err != nil {
				return nil, err
			}
		}
		roots = roots.Clone()
		roots.AppendCertsFromPEM(pem)
	}
	return &http.Transport{
		DialContext:            n.dialOwn,
		TLSClientConfig:        &tls.Config{RootCAs: roots},
		DisableKeepAlives:      true, // the journal gets the end of the connection with that of the request
		ForceAttemptHTTP2:      true,
		MaxResponseHeaderBytes: maxHeader,
	}, nil
}

// dialOwn connects golem itself with a host.
func (n *Network) dialOwn(ctx context.Context, _, address string) (net.Conn, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, err
	}
	own, inside := net.Pipe()
	s := &stream{n: n, id: n.count.Add(1), tape: &tape{Conn: inside, recording: true, budget: &n.budget}, start: n.o.Now(), host: host, port: uint16(port)}
	if n.o.Program != nil {
		s.program = n.o.Program(inside)
	}
	if s.rules, s.decision, err = n.decide(ctx, s.host, s.port, s.program, nil); err != nil {
		s.refuse(err)
		return nil, err
	}
	if !n.keep(inside) {
		return nil, refusal("too many connections")
	}
	if !n.run(func() { defer n.release(inside); defer s.tape.release(); s.carry() }) {
		n.release(inside)
		return nil, net.ErrClosed
	}
	return &ownConn{own, s}, nil
}

// An ownConn is golem's end of a connection. Its errors say why golem refused it.
type ownConn struct {
	net.Conn
	s *stream
}

func (c *ownConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if why := c.s.refused.Load(); err != nil && why != nil {
		err = *why
	}
	return n, err
}

func (c *ownConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if why := c.s.refused.Load(); err != nil && why != nil {
		err = *why
	}
	return n, err
}
