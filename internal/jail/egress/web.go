package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// One HTTP server reads the requests of all programs, and one reverse proxy sends them
// on. Neither copies a byte that it did not understand, so a program cannot hide a second
// request in the first.

const (
	headerTime = time.Minute
	idleTime   = 5 * time.Minute
	halfTime   = 30 * time.Second // for an answer after the program's half has ended
)

func (n *Network) startWeb() {
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	n.toWeb = &handoff{conns: make(chan net.Conn), done: make(chan struct{})}
	n.direct = &http.Transport{
		DialContext:            n.dialAddress,
		TLSClientConfig:        &tls.Config{RootCAs: n.o.Roots},
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    30 * time.Second,
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        idleTime,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: maxHeader,
		HTTP2:                  &http.HTTP2Config{MaxReceiveBufferPerStream: maxDownload, MaxReceiveBufferPerConnection: maxDownloads},
	}
	n.viaProxy = n.direct.Clone()
	n.viaProxy.Proxy = func(r *http.Request) (*url.URL, error) { return n.proxyFor(r.URL) }
	n.viaProxy.DialContext = (&net.Dialer{Timeout: dialTime}).DialContext
	n.forward = &httputil.ReverseProxy{
		Rewrite:        n.rewrite,
		Transport:      roundTripper(n.roundTrip),
		FlushInterval:  -1,
		ErrorHandler:   n.reportFailure,
		ModifyResponse: checkAnswer,
		ErrorLog:       quiet,
		BufferPool:     &buffers{},
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	n.web = &http.Server{
		Handler: http.HandlerFunc(n.serveRequest),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, streamKey{}, streamOf(c))
		},
		ErrorLog:                     quiet,
		ReadHeaderTimeout:            headerTime,
		IdleTimeout:                  idleTime,
		MaxHeaderBytes:               maxHeader,
		Protocols:                    protocols,
		HTTP2:                        &http.HTTP2Config{MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerConnection: maxUpload, MaxReceiveBufferPerStream: maxUpload},
		DisableGeneralOptionsHandler: true,
	}
	n.work.Go(func() { n.web.Serve(n.toWeb) })
}

func (n *Network) stopWeb() {
	n.web.Close()
	n.direct.CloseIdleConnections()
	n.viaProxy.CloseIdleConnections()
}

// A handoff is a listener for connections that are accepted already.
type handoff struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (h *handoff) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

func (h *handoff) Close() error {
	h.once.Do(func() { close(h.done) })
	return nil
}

func (h *handoff) Addr() net.Addr { return &net.TCPAddr{} }

// A webConn is a program's connection in the hands of the HTTP server. It counts bytes.
type webConn struct {
	*tape
	s    *stream
	load load
	done chan struct{}
	once sync.Once
}

func (c *webConn) Read(b []byte) (int, error) {
	n, err := c.tape.Read(b)
	c.s.sent.Add(int64(n))
	if full := c.load.add(&c.s.n.budget, n); full != nil {
		record := c.s.record(Noticed)
		record.Why = "golem closed the connection: " + full.Error()
		c.s.n.report(record)
		return 0, full
	}
	select {
	case <-c.done: // the load was cleared, or will be
		c.load.clear(&c.s.n.budget)
	default:
	}
	return n, err
}

func (c *webConn) Write(b []byte) (int, error) {
	n, err := c.tape.Write(b)
	c.s.received.Add(int64(n))
	return n, err
}

func (c *webConn) Close() error {
	c.once.Do(func() { close(c.done) })
	return c.tape.Close()
}

