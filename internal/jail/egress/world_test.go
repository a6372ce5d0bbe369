package egress_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/jail/egress"
)

// A world is a network with both of its sides: an Internet of real servers on loopback
// addresses, and a program that resolves names and connects as a confined one does.
type world struct {
	t       testing.TB
	options egress.Options
	network *egress.Network

	resolver net.PacketConn
	streams  net.Listener // the resolver's
	listener net.Listener // for all connections of programs

	mu       sync.Mutex
	changed  *sync.Cond
	wanted   map[string]netip.AddrPort // where a program's socket wants to go
	servers  map[netip.AddrPort]string // the real address behind a public one
	names    map[string][]netip.Addr
	records  []egress.Event
	dialled  []string
	timeouts int
	full     error                    // why no record can be stored
	around   func(port uint16) string // the server of a port, for programs that do not pass golem
}

// newWorld returns a world in which nothing is open yet. Change its options, then open it.
func newWorld(t testing.TB, hosts ...policy.HostRule) *world {
	w := &world{t: t, wanted: map[string]netip.AddrPort{}, servers: map[netip.AddrPort]string{}, names: map[string][]netip.Addr{}}
	w.changed = sync.NewCond(&w.mu)
	w.options = egress.Options{Hosts: policy.HostsOfRules(hosts...), Now: time.Now, Record: w.record, Resolve: w.resolve, Dial: w.dialPublic,
		Program: func(net.Conn) string { return "curl" }}
	return w
}

func rules(texts ...string) []policy.HostRule { return policy.HostsOf(texts...).Rules() }

func (w *world) open() *world {
	w.t.Helper()
	var err error
	if w.network, err = egress.New(w.options); err != nil {
		w.t.Fatal(err)
	}
	if w.resolver, err = net.ListenPacket("udp", "127.0.0.1:0"); err != nil {
		w.t.Fatal(err)
	}
	w.streams, w.listener = listen(w.t), listen(w.t)
	var serving sync.WaitGroup
	serving.Go(func() { w.network.ServeDNS(w.resolver) })
	serving.Go(func() { w.network.ServeDNSStreams(w.streams) })
	serving.Go(func() { w.network.Serve(w.listener, w.destination) })
	w.t.Cleanup(func() {
		w.network.Close()
		serving.Wait()
	})
	return w
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// host puts a name on the Internet, at an address of its own, with a server at a port.
func (w *world) host(name string, port uint16, server net.Addr) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.names[name] == nil {
		w.names[name] = []netip.Addr{netip.AddrFrom4([4]byte{203, 0, 113, byte(len(w.names) + 1)})}
	}
	w.servers[netip.AddrPortFrom(w.names[name][0], port)] = server.String()
}

// site puts an HTTP server on the Internet at port 80 and, with TLS, at port 443.
func (w *world) site(name string, handler http.Handler) *httptest.Server {
	plain := httptest.NewServer(handler)
	w.t.Cleanup(plain.Close)
	secure := httptest.NewUnstartedServer(handler)
	secure.EnableHTTP2 = true
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // failed handshakes are the point of some tests
	secure.StartTLS()
	w.t.Cleanup(secure.Close)
	w.host(name, 80, plain.Listener.Addr())
	w.host(name, 443, secure.Listener.Addr())
	return secure
}

func (w *world) resolve(_ context.Context, name string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if all := w.names[name]; all != nil {
		return all, nil
	}
	return nil, errors.New("no such host")
}

func (w *world) dialPublic(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	w.mu.Lock()
	server, ok := w.servers[to]
	w.dialled = append(w.dialled, to.String())
	w.mu.Unlock()
	if !ok {
		return nil, errors.New("connection refused")
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", server)
}

func (w *world) record(r egress.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.records = append(w.records, r)
	w.changed.Broadcast()
	return w.full
}

// destination does what SO_ORIGINAL_DST does in a jail.
func (w *world) destination(c net.Conn) (netip.AddrPort, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		if to, ok := w.wanted[c.RemoteAddr().String()]; ok {
			delete(w.wanted, c.RemoteAddr().String()) // a later socket may have the same port
			return to, nil
		}
		w.changed.Wait()
	}
}

