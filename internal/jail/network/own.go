package network

import (
	"cmp"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/jail/egress"
)

// OwnRequests send golem's own requests to hosts that the user chose: that of a model, of
// an endpoint, or of a server with repositories. The choice implies the host, so golem
// does not ask about it. The journal has every request. OwnRequests implement
// http.RoundTripper and are closed after use.
type OwnRequests struct {
	program, by string
	now         func() time.Time
	private     func(host string) bool // which hosts may have a private address; nil for all
	deny        func(*url.URL) error   // which hosts a policy forbids; nil for none

	mu         sync.Mutex
	newLog     func() *connectionLog // nil before there is a journal
	transports map[string]*egress.OwnTransport
	closed     bool
}

// NewOwnRequests returns the requests of a part of golem. By says who chose the hosts, for
// the journal. RecordIn must give them a journal before the first one.
func NewOwnRequests(part, by string, now func() time.Time) *OwnRequests {
	return &OwnRequests{program: "golem (" + part + ")", by: by, now: now}
}

// LimitPrivate lets only some hosts have a private address: somebody else chose them.
func (o *OwnRequests) LimitPrivate(may func(host string) bool) { o.private = may }

// OwnRequests returns the requests of a part of golem for workers.
func (n *Networks) OwnRequests(part, by string, workers []string) *OwnRequests {
	o := NewOwnRequests(part, by, n.Now)
	o.RecordIn(n, workers)
	o.LimitPrivate(n.MayBePrivate)
	o.deny = n.denyOwn
	return o
}

// denyOwn is deny for the host of a request of golem's own. The host of GitHub's API belongs to
// github.com, which is what the user names.
func (n *Networks) denyOwn(u *url.URL) error {
	port, err := strconv.ParseUint(cmp.Or(u.Port(), map[string]string{"http": "80"}[u.Scheme], "443"), 10, 16)
	if err != nil {
		return err
	}
	if u.Hostname() == "api.github.com" && n.deny("github.com", uint16(port)) == nil {
		return nil
	}
	return n.deny(u.Hostname(), uint16(port))
}

// RecordIn has the requests recorded in the journal of a gate, for its workers.
func (o *OwnRequests) RecordIn(n *Networks, workers []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.newLog = func() *connectionLog {
		return &connectionLog{journal: n.Journal, workers: workers, prefix: n.newName()}
	}
}

// RoundTrip implements http.RoundTripper.
func (o *OwnRequests) RoundTrip(r *http.Request) (*http.Response, error) {
	t, err := o.open(r)
	if err != nil {
		return nil, err
	}
	return t.RoundTrip(r)
}

// open returns the transport to the host of a request.
func (o *OwnRequests) open(r *http.Request) (*egress.OwnTransport, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed:
		return nil, net.ErrClosed
	case o.newLog == nil:
		return nil, errors.New("golem has no journal yet to record the request in")
	}
	if o.deny != nil {
		if err := o.deny(r.URL); err != nil {
			return nil, err
		}
	}
	if t := o.transports[r.URL.Host]; t != nil {
		return t, nil
	}
	t, err := egress.NewOwnTransport(egress.Options{Proxy: environmentProxy, Program: func(net.Conn) string { return o.program }, Record: o.newLog().record, Now: o.now}, r.URL, o.by, o.private == nil || o.private(r.URL.Host))
	if err != nil {
		return nil, err
	}
	if o.transports == nil {
		o.transports = make(map[string]*egress.OwnTransport)
	}
	o.transports[r.URL.Host] = t
	return t, nil
}

// CloseIdleConnections closes the connections without a request. The HTTP client calls it.
func (o *OwnRequests) CloseIdleConnections() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, t := range o.transports {
		t.CloseIdleConnections()
	}
}

// Close ends all connections.
func (o *OwnRequests) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	var errs []error
	for _, t := range o.transports {
		errs = append(errs, t.Close())
	}
	return errors.Join(errs...)
}