func (c *webConn) CloseWrite() error {
	if half, ok := c.tape.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

type streamKey struct{}

func streamOf(c net.Conn) *stream {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	return c.(*webConn).s
}

// serveWeb hands the connection to the HTTP server and waits until it has ended. With a
// configuration, the server ends TLS.
func (s *stream) serveWeb(ctx context.Context, config *tls.Config) error {
	s.web = true
	s.tape.SetReadDeadline(time.Time{})
	s.tape.play()
	c := &webConn{tape: s.tape, s: s, done: make(chan struct{})}
	s.load = &c.load
	var served net.Conn = c
	if config != nil {
		served = tls.Server(c, config)
	}
	select {
	case s.n.toWeb.conns <- served:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		c.Close()
	}
	c.load.clear(&s.n.budget)
	return nil
}

// serveRequest checks a request and sends it on.
func (n *Network) serveRequest(w http.ResponseWriter, r *http.Request) {
	s := r.Context().Value(streamKey{}).(*stream)
	s.requests.Add(1)
	end, err := n.begin(s.load, r)
	if err != nil {
		s.deny(w, r, err)
		return
	}
	defer end()
	secret, err := s.checkRequest(r)
	if err != nil {
		s.deny(w, r, err)
		return
	}
	s.noticePlaceholders(r, secret)
	if secret, err = secret.renew(); err != nil {
		s.deny(w, r, err)
		return
	}
	if r.ProtoMajor == 1 {
		// A server may answer while the program still sends.
		http.NewResponseController(w).EnableFullDuplex()
	}
	m, ok := s.measure(w, r, secret)
	if !ok {
		return
	}
	if m != nil {
		defer m.End()
	}
	if hide := s.secrets(); len(hide) > 0 {
		w, r = hidingWriter{w, hide}, withSecrets(r, use{secret, hide, m})
	}
	if !s.ended {
		ctx, cancel := n.outlive(r.Context())
		defer cancel()
		r = r.WithContext(ctx)
	}
	n.forward.ServeHTTP(w, r)
}

// outlive returns a context that ends some time after the one of a plain HTTP request. The
// server's ends when the program has ended its half of the connection, and such a program
// may still wait for the answer.
func (n *Network) outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stopLate := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(halfTime):
			cancel()
		case <-longer.Done():
		}
	})
	stopClosed := context.AfterFunc(n.ctx, cancel)
	return longer, func() { stopLate(); stopClosed(); cancel() }
}

// checkRequest returns why golem refuses a request, or else the secret to add to it, nil
// for none.
func (s *stream) checkRequest(r *http.Request) (*secret, error) {
	switch {
	case r.Method == http.MethodConnect:
		return nil, refusal("golem passes no CONNECT; connect to the host itself")
	case r.ProtoMajor == 2 && !s.ended:
		return nil, refusal("golem passes HTTP/2 only inside TLS")
	case !s.isAuthority(r.Host):
		return nil, refusal("the request is for " + strconv.Quote(r.Host) + ", but the program looked up " + s.host)
	case r.URL.Opaque != "" || r.URL.Scheme != "" && r.URL.Host == "": // "x:http://example.org/" would leave without its x:
		return nil, refusal("the request is for another URL than its host")
	case strings.Contains(r.URL.RawQuery, " "): // HTTP/2 has such a query, and HTTP/1.1 would end it there
		return nil, refusal("the query has a space; write %20")
	case r.URL.Host != "" && (!s.isAuthority(r.URL.Host) || r.URL.User != nil || r.URL.Scheme != s.scheme()):
		return nil, refusal("the request is for another URL than its host")
	}
	// Some servers read headers after the body like those before it, where golem has checked them.
	r.Trailer = nil
	r.Header.Del("Trailer")
	dropDoubles(r.Header, s.needsRequests())
	// An upgrade to another protocol than websocket would hide later requests.
	if upgrade := r.Header.Values("Upgrade"); len(upgrade) != 1 || !strings.EqualFold(upgrade[0], "websocket") {
		r.Header.Del("Upgrade")
		r.Header.Del("Http2-Settings")
	}
	if !s.needsRequests() {
		return nil, nil
	}
	rule, err := s.findRule(r)
	if err != nil {
		return nil, err
	}
	if rule.Credential != "" {
		return s.findSecret(r, rule)
	}
	return nil, nil
}

// isAuthority reports whether the host of a request is the stream's, with or without its
// port.
func (s *stream) isAuthority(host string) bool {
	u := url.URL{Host: lower(host)}
	name := strings.TrimSuffix(u.Hostname(), ".")
	if strings.HasPrefix(host, "[") != strings.Contains(name, ":") {
		return false // only an IPv6 address is in brackets
	}
	isHost := name == s.host || name == "localhost" && isLoopback(s.host)
	return isHost && (u.Port() == "" || u.Port() == strconv.Itoa(int(s.port)))
}

// lower returns a name in lower case. It changes only ASCII letters: some others would
// become ASCII.
func lower(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r - 'A' + 'a'
		}
		return r
	}, name)
}

func (s *stream) scheme() string {
	if s.ended {
		return "https"
	}
	return "http"
}

// deny answers a request that golem refuses, and records it.
func (s *stream) deny(w http.ResponseWriter, r *http.Request, err error) {
	record := s.record(Denied)
	record.Request, record.Why = r.Method+" "+r.URL.EscapedPath(), err.Error()
	s.n.report(record)
	if r.ProtoMajor < 2 { // the rest of the request is not read; with HTTP/2 other requests continue
		w.Header().Set("Connection", "close")
	}
	w.Header().Set("X-Golem", "refused")
	http.Error(w, "golem refused this request: "+err.Error(), http.StatusForbidden)
}

