package mcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/golem-forge/golem/internal/forge"
	foreign "github.com/golem-forge/golem/internal/toolset/mcp"
	"github.com/golem-forge/golem/sandbox"
)

// The bounds of what comes over HTTP.
const (
	maxConnections = 128
	maxHeader      = 16 << 10
	headerTime     = 5 * time.Second
	bodyTime       = 30 * time.Second
	idleTime       = 2 * time.Minute
	sessionTime    = time.Hour // of a client that says nothing
	maxSessions    = 1024
)

// endpoint is the one path there is.
const endpoint = "/mcp"

// listen serves all clients that come to an address that is allowed and know the token.
func (s *server) listen(address string, l forge.Listening) error {
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
		return fmt.Errorf("--http %s: %w; name a port that is free, or 0 for any", sandbox.Shown(l.Address), err)
	}
	d := newDoorkeeper(l, socket.Addr())
	d.next = s.handler()
	h := &http.Server{
		Handler: d, TLSConfig: encrypted, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		TLSNextProto: make(map[string]func(*http.Server, *tls.Conn, http.Handler)), // HTTP/1.1 alone
		ErrorLog:     slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),      // what strangers do wrong is not told
		BaseContext:  func(net.Listener) context.Context { return s.ctx },
	}
	fmt.Fprintf(s.options.Errs, "golem: listening at %s\n", d.url)
	if l.Token == "" {
		fmt.Fprintf(s.options.Errs, "golem: clients send the header Authorization: Bearer %s\n", d.token)
	}
	ended := make(chan error, 1)
	go func() {
		socket := &bounded{Listener: socket, free: make(chan struct{}, maxConnections)}
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

// handler returns the protocol, in both of its forms: that with sessions, and since
// multiRound that without.
func (s *server) handler() http.Handler {
	server := func(*http.Request) *mcp.Server { return s.sdk }
	// Which names are its own the doorkeeper knows better.
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
		case session == "" && r.Method == http.MethodPost && s.full():
			http.Error(w, fmt.Sprintf("%d sessions are open, and no more are begun; DELETE ends one, and so does %v in which its client says nothing", maxSessions, sessionTime), http.StatusServiceUnavailable)
			return
		}
		sessions.ServeHTTP(w, r)
	})
}

// full reports whether there are as many sessions as there may be.
func (s *server) full() bool {
	n := 0
	for range s.sdk.Sessions() {
		n++
	}
	return n >= maxSessions
}

// endCalls ends what is under way in a session.
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

// allowed returns the address to listen at. One that others can reach must be meant, and
// what goes there is encrypted.
func allowed(l forge.Listening) (string, error) {
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
		return "", &sandbox.Error{Op: "--http", Path: l.Address, Code: "blocked", Hint: "it is not an address of this machine alone, as 127.0.0.1 is; --anywhere with --cert and --key lets others come"}
	case l.Cert == "":
		return "", &sandbox.Error{Op: "--http", Path: l.Address, Code: "blocked", Hint: "what others can reach is encrypted: name --cert and --key"}
	}
	return net.JoinHostPort(host, port), nil
}

// A doorkeeper lets requests through that are meant for this server, come from no page
// that was not allowed, and know the token.
type doorkeeper struct {
	hosts, origins []string
	token, url     string
	next           http.Handler
}

func newDoorkeeper(l forge.Listening, at net.Addr) *doorkeeper {
	d := &doorkeeper{hosts: slices.Clone(l.Hosts), origins: l.Origins, token: l.Token}
	scheme := "http"
	if l.Cert != "" {
		scheme = "https"
	}
	host, port, _ := net.SplitHostPort(at.String()) // it is one that was listened at
	d.hosts = append(d.hosts, net.JoinHostPort(host, port))
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsLoopback() {
		d.hosts = append(d.hosts, net.JoinHostPort("localhost", port))
	}
	d.url = scheme + "://" + net.JoinHostPort(host, port) + endpoint
	if d.token == "" {
		d.token = rand.Text()
	}
	return d
}

// ServeHTTP implements http.Handler.
func (d *doorkeeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for key, value := range map[string]string{
		"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
		"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		w.Header().Set(key, value)
	}
	status, why := d.refuses(r)
	if why == "" {
		status, why = readBody(w, r)
	}
	if why == "" {
		d.next.ServeHTTP(w, r)
		return
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	// What else it sends is not read, and not waited for.
	w.Header().Set("Connection", "close")
	http.NewResponseController(w).SetReadDeadline(time.Now())
	http.Error(w, why, status)
}

// refuses returns why a request is not let through, "" where it is.
func (d *doorkeeper) refuses(r *http.Request) (status int, why string) {
	origins := r.Header.Values("Origin")
	authorization := r.Header.Values("Authorization")
	switch {
	case r.URL.Host != "" || !slices.Contains(d.hosts, r.Host):
		return http.StatusForbidden, "this server is not called so; --host adds a name"
	case len(origins) > 1 || len(origins) == 1 && !slices.Contains(d.origins, origins[0]):
		return http.StatusForbidden, "pages of this origin may not use it; --origin adds one"
	case r.URL.Path != endpoint || r.URL.RawQuery != "":
		return http.StatusNotFound, "there is " + endpoint + " alone"
	case !slices.Contains([]string{http.MethodPost, http.MethodGet, http.MethodDelete}, r.Method):
		return http.StatusMethodNotAllowed, "POST, GET or DELETE"
	case len(authorization) != 1 || !d.knows(authorization[0]):
		return http.StatusUnauthorized, "send the header Authorization: Bearer TOKEN, with the token that golem mcp printed at its start"
	}
	return 0, ""
}

// knows reports whether a header holds the token.
func (d *doorkeeper) knows(authorization string) bool {
	kind, token, _ := strings.Cut(authorization, " ")
	return strings.EqualFold(kind, "Bearer") && subtle.ConstantTimeCompare([]byte(token), []byte(d.token)) == 1
}

// readBody reads the whole of a request, in bounded time: afterwards the connection may
// stay open as long as an answer takes. It returns why it is not let through, "" where it
// is.
func readBody(w http.ResponseWriter, r *http.Request) (status int, why string) {
	c := http.NewResponseController(w)
	c.SetReadDeadline(time.Now().Add(bodyTime))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
	c.SetReadDeadline(time.Time{})
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return http.StatusRequestEntityTooLarge, fmt.Sprintf("a message has at most %d bytes; send less at a time", maxMessage)
	case err != nil:
		return http.StatusBadRequest, "the request has no end"
	case foreign.Nested(body) > maxNested:
		return http.StatusBadRequest, fmt.Sprintf("a message has at most %d levels", maxNested)
	case bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")):
		return http.StatusBadRequest, "batches are not part of the protocol any more; send one message a request"
	}
	if r.Method == http.MethodPost { // the library reads no further than the end of the first
		switch _, err := decode(body); {
		case errors.Is(err, errID):
			return http.StatusBadRequest, err.Error()
		case err != nil:
			return http.StatusBadRequest, "this is no message of JSON-RPC 2.0; send one a request"
		}
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return 0, ""
}

// A bounded is a listener with so many connections at most at a time; others wait.
type bounded struct {
	net.Listener
	free chan struct{}
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	b.free <- struct{}{}
	c, err := b.Listener.Accept()
	if err != nil {
		<-b.free
		return nil, err
	}
	return &counted{Conn: c, free: b.free}, nil
}

// A counted connection makes room for another when it is closed.
type counted struct {
	net.Conn
	free   chan struct{}
	closed atomic.Bool
}

// Close implements net.Conn.
func (c *counted) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		<-c.free
	}
	return c.Conn.Close()
}
