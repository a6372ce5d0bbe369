package network

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/jail/egress"
)

// A Remote connects golem with a server that a worker file names, such as an MCP server.
// The worker must reach its host.
type Remote struct {
	n       *Networks
	name    string
	url     *url.URL
	host    string
	port    uint16
	hosts   policy.Hosts
	workers []string
	source  func() string
	headers func() (http.Header, []string, error)
}

// Remote returns a connection with a server at an address, for workers that reach some
// hosts. Source returns the untrusted content that they have read, "" for none. Headers
// returns the headers of each request, and the secrets in them.
func (n *Networks) Remote(name, address string, hosts policy.Hosts, workers []string, source func() string, headers func() (http.Header, []string, error)) (*Remote, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("the address of the server " + name + " is none; correct url in the worker file")
	}
	r := &Remote{n: n, name: name, url: u, hosts: hosts, workers: workers, source: source, headers: headers}
	r.host, r.port, err = hostOf(u)
	return r, err
}

// Check reports whether the user must approve the connection. The error says why golem
// refuses it. Requests to the server carry what the worker writes, so a tainted worker
// asks.
func (r *Remote) Check() (ask bool, err error) {
	if len(r.hosts.Find(r.host, r.port)) > 0 {
		return r.source() != "", nil
	}
	at := net.JoinHostPort(r.host, strconv.Itoa(int(r.port)))
	if err := r.n.denyUnlisted(r.hosts, r.host, r.port); err != nil {
		return false, err
	}
	_, notName := netip.ParseAddr(r.host)
	if r.hosts.IsEmpty() || notName == nil || !r.n.Project.AskHosts || approval.Mode(r.n.Project.Approval) == approval.ApproveAll { // approve_all would open the network
		return false, fmt.Errorf("%s is not among the hosts that the worker reaches; list it under sandbox.network in golem-forge.config.yaml, and in the worker file", at)
	}
	return true, nil
}

// Dial returns what sends the requests to the server. They reach no other host.
func (r *Remote) Dial() (*RemoteRequests, error) {
	header, hidden, err := r.headers()
	if err != nil {
		return nil, err
	}
	rules := r.hosts.Find(r.host, r.port)
	if err := r.n.denyUnlisted(r.hosts, r.host, r.port); err != nil {
		return nil, err
	}
	if len(rules) == 0 { // the user has approved the call
		rules = []policy.HostRule{{Host: r.host, Ports: []uint16{r.port}}}
	}
	hosts := policy.HostsOfRules(rules...)
	if r.hosts.IsAll() {
		hosts = r.hosts // a rule for an address would let private ones pass
	}
	credentials, err := r.n.secrets.find(hosts)
	if err != nil {
		return nil, err
	}
	log := &connectionLog{journal: r.n.Journal, workers: r.workers, prefix: r.n.newName()}
	network, err := egress.New(egress.Options{Hosts: hosts, AllowPrivate: r.n.Project.AllowPrivate, Proxy: environmentProxy, Record: log.record, Now: r.n.Now,
		Credentials: credentials, Program: func(net.Conn) string { return "golem (MCP server " + r.name + ")" }})
	if err != nil {
		return nil, err
	}
	transport, err := network.Transport()
	if err != nil {
		return nil, errors.Join(err, network.Close())
	}
	return &RemoteRequests{network, transport, r.url, header, hidden}, nil
}

// RemoteRequests send requests to one server. They are closed after use.
type RemoteRequests struct {
	network   *egress.Network
	transport *http.Transport
	url       *url.URL
	header    http.Header
	hidden    []string
}

// RoundTrip implements http.RoundTripper. It sends no header to another server.
func (r *RemoteRequests) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Host != r.url.Host || request.URL.Scheme != r.url.Scheme {
		return nil, fmt.Errorf("golem sends requests of this server only to %s", r.url.Host)
	}
	sent := request.Clone(request.Context())
	for name, values := range r.header {
		sent.Header[name] = slices.Clone(values)
	}
	return r.transport.RoundTrip(sent)
}

// Hidden returns the secrets in the headers.
func (r *RemoteRequests) Hidden() []string { return r.hidden }

// Close ends all connections.
func (r *RemoteRequests) Close() error {
	r.transport.CloseIdleConnections()
	return r.network.Close()
}
