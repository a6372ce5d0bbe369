package network

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// A Fetcher gets URLs for a worker. It reaches the hosts of the worker's commands and
// those of network.fetch.
type Fetcher struct {
	n       *Networks
	hosts   policy.Hosts
	workers []string
	source  func() string
}

// Fetcher returns the fetcher of a worker whose commands reach the hosts. Source returns
// the untrusted content that the worker has read, "" for none.
func (n *Networks) Fetcher(hosts policy.Hosts, workers []string, source func() string) *Fetcher {
	return &Fetcher{n, hosts, workers, source}
}

// Source returns the untrusted content that the worker has read, "" for none.
func (f *Fetcher) Source() string { return f.source() }

// Check reports whether the user must approve a URL. That is so for a host that is not
// listed. If the worker is tainted, it is also so for a host that only network.fetch
// lists, because a URL can carry data, and for one that commands can write to. The error
// says why golem refuses the URL.
func (f *Fetcher) Check(u *url.URL, tainted bool) (ask bool, err error) {
	host, port, err := hostOf(u)
	if err != nil {
		return false, err
	}
	if err := f.n.denyUnlisted(f.hosts, host, port); err != nil {
		return false, err
	}
	if rules := f.hosts.Find(host, port); len(rules) > 0 {
		return tainted && slices.ContainsFunc(rules, policy.HostRule.CanWrite), nil
	}
	if len(f.n.Project.Fetch.Find(host, port)) > 0 {
		return tainted, nil
	}
	_, notName := netip.ParseAddr(host)
	switch {
	case f.hosts.IsEmpty() && f.n.Project.Fetch.IsEmpty():
		return false, errors.New("no host is listed; list hosts under network.fetch in golem-forge.config.yaml")
	case notName == nil, !f.n.Project.AskHosts, approval.Mode(f.n.Project.Approval) == approval.ApproveAll: // approve_all would open the network
		return false, fmt.Errorf("%s is not on the list of hosts; add it to network.fetch in golem-forge.config.yaml", net.JoinHostPort(host, strconv.Itoa(int(port))))
	}
	return true, nil
}

// Get gets one URL that Check accepts, or that the user has approved. It follows no
// redirect. The caller closes the body. hide removes credentials from the text that the
// caller makes of the body.
func (f *Fetcher) Get(ctx context.Context, u *url.URL) (answer *http.Response, hide func(string) string, err error) {
	host, port, err := hostOf(u)
	if err != nil {
		return nil, nil, err
	}
	if err := f.n.denyUnlisted(f.hosts, host, port); err != nil {
		return nil, nil, err
	}
	rules := f.hosts.Find(host, port)
	if len(rules) == 0 {
		if rules = f.n.Project.Fetch.Find(host, port); len(rules) == 0 {
			rules = []policy.HostRule{{Host: host, Ports: []uint16{port}}}
		}
	}
	hosts := policy.HostsOfRules(rules...)
	if f.hosts.IsAll() {
		hosts = f.hosts // a rule for an address would let private ones pass
	}
	credentials, err := f.n.secrets.find(hosts)
	if err != nil {
		return nil, nil, err
	}
	log := &connectionLog{journal: f.n.Journal, workers: f.workers, prefix: f.n.newName()}
	network, err := egress.New(egress.Options{Hosts: hosts, AllowPrivate: f.n.Project.AllowPrivate, Proxy: environmentProxy, Record: log.record, Now: f.n.Now,
		Credentials: credentials, Program: func(net.Conn) string { return "golem (web_fetch)" }})
	if err != nil {
		return nil, nil, err
	}
	transport, err := network.Transport()
	if err != nil {
		return nil, nil, errors.Join(err, network.Close())
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, nil, errors.Join(err, network.Close())
	}
	request.Header.Set("User-Agent", "golem")
	request.Header.Set("Accept", "text/html, text/plain, text/markdown, application/json;q=0.9, */*;q=0.5")
	answer, err = transport.RoundTrip(request)
	if err != nil {
		return nil, nil, errors.Join(err, network.Close())
	}
	answer.Body = &fetched{answer.Body, network}
	return answer, network.HideText, nil
}

// A fetched body closes the network with it.
type fetched struct {
	io.ReadCloser
	network *egress.Network
}

func (b *fetched) Close() error { return errors.Join(b.ReadCloser.Close(), b.network.Close()) }

// hostOf returns the host and the port of a URL that golem may get.
func hostOf(u *url.URL) (string, uint16, error) {
	ports := map[string]uint64{"http": 80, "https": 443}
	port, ok := ports[u.Scheme]
	switch {
	case !ok:
		return "", 0, errors.New("not a URL with http:// or https://")
	case u.User != nil:
		return "", 0, errors.New("a URL with a name before the host; golem adds credentials itself")
	}
	if text := u.Port(); text != "" {
		var err error
		if port, err = strconv.ParseUint(text, 10, 16); err != nil || port == 0 {
			return "", 0, errors.New("not a port: " + text)
		}
	}
	r := policy.HostRule{Host: u.Hostname()}
	if err := r.Validate(); err != nil || slices.Contains([]byte(r.Host), '*') {
		return "", 0, errors.New(strconv.Quote(r.Host) + ": not a host; write a name such as docs.example.com, in the letters of DNS")
	}
	return policy.HostsOfRules(r).Rules()[0].Host, uint16(port), nil
}
