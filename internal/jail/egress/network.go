package egress

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
)

// Options say what a network reaches and how.
type Options struct {
	// Hosts are the hosts that programs reach without a question.
	Hosts policy.Hosts
	// Ask decides about other hosts. If it is nil, golem refuses them.
	Ask func(context.Context, Question) Answer
	// ListedOnly makes golem refuse hosts that are not listed. Then it asks only about
	// those of Tainted.
	ListedOnly bool
	// Optional are hosts that programs ask for and do not need. golem refuses them without a
	// question if they are not listed.
	Optional []string
	// Denied, if set, returns why nobody may allow a host that is not listed, nil if somebody
	// may.
	Denied func(host string, port uint16) error
	// Patience is how long a connection waits for an answer. If it is zero, the connection
	// waits as long as the question is open: the program has a timeout of its own.
	Patience time.Duration
	// Tainted reports whether programs have read untrusted content. Then golem also asks
	// about hosts of the list that take more than reads.
	Tainted func() bool
	// Credentials are the secrets that rules name.
	Credentials map[string]Credential
	// AllowPrivate lets names lead to private and loopback addresses.
	AllowPrivate bool
	// Private are names that the user has chosen, which may lead to such addresses, too.
	Private []string
	// Resolve returns the real addresses of a name. The default asks the system.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
	// Dial connects to an address that the network has checked. The default also checks
	// the address of the socket before it connects.
	Dial func(ctx context.Context, address netip.AddrPort) (net.Conn, error)
	// Proxy returns the proxy for a URL, nil for none, as in http.Transport.
	Proxy func(*url.URL) (*url.URL, error)
	// Authority makes the certificates of hosts for which golem ends TLS. The default is a
	// new one.
	Authority *Authority
	// Roots verify the certificates of hosts for which golem ends TLS. The default is the
	// system's.
	Roots *x509.CertPool
	// Program names the program at the other end of a connection, for records.
	Program func(net.Conn) string
	// Record gets each step of each connection, and returns when it is stored. If it
	// returns an error for Opened, golem refuses the connection.
	Record func(Event) error
	// Missed, if set, gets every name and address that a program asked for and that is not
	// on the list, with the port of a connection and 0 for a name.
	Missed func(host string, port uint16)
	// Meter, if set, starts to measure a request to which golem adds a credential, or returns
	// the answer with which golem refuses it. It may return neither: then nothing is measured.
	// It may replace the body of the request.
	Meter func(r *http.Request, to Metered) (Measure, *http.Response)
	// Now is the clock. It is required.
	Now func() time.Time
}

// A Network serves the names and connections of confined programs. Its Serve functions
// return when the network or their listener is closed.
type Network struct {
	o         Options
	names     *standIns
	questions questions
	secrets   secrets
	dialer    net.Dialer
	web       *http.Server
	toWeb     *handoff
	forward   *httputil.ReverseProxy
	direct    *http.Transport
	viaProxy  *http.Transport

	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	count   atomic.Uint64 // connections so far
	running atomic.Int64  // requests
	budget  budget
	reports reports
	tally   tally

	mu     sync.Mutex
	open   map[closer]struct{} // listeners and connections, closed by Close
	closed bool

	refused map[string]bool // names that were looked up in vain
}

type closer interface{ Close() error }

// maxConnections is the number of connections that a network serves at once. A program
// gets a reset beyond it.
const maxConnections = 4096

// New returns a network. The caller closes it.
func New(o Options) (*Network, error) {
	if o.Now == nil {
		return nil, errors.New("egress: Options.Now is missing")
	}
	if o.Resolve == nil {
		o.Resolve = resolve
	}
	if o.Record == nil {
		o.Record = func(Event) error { return nil }
	}
	if o.Missed == nil {
		o.Missed = func(string, uint16) {}
	}
	n := &Network{o: o, names: newStandIns(), open: map[closer]struct{}{}, refused: map[string]bool{}}
	n.dialer.ControlContext = n.checkSocket
	if n.o.Dial == nil {
		n.o.Dial = func(ctx context.Context, address netip.AddrPort) (net.Conn, error) {
			return n.dialer.DialContext(ctx, "tcp", address.String())
		}
	}
	var err error
	if n.secrets, err = newSecrets(o.Credentials); err != nil {
		return nil, err
	}
	if n.o.Authority == nil {
		if n.o.Authority, err = NewAuthority(o.Hosts, o.Now); err != nil {
			return nil, err
		}
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.startWeb()
	return n, nil
}

// Close ends all connections and waits until all goroutines have ended.
func (n *Network) Close() error {
	n.cancel()
	n.mu.Lock()
	n.closed = true
	for c := range n.open {
		c.Close()
	}
	n.mu.Unlock()
	n.stopWeb()
	n.work.Wait()
	n.recordRest()
	return nil
}

// keep registers something that Close must close. It returns false, and closes it, if the
// network is closed already or has too many connections.
func (n *Network) keep(c closer) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || len(n.open) >= maxConnections {
		c.Close()
		return false
	}
	n.open[c] = struct{}{}
	return true
}

// release closes something that keep registered.
func (n *Network) release(c closer) {
	n.mu.Lock()
	delete(n.open, c)
	n.mu.Unlock()
	c.Close()
}

// run calls f in a goroutine that Close waits for. It returns false if the network is
// closed.
func (n *Network) run(f func()) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return false
	}
	n.work.Go(f)
	return true
}

// accept serves the connections of a listener until it is closed.
func (n *Network) accept(l net.Listener, serve func(net.Conn)) error {
	if !n.keep(l) {
		return net.ErrClosed
	}
	defer n.release(l)
	for {
		c, err := l.Accept()
		switch {
		case n.ctx.Err() != nil:
			if err == nil {
				c.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			// No descriptors are left, or the program is gone already: try again soon.
			select {
			case <-time.After(10 * time.Millisecond):
			case <-n.ctx.Done():
			}
			continue
		}
		if !n.keep(c) {
			continue
		}
		if !n.run(func() { defer n.release(c); serve(c) }) {
			n.release(c)
		}
	}
}