// rewrite makes the request that leaves. The host, the path and the query stay as the
// program wrote them.
func (n *Network) rewrite(p *httputil.ProxyRequest) {
	s := p.In.Context().Value(streamKey{}).(*stream)
	p.Out.URL.Scheme = s.scheme()
	p.Out.URL.Host = net.JoinHostPort(s.host, strconv.Itoa(int(s.port)))
	p.Out.URL.RawQuery = p.In.URL.RawQuery
	p.Out.URL.ForceQuery = p.In.URL.ForceQuery
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if v, ok := p.In.Header[name]; ok {
			p.Out.Header[name] = v
		}
	}
	u := secretsOf(p.In.Context())
	if u.add != nil {
		p.Out.Header.Set(u.add.header, u.add.full)
	}
	if len(u.hide) > 0 {
		keepReadable(p.Out.Header)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// roundTrip sends a request, by the user's proxy if there is one.
func (n *Network) roundTrip(r *http.Request) (*http.Response, error) {
	r = traceSent(r)
	proxy, err := n.proxyFor(r.URL)
	if err != nil {
		return nil, err
	}
	if proxy != nil {
		return n.viaProxy.RoundTrip(r)
	}
	var k *kept
	trace := &httptrace.ClientTrace{GotConn: func(to httptrace.GotConnInfo) {
		if k.endHead(); to.Conn != nil { // an earlier connection was too old
			k = beginHead(to.Conn)
		}
	}}
	defer func() { k.endHead() }()
	return n.direct.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
}

// dialAddress is the dialer of the transport. Its address is a host with its port.
func (n *Network) dialAddress(ctx context.Context, _, address string) (net.Conn, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, err
	}
	c, err := n.dialHost(ctx, host, uint16(port))
	if err != nil {
		return nil, err
	}
	return &kept{Conn: c, n: n}, nil
}

// A kept connection leaves the network's list when it is closed. While golem waits for an
// answer, the connection counts the bytes of the answer's head.
type kept struct {
	net.Conn
	n *Network

	mu    sync.Mutex
	heads bool // an answer's head is awaited
	head  load
}

// beginHead makes a connection count the head of the next answer. HTTP/2 limits heads by
// itself, so it returns nil for such a connection.
func beginHead(c net.Conn) *kept {
	if t, ok := c.(*tls.Conn); ok {
		if t.ConnectionState().NegotiatedProtocol == "h2" {
			return nil
		}
		c = t.NetConn()
	}
	k, ok := c.(*kept)
	if !ok {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.heads = true
	return k
}

// endHead ends what beginHead began.
func (k *kept) endHead() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.heads = false
	k.head.clear(&k.n.budget)
}

func (k *kept) Read(b []byte) (int, error) {
	n, err := k.Conn.Read(b)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.heads {
		if full := k.head.add(&k.n.budget, n); full != nil {
			return 0, full
		}
	}
	return n, err
}

func (k *kept) Close() error {
	k.n.release(k.Conn)
	return nil
}

// reportFailure answers a request that could not be sent, or whose answer golem refuses. The
// program does not learn to which addresses a name leads.
func (n *Network) reportFailure(w http.ResponseWriter, r *http.Request, err error) {
	s := r.Context().Value(streamKey{}).(*stream)
	var why refusal
	if errors.As(err, &why) {
		record := s.record(Denied)
		record.Request, record.Why = r.Method+" "+r.URL.EscapedPath(), why.Error()
		n.report(record)
		told := why.Error()
		if errors.As(err, new(addressRefusal)) {
			told = "the address of " + s.host + " is not allowed"
		}
		w.Header().Set("X-Golem", "refused")
		http.Error(w, "golem refused this request: "+told, http.StatusForbidden)
		return
	}
	told := "golem cannot reach " + s.host
	if r.Context().Err() == nil && !errors.Is(err, io.EOF) {
		if strings.Contains(err.Error(), "response headers exceeded") || strings.Contains(err.Error(), "response header list larger") {
			err = fmt.Errorf("the headers of the answer are longer than %d bytes", maxHeader)
			told = "golem refused the answer of " + s.host + ": " + err.Error()
		}
		record := s.record(Noticed)
		record.Request, record.Why = r.Method+" "+r.URL.EscapedPath(), err.Error()
		n.report(record)
	}
	http.Error(w, told, http.StatusBadGateway)
}

// buffers are the buffers with which the reverse proxy copies.
type buffers struct{ pool sync.Pool }

const copySize = 32 << 10

func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[copySize]byte); ok {
		return p[:]
	}
	return make([]byte, copySize)
}

func (b *buffers) Put(p []byte) { b.pool.Put((*[copySize]byte)(p)) }
