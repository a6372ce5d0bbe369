package spending

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/jail/egress"
	"github.com/golem-forge/golem/internal/records/state"
)

// A world is a vendor on the loopback interface, and an agent whose requests go through
// golem's network and a meter.
type world struct {
	t      *testing.T
	meter  *Meter
	dir    *state.Dir
	client *http.Client
	url    string
	seen   chan string // the bodies that reached the vendor
}

const key = "sk-test-0123456789abcdef"

// newWorld starts a world. The vendor answers as the handler does.
func newWorld(t *testing.T, o Options, vendor http.HandlerFunc) *world {
	t.Helper()
	dir, err := state.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	w := &world{t: t, dir: dir, seen: make(chan string, 10_000)}
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != key {
			t.Errorf("the vendor got the key %q", r.Header.Get("X-Api-Key"))
		}
		body, _ := io.ReadAll(r.Body)
		w.seen <- string(body)
		vendor(out, r)
	}))
	t.Cleanup(server.Close)
	w.url = server.URL
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	if o.State = dir; o.Now == nil {
		o.Now = time.Now
	}
	if o.IsAgents == nil {
		o.IsAgents = func(string) bool { return true }
	}
	if o.Raise == nil {
		o.Raise = func(context.Context, Raise) (approved, declined bool) { return false, false }
	}
	w.meter = New(o)
	n, err := egress.New(egress.Options{Hosts: policy.HostsOfRules(policy.HostRule{Host: u.Hostname(), Ports: []uint16{uint16(port)}, Credential: "agent:key"}),
		AllowPrivate: true, Credentials: map[string]egress.Credential{"agent:key": {Value: key, Header: "X-Api-Key: ${value}"}},
		Meter: func(r *http.Request, to egress.Metered) (egress.Measure, *http.Response) { return w.meter.Meter(r, to) }, Now: time.Now,
		Program: func(net.Conn) string { return "agent" }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	transport, err := n.Transport()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.CloseIdleConnections)
	w.client = &http.Client{Transport: transport}
	return w
}

// post sends a request and returns the answer.
func (w *world) post(path, body string) (code int, text string) {
	w.t.Helper()
	r, err := w.client.Post(w.url+path, "application/json", strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	if err != nil && err != io.ErrUnexpectedEOF {
		w.t.Logf("the answer ends with %v", err)
	}
	return r.StatusCode, string(data)
}

// account returns the account once no request is open.
func (w *world) account() Account {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	w.meter.Wait(ctx)
	if ctx.Err() != nil {
		w.t.Fatal("a request has no end")
	}
	a, err := Read(w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}
