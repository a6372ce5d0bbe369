package mcp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/sandbox"
)

// The limits for HTTP clients.
const (
	maxConnections = 128
	maxHeader      = 16 << 10
	headerTime     = 5 * time.Second
	bodyTime       = 30 * time.Second
	idleTime       = 2 * time.Minute
	sessionTime    = time.Hour // until a silent client loses its session
	maxSessions    = 1024
)

// networkReason returns the reason in a network error, without the operation and the address.
func networkReason(err error) error {
	var call *os.SyscallError
	var address *net.AddrError
	switch {
	case errors.As(err, &call):
		return call.Err
	case errors.As(err, &address):
		return errors.New(address.Err)
	}
	return err
}

// endpoint is the only path.
const endpoint = "/mcp"

// listen serves all clients that reach the address and hold the token.
func (s *server) listen(address string, l program.HTTPOptions) error {
	var encrypted *tls.Config
	if l.Cert != "" {
		pair, err := tls.LoadX509KeyPair(l.Cert, l.Key)
		if err != nil {
			return &sandbox.Error{Op: "--cert", Path: l.Cert, Code: sandbox.ErrInvalid, Hint: err.Error() + "; name a certificate and its key, as PEM files"}
		}
		encrypted = &tls.Config{Certificates: []tls.Certificate{pair}}
	}
	socket, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("--http %s: %w; name a port that is free, or 0 for any", sandbox.Shown(l.Address), networkReason(err))
	}
	d := newHTTPGuard(l, socket.Addr())
	d.next = s.handler()
	h := &http.Server{
		Handler: d, TLSConfig: encrypted, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		TLSNextProto: make(map[string]func(*http.Server, *tls.Conn, http.Handler)), // HTTP/1.1 only
		ErrorLog:     slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),      // do not log the errors of strangers
		BaseContext:  func(net.Listener) context.Context { return s.ctx },
	}
	fmt.Fprintf(s.options.Errs, "golem: listening at %s\n", d.url)
	if l.Token == "" {
		fmt.Fprintf(s.options.Errs, "golem: clients send the header Authorization: Bearer %s\n", d.token)
	}
	ended := make(chan error, 1)
	go func() {
		socket := &limitedListener{Listener: socket, free: make(chan struct{}, maxConnections)}
		if encrypted != nil {
			ended <- h.ServeTLS(socket, "", "")
			return
		}
		ended <- h.Serve(socket)
	}()
	select {
	case err := <-ended:
		return err
	case <-s.ctx.Done():
	}
	h.Close()
	<-ended
	return nil
}

// handler returns the handler for both forms of the protocol. The older form has
// sessions. The form since multiRound has none.
func (s *server) handler() http.Handler {
	server := func(*http.Request) *mcp.Server { return s.sdk }
	// The httpGuard checks host names, so the library's own check is off.
	o := mcp.StreamableHTTPOptions{SessionTimeout: sessionTime, MaxRequestBodyBytes: maxMessage, DisableLocalhostProtection: true}
	sessions := mcp.NewStreamableHTTPHandler(server, &o)
	o.Stateless, o.PropagateRequestCancellation = true, true
	single := mcp.NewStreamableHTTPHandler(server, &o)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session := r.Header.Get("Mcp-Session-Id")
		switch {
		case r.Header.Get("Mcp-Protocol-Version") >= multiRound:
			single.ServeHTTP(w, r)
			return
		case r.Method == http.MethodDelete:
			s.endCalls(session) // the library waits for them
		case session == "" && r.Method == http.MethodPost && s.isFull():
			http.Error(w, fmt.Sprintf("%d sessions are open, and no more are begun; DELETE ends one, and so does %v in which its client says nothing", maxSessions, sessionTime), http.StatusServiceUnavailable)
			return
		}
		sessions.ServeHTTP(w, r)
	})
}

// isFull reports whether the number of sessions has reached maxSessions.
func (s *server) isFull() bool {
	n := 0
	for range s.sdk.Sessions() {
		n++
	}
	return n >= maxSessions
}

// endCalls cancels all calls of a session.
func (s *server) endCalls(session string) {
	if session == "" {
		return
	}
	for u := range s.under.Range {
		if u := u.(*under); u.session == session {
			u.cancel()
		}
	}
}

// listenAddress returns the address to listen on. An address that other machines can reach
// needs --anywhere and TLS.
func listenAddress(l program.HTTPOptions) (string, error) {
	host, port, err := net.SplitHostPort(l.Address)
	if err != nil {
		return "", &sandbox.Error{Op: "--http", Path: l.Address, Code: sandbox.ErrInvalid, Hint: "write an address and a port, such as 127.0.0.1:8137"}
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case err == nil && ip.IsLoopback():
	case !l.Anywhere:
		return "", &sandbox.Error{Op: "--http", Path: l.Address, Code: "blocked", Hint: "other machines may reach this address; use 127.0.0.1, or give --anywhere, --cert and --key"}
	case l.Cert == "":
		return "", &sandbox.Error{Op: "--http", Path: l.Address, Code: "blocked", Hint: "other machines may reach this address, so it needs TLS; give --cert and --key"}
	}
	return net.JoinHostPort(host, port), nil
}

// A bounded is a listener with a limited number of connections at a time. Further
// connections wait.
type limitedListener struct {
	net.Listener
	free chan struct{}
}

// Accept implements net.Listener.
func (b *limitedListener) Accept() (net.Conn, error) {
	b.free <- struct{}{}
	c, err := b.Listener.Accept()
	if err != nil {
		<-b.free
		return nil, err
	}
	return &countedConn{Conn: c, free: b.free}, nil
}

// A counted is a connection that frees its place in a bounded listener when it is closed.
type countedConn struct {
	net.Conn
	free   chan struct{}
	closed atomic.Bool
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		<-c.free
	}
	return c.Conn.Close()
}
