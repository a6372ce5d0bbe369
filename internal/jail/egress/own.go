package egress

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
)

// An OwnTransport sends golem's own requests to one host that the user chose, such as
// that of a language model. It checks addresses and records requests as a Network does
// for programs. It implements http.RoundTripper.
type OwnTransport struct {
	n    *Network
	by   string
	host string // as in a URL
}

// NewOwnTransport returns a transport to the host of a URL. By says who chose the host,
// for records. With private the host may have a private address, but not that of a metadata
// service. The caller closes the transport.
func NewOwnTransport(o Options, to *url.URL, by string, private bool) (*OwnTransport, error) {
	if private {
		o.Private = append(o.Private, to.Hostname())
	}
	n, err := New(o)
	if err != nil {
		return nil, err
	}
	return &OwnTransport{n: n, by: by, host: to.Host}, nil
}

// Close ends all connections.
func (t *OwnTransport) Close() error { return t.n.Close() }

// CloseIdleConnections closes the connections without a request.
func (t *OwnTransport) CloseIdleConnections() {
	t.n.direct.CloseIdleConnections()
	t.n.viaProxy.CloseIdleConnections()
}

// RoundTrip implements http.RoundTripper. The record of the request is stored before its
// first byte leaves. The record of its end has the bytes of both bodies.
func (t *OwnTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	n := t.n
	s := &stream{n: n, id: n.count.Add(1), host: r.URL.Hostname(), port: portOf(r.URL), decision: t.by, start: n.o.Now()}
	if n.o.Program != nil {
		s.program = n.o.Program(nil)
	}
	if r.URL.Host != t.host {
		why := refusal("the request is for " + strconv.Quote(r.URL.Host) + ", and golem sends it only to " + t.host)
		record := s.record(Refused)
		record.Decision, record.Why = "", why.Error()
		n.report(record)
		return nil, why
	}
	if err := n.o.Record(s.record(Opened)); err != nil {
		return nil, err
	}
	sent := r.Clone(r.Context())
	if r.Body != nil && r.Body != http.NoBody {
		sent.Body = &countedBody{ReadCloser: r.Body, bytes: &s.sent}
	}
	answer, err := n.roundTrip(sent)
	if err != nil {
		record := s.record(Closed)
		record.Why = "no answer"
		var why refusal
		if errors.As(err, &why) {
			record.Step, record.Why = Refused, why.Error()
		}
		n.o.Record(record)
		return nil, err
	}
	answer.Body = &countedBody{ReadCloser: answer.Body, bytes: &s.received, end: func() { n.o.Record(s.record(Closed)) }}
	return answer, nil
}

// portOf returns the port of a URL.
func portOf(u *url.URL) uint16 {
	if port, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		return uint16(port)
	}
	if u.Scheme == "http" {
		return 80
	}
	return 443
}

// A countedBody counts its bytes. When it is closed, it calls end once.
type countedBody struct {
	io.ReadCloser
	bytes *atomic.Int64
	end   func() // nil for none
	once  sync.Once
}

func (c *countedBody) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	c.bytes.Add(int64(n))
	return n, err
}

func (c *countedBody) Close() error {
	err := c.ReadCloser.Close()
	if c.end != nil {
		c.once.Do(c.end)
	}
	return err
}