// lookUp resolves a name as a confined program does.
func (w *world) lookUp(name string) (netip.Addr, error) {
	r := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		if strings.HasPrefix(network, "tcp") {
			return net.Dial("tcp", w.streams.Addr().String())
		}
		return net.Dial("udp", w.resolver.LocalAddr().String())
	}}
	all, err := r.LookupNetIP(w.t.Context(), "ip", name+".")
	if err != nil {
		return netip.Addr{}, err
	}
	if len(all) != 1 {
		return netip.Addr{}, fmt.Errorf("%s: %d addresses", name, len(all))
	}
	return all[0].Unmap(), nil
}

// dial connects as a confined program does: by name or by address.
func (w *world) dial(name string, port uint16) (net.Conn, error) {
	a, err := netip.ParseAddr(name)
	if err != nil {
		if a, err = w.lookUp(name); err != nil {
			return nil, err
		}
	}
	if w.around != nil {
		return net.Dial("tcp", w.around(port))
	}
	c, err := net.Dial("tcp", w.listener.Addr().String())
	if err != nil {
		return nil, err
	}
	w.t.Cleanup(func() { c.Close() })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted[c.LocalAddr().String()] = netip.AddrPortFrom(a, port)
	w.changed.Broadcast()
	return c, nil
}

func (w *world) mustDial(name string, port uint16) net.Conn {
	w.t.Helper()
	c, err := w.dial(name, port)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// client returns an HTTP client inside the jail.
func (w *world) client(config *tls.Config) *http.Client {
	only1 := config != nil && slices.Equal(config.NextProtos, []string{"http/1.1"})
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: !only1, DialContext: func(_ context.Context, _, address string) (net.Conn, error) {
		host, text, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		port, err := strconv.Atoi(text)
		if err != nil {
			return nil, err
		}
		return w.dial(host, uint16(port))
	}}
	w.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// get returns the status and the body of a page.
func get(c *http.Client, url string) (int, string, error) {
	r, err := c.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	return r.StatusCode, string(b), err
}

// await waits for a record that has all that is wanted.
func (w *world) await(what string, is func(egress.Event) bool) egress.Event {
	w.t.Helper()
	stop := time.AfterFunc(30*time.Second, func() { // a world that hangs ends the wait
		w.mu.Lock()
		defer w.mu.Unlock()
		w.timeouts++
		w.changed.Broadcast()
	})
	defer stop.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		if i := slices.IndexFunc(w.records, is); i >= 0 {
			return w.records[i]
		}
		if w.timeouts > 0 {
			w.t.Fatalf("no record of %s in\n%+v", what, w.records)
		}
		w.changed.Wait()
	}
}

func (w *world) awaitStep(step egress.Step, host string) egress.Event {
	w.t.Helper()
	return w.await(string(step)+" "+host, func(r egress.Event) bool { return r.Step == step && r.Host == host })
}

// mustEnd checks that golem ends a connection without a byte from a server.
func mustEnd(t *testing.T, c net.Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(30 * time.Second))
	b, err := io.ReadAll(c)
	if len(b) > 0 {
		t.Errorf("got %q from a refused connection", b)
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		t.Error("the connection stays open")
	}
}

// exchange sends raw bytes, ends its half, and returns all that comes back.
func exchange(c net.Conn, raw string) string {
	c.SetDeadline(time.Now().Add(30 * time.Second))
	io.WriteString(c, raw)
	c.(*net.TCPConn).CloseWrite()
	b, _ := io.ReadAll(c)
	return string(b)
}

func readLine(t *testing.T, c net.Conn) string {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(30 * time.Second))
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		t.Fatalf("read: %q, %v", line, err)
	}
	return line
}

// publicAddress returns the address of a name on the Internet.
func (w *world) publicAddress(name string, port uint16) netip.AddrPort {
	w.mu.Lock()
	defer w.mu.Unlock()
	return netip.AddrPortFrom(w.names[name][0], port)
}
