package egress_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/jail/egress"
)

// A log of the requests that reached servers.
type requestLog struct {
	mu   sync.Mutex
	list []string
}

func (l *requestLog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return // golem refused the rest
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, r.Method+" "+r.Host+r.URL.RequestURI())
	fmt.Fprintf(w, "hello from %s", r.Host)
}

func (l *requestLog) seen() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.list, ", ")
}

func TestReachAllowedHost(t *testing.T) {
	w := newWorld(t, rules("example.com", "*.example.com")...)
	var log requestLog
	server := w.site("example.com", &log)
	w.site("api.example.com", &log)
	w.open()
	client := w.client(server.Client().Transport.(*http.Transport).TLSClientConfig)
	for _, url := range []string{"http://example.com/a", "https://example.com/b?x=%zz;y", "https://api.example.com/"} {
		code, body, err := get(client, url)
		if err != nil || code != 200 || !strings.HasPrefix(body, "hello from ") {
			t.Errorf("%s: got %d, %q, %v", url, code, body, err)
		}
	}
	client.CloseIdleConnections()
	if got, want := log.seen(), "GET example.com/a, GET example.com/b?x=%zz;y, GET api.example.com/"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	r := w.await("443", func(r egress.Event) bool { return r.Step == egress.Closed && r.Host == "example.com" && r.Port == 443 })
	if r.Program != "curl" || r.Sent < 300 || r.Received < 300 || r.Duration <= 0 || r.Ended || !strings.HasPrefix(r.Decision, "list: example.com") {
		t.Errorf("got %+v", r)
	}
	r = w.await("80", func(r egress.Event) bool { return r.Step == egress.Closed && r.Port == 80 })
	if r.Requests != 1 || r.Sent < 50 || r.Received < 50 {
		t.Errorf("got %+v", r)
	}
	if open := w.await("opened", func(o egress.Event) bool { return o.Step == egress.Opened && o.ID == r.ID }); open.Port != 80 || open.Sent != 0 {
		t.Errorf("got %+v", open)
	}
}

func TestRefuseOtherHosts(t *testing.T) {
	w := newWorld(t, rules("example.com", "192.0.2.9:443")...)
	var log requestLog
	server := w.site("example.com", &log)
	w.site("evil.org", &log)
	w.host("example.com", 8080, server.Listener.Addr())
	w.open()
	client := w.client(server.Client().Transport.(*http.Transport).TLSClientConfig)
	for _, url := range []string{
		"http://evil.org/", "https://evil.org/", // a name that is not on the list
		"http://203.0.113.1/", "https://203.0.113.2/", // a raw address
		"http://[2001:db8::1]/",
		"http://example.com:8080/", // another port
		"http://198.18.77.77/",     // a stand-in that stands for nothing
		"http://198.18.0.1/",
	} {
		if code, body, err := get(client, url); err == nil {
			t.Errorf("%s: got %d, %q", url, code, body)
		}
	}
	if got := log.seen(); got != "" {
		t.Errorf("servers got %s", got)
	}
	if r := w.awaitStep(egress.Refused, "203.0.113.1"); !strings.Contains(r.Why, "--net +203.0.113.1:80") {
		t.Errorf("got %+v", r)
	}
	w.awaitStep(egress.Refused, "198.18.77.77")
}

// TestPlainHTTP sends raw bytes to an allowed host. Whatever they are, the server sees
// only requests for that host.
func TestPlainHTTP(t *testing.T) {
	const good = "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"
	for name, test := range map[string]struct{ raw, want string }{
		"allowed":                 {good, "GET example.com/"},
		"pipelined":               {good + "GET /2 HTTP/1.1\r\nHost: EXAMPLE.com:80\r\n\r\n", "GET example.com/, GET EXAMPLE.com:80/2"},
		"another host":            {"GET / HTTP/1.1\r\nHost: evil.org\r\n\r\n", ""},
		"another host later":      {good + "GET /2 HTTP/1.1\r\nHost: evil.org\r\n\r\n", "GET example.com/"},
		"a host below":            {"GET / HTTP/1.1\r\nHost: a.example.com\r\n\r\n", ""},
		"final dot":               {"GET / HTTP/1.1\r\nHost: example.com.\r\n\r\n", "GET example.com./"},
		"two final dots":          {"GET / HTTP/1.1\r\nHost: example.com..\r\n\r\n", ""},
		"another port":            {"GET / HTTP/1.1\r\nHost: example.com:8080\r\n\r\n", ""},
		"no host":                 {"GET / HTTP/1.1\r\n\r\n", ""},
		"no host in 1.0":          {"GET / HTTP/1.0\r\n\r\n", ""},
		"empty host":              {"GET / HTTP/1.1\r\nHost:\r\n\r\n", ""},
		"two hosts":               {"GET / HTTP/1.1\r\nHost: example.com\r\nHost: evil.org\r\n\r\n", ""},
		"NUL in the host":         {"GET / HTTP/1.1\r\nHost: example.com\x00.evil.org\r\n\r\n", ""},
		"user in the host":        {"GET / HTTP/1.1\r\nHost: example.com@evil.org\r\n\r\n", ""},
		"folded host":             {"GET / HTTP/1.1\r\nHost: example.com\r\n evil.org\r\n\r\n", ""},
		"absolute":                {"GET http://example.com/x HTTP/1.1\r\nHost: example.com\r\n\r\n", "GET example.com/x"},
		"absolute elsewhere":      {"GET http://evil.org/ HTTP/1.1\r\nHost: example.com\r\n\r\n", ""},
		"absolute with a user":    {"GET http://a:b@example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n", ""},
		"another scheme":          {"GET x:http://evil.org/ HTTP/1.1\r\nHost: example.com\r\n\r\n", ""},
		"scheme without a host":   {"GET http:/x HTTP/1.1\r\nHost: example.com\r\n\r\n", ""},
		"two slashes":             {"GET //evil.org/ HTTP/1.1\r\nHost: example.com\r\n\r\n", "GET example.com//evil.org/"},
		"absolute with TLS":       {"GET https://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n", ""},
		"CONNECT":                 {"CONNECT example.com:80 HTTP/1.1\r\nHost: example.com:80\r\n\r\n" + good, ""},
		"CONNECT elsewhere":       {"CONNECT evil.org:443 HTTP/1.1\r\nHost: example.com\r\n\r\n" + good, ""},
		"length and chunks":       {"POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /evil HTTP/1.1\r\nHost: evil.org\r\n\r\n", "POST example.com/"},
		"two lengths":             {"POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 0\r\nContent-Length: 40\r\n\r\nGET /evil HTTP/1.1\r\nHost: evil.org\r\n\r\n", ""},
		"odd encoding":            {"POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\nGET /evil HTTP/1.1\r\nHost: evil.org\r\n\r\n", ""},
		"space before the colon":  {"POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", ""},
		"request in a body":       {"POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 42\r\n\r\nGET /evil HTTP/1.1\r\nHost: evil.org     \r\n\r\n", "POST example.com/"},
		"request in a chunk size": {"POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n0;\nGET /evil HTTP/1.1\r\nHost: evil.org\r\n\r\n", ""},
		"upgrade to HTTP/2":       {"GET / HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n", "GET example.com/"},
		"HTTP/2 at once":          {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", ""},
		"HTTP/0.9":                {"GET /\r\n", ""},
		"another protocol":        {"SSH-2.0-OpenSSH_9.9\r\n", ""},
		"binary":                  {"\x00\x01\x02\x03\xff\xfe", ""},
		"half a hello":            {"\x16\x03\x01\x00\xff\x01\x00", ""},
		"nothing":                 {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, rules("example.com")...)
			var log requestLog
			w.site("example.com", &log)
			w.site("evil.org", &log)
			w.open()
			answer := exchange(w.mustDial("example.com", 80), test.raw)
			if got := log.seen(); got != test.want {
				t.Errorf("the server got %q, want %q; the program got %q", got, test.want, answer)
			}
			if name == "another protocol" {
				w.await("why", func(r egress.Event) bool {
					return r.Step == egress.Closed && strings.HasPrefix(r.Why, "no HTTP request came")
				})
			}
			if n := strings.Count(answer, "hello from"); n != strings.Count(test.want, "example.com")+strings.Count(test.want, "EXAMPLE.com") {
				t.Errorf("the program got %q", answer)
			}
		})
	}
}

// TestTLSNames checks the server name in TLS hellos.
func TestTLSNames(t *testing.T) {
	w := newWorld(t, rules("example.com", "192.0.2.9")...)
	var log requestLog
	server := w.site("example.com", &log)
	w.mu.Lock()
	w.servers[netip.MustParseAddrPort("192.0.2.9:443")] = server.Listener.Addr().String()
	w.mu.Unlock()
	w.open()
	for _, test := range []struct {
		host, name string
		ok         bool
	}{
		{"example.com", "example.com", true},
		{"example.com", "EXAMPLE.com", true},
		{"example.com", "evil.org", false},
		{"example.com", "a.example.com", false},
		{"example.com", "example.com.evil.org", false},
		{"example.com", "", false},
		{"192.0.2.9", "", true},
		{"192.0.2.9", "192.0.2.9", true}, // not sent
		{"192.0.2.9", "evil.org", false},
	} {
		c := tls.Client(w.mustDial(test.host, 443), &tls.Config{ServerName: test.name, InsecureSkipVerify: true})
		if err := c.Handshake(); (err == nil) != test.ok {
			t.Errorf("hello for %q to %s: got %v", test.name, test.host, err)
		}
		c.Close()
	}
	if got := log.seen(); got != "" {
		t.Errorf("servers got %s", got)
	}
	w.await("a hello for evil.org", func(r egress.Event) bool {
		return r.Step == egress.Refused && r.Why == "the TLS hello names evil.org, but the program looked up example.com"
	})
}

// TestHelloInPieces checks a hello that arrives byte by byte, and that the server gets
// the very same bytes.
func TestHelloInPieces(t *testing.T) {
	w := newWorld(t, rules("example.com")...)
	server := w.site("example.com", &requestLog{})
	w.open()
	c := tls.Client(slowWriter{w.mustDial("example.com", 443)}, server.Client().Transport.(*http.Transport).TLSClientConfig.Clone())
	if err := c.Handshake(); err == nil {
		t.Fatal("a handshake without a name passed")
	}
	config := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.ServerName = "example.com"
	c = tls.Client(slowWriter{w.mustDial("example.com", 443)}, config)
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
}

// slowWriter writes one byte at a time.
type slowWriter struct{ net.Conn }

func (c slowWriter) Write(b []byte) (int, error) {
	for i := range b {
		if _, err := c.Conn.Write(b[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(b), nil
}

// TestOtherPorts checks ports other than 80 and 443: any protocol passes, also one in
// which the server speaks first, but TLS and HTTP are checked as everywhere.
func TestOtherPorts(t *testing.T) {
	w := newWorld(t, rules("example.com:2222", "example.com:8080", "example.com:8443", "example.com")...)
	var log requestLog
	secure := w.site("example.com", &log)
	banner := listen(t)
	go func() { // ends with the listener
		for {
			c, err := banner.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, "SSH-2.0-test\r\n")
			io.Copy(c, c)
			c.Close()
		}
	}()
	t.Cleanup(func() { banner.Close() })
	w.host("example.com", 2222, banner.Addr())
	w.host("example.com", 8443, secure.Listener.Addr())
	w.mu.Lock()
	w.servers[netip.MustParseAddrPort("203.0.113.1:8080")] = w.servers[netip.MustParseAddrPort("203.0.113.1:80")]
	w.mu.Unlock()
	w.open()

	c := w.mustDial("example.com", 2222)
	if got := readLine(t, c); got != "SSH-2.0-test\r\n" {
		t.Errorf("got %q", got)
	}
	if got := exchange(c, "\x01\x02binary"); got != "\x01\x02binary" {
		t.Errorf("got %q", got)
	}
	if got := exchange(w.mustDial("example.com", 2222), "EHLO there\r\n"); got != "SSH-2.0-test\r\nEHLO there\r\n" {
		t.Errorf("got %q", got)
	}
	for raw, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: example.com:8080\r\n\r\nGET /2 HTTP/1.1\r\nHost: evil.org\r\n\r\n": "GET example.com:8080/",
		"\r\nGET /3 HTTP/1.1\r\nHost: evil.org\r\n\r\n":                                             "",
		"get /4 http/1.1\r\nHost: evil.org\r\n\r\n":                                                 "",
		"GET http://evil.org/5 HTTP/1.1\r\nHost: evil.org\r\n\r\n":                                  "",
	} {
		before := log.seen()
		exchange(w.mustDial("example.com", 8080), raw)
		if got := strings.TrimPrefix(strings.TrimPrefix(log.seen(), before), ", "); got != want {
			t.Errorf("%q: the server got %q, want %q", raw, got, want)
		}
	}
	for name, ok := range map[string]bool{"example.com": true, "evil.org": false, "": false} {
		c := tls.Client(w.mustDial("example.com", 8443), &tls.Config{ServerName: name, InsecureSkipVerify: true})
		if err := c.Handshake(); (err == nil) != ok {
			t.Errorf("hello for %q at 8443: got %v", name, err)
		}
	}
}

// TestAddresses checks to which addresses a name may lead.
func TestAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"203.0.113.7": "", "8.8.8.8": "", "2606:4700::1111": "", "::ffff:8.8.8.8": "", "64:ff9b::808:808": "",
		"127.0.0.1": "loopback", "127.9.9.9": "loopback", "::1": "loopback", "::ffff:127.0.0.1": "loopback", "64:ff9b::7f00:1": "loopback", "2002:7f00:1::": "loopback",
		"10.1.2.3": "private", "172.31.0.1": "private", "192.168.1.1": "private", "100.64.0.1": "private", "fd00::1": "private", "::ffff:10.0.0.1": "private",
		"169.254.169.254": "metadata service", "::ffff:169.254.169.254": "metadata service", "fd00:ec2::254": "metadata service", "fd00:ec2::23": "metadata service", "fd20:ce::254": "metadata service", "168.63.129.16": "metadata service", "100.100.100.200": "metadata service",
		"64:ff9b::a9fe:a9fe": "metadata service", "2002:a9fe:a9fe::1": "metadata service", "64:ff9b:1::a9fe:a9fe": "translated", "::ffff:0:a9fe:a9fe": "translated", "::ffff:0:127.0.0.1": "translated",
		"169.254.1.1": "link-local", "fe80::1": "link-local", "fe80::1%eth0": "link-local", "8.8.8.8%x": "",
		"224.0.0.1": "multicast", "ff02::1": "multicast", "0.0.0.0": "this host", "::": "this host", "255.255.255.255": "reserved",
		"198.18.0.1": "stand-in", "::7f00:1": "reserved", "2001:0:1::1": "tunnel",
	} {
		a, err := netip.ParseAddr(address)
		if err != nil {
			continue // not an address at all
		}
		w := newWorld(t)
		n, err := egress.New(w.options)
		if err != nil {
			t.Fatal(err)
		}
		if got := n.WhyForbidden(netip.AddrPortFrom(a, 443)); got != want {
			t.Errorf("%s: got %q, want %q", address, got, want)
		}
		n.Close()

		w.options.AllowPrivate = true
		if n, err = egress.New(w.options); err != nil {
			t.Fatal(err)
		}
		lifted := want == "" || want == "private" || want == "loopback"
		if got := n.WhyForbidden(netip.AddrPortFrom(a, 443)); (got == "") != lifted {
			t.Errorf("%s with AllowPrivate: got %q", address, got)
		}
		n.Close()

		w = newWorld(t, rules(strings.Split(address, "%")[0])...)
		if n, err = egress.New(w.options); err != nil {
			t.Fatal(err)
		}
		if got := n.WhyForbidden(netip.AddrPortFrom(a, 443)); got != "" && a.Zone() == "" {
			t.Errorf("%s on the list: got %q", address, got)
		}
		n.Close()
	}
}

// TestNameWithPrivateAddress checks that a name on the list leads to no private address,
// unless the list has the address, and that other addresses of the name still work.
func TestNameWithPrivateAddress(t *testing.T) {
	var log requestLog
	start := func(change func(*world)) *world {
		w := newWorld(t, rules("example.com")...)
		w.site("example.com", &log)
		change(w)
		return w.open()
	}
	private := netip.MustParseAddr("10.0.0.7")
	only := start(func(w *world) { w.names["example.com"] = []netip.Addr{private} })
	if code, body, err := get(only.client(nil), "http://example.com/"); err != nil || code != http.StatusForbidden || strings.Contains(body, "10.0.0.7") {
		t.Errorf("got %d, %q, %v", code, body, err)
	}
	if r := only.awaitStep(egress.Denied, "example.com"); !strings.Contains(r.Why, "10.0.0.7 (private)") {
		t.Errorf("got %+v", r)
	}
	mustEnd(t, func() net.Conn {
		c := only.mustDial("example.com", 443)
		go tls.Client(c, &tls.Config{ServerName: "example.com"}).Handshake()
		return silentReader{c}
	}())
	if len(only.dialled) > 0 {
		t.Errorf("golem dialled %v", only.dialled)
	}
	// A rule that limits requests to the address is not for the name.
	for rule, want := range map[*policy.HostRule]int{{Host: "10.0.0.7"}: http.StatusBadGateway, {Host: "10.0.0.7", Methods: []string{"GET"}}: http.StatusForbidden} {
		w := start(func(w *world) {
			w.names["example.com"] = []netip.Addr{private}
			w.options.Hosts = policy.HostsOfRules(append(rules("example.com"), *rule)...)
		})
		if code, _, err := get(w.client(nil), "http://example.com/"); err != nil || code != want {
			t.Errorf("%s: got %d, %v, want %d", rule, code, err, want)
		}
		if code, _, err := get(w.client(nil), "http://10.0.0.7/"); err != nil || code != http.StatusBadGateway { // nothing listens there
			t.Errorf("%s: got %d, %v for the address", rule, code, err)
		}
	}
	both := start(func(w *world) { w.names["example.com"] = append([]netip.Addr{private}, w.names["example.com"]...) })
	if code, _, err := get(both.client(nil), "http://example.com/"); err != nil || code != 200 {
		t.Errorf("got %d, %v", code, err)
	}
}

// silentReader lets only one side read.
type silentReader struct{ net.Conn }

func (c silentReader) Read([]byte) (int, error) { return 0, io.EOF }

// TestSocketIsChecked checks the last check, on the address that the socket connects to:
// a name may change its address after it was checked.
func TestSocketIsChecked(t *testing.T) {
	l := listen(t)
	defer l.Close()
	to := netip.MustParseAddrPort(l.Addr().String())
	for _, open := range []bool{false, true} {
		w := newWorld(t, rules("example.com")...)
		w.options.AllowPrivate = open
		w.open()
		c, err := w.network.DialSocket(t.Context(), to)
		if (err == nil) != open {
			t.Errorf("AllowPrivate %v: got %v", open, err)
		}
		if c != nil {
			c.Close()
		}
	}
	// The whole way with golem's own dialer: the list names the address.
	w := newWorld(t, rules("example.com:"+fmt.Sprint(to.Port()), to.String())...)
	w.options.Dial = nil
	w.names["example.com"] = []netip.Addr{to.Addr()}
	w.open()
	c := w.mustDial("example.com", to.Port())
	server, err := l.Accept()
	if err == nil {
		server, err = l.Accept() // the first was that of DialSocket
	}
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	io.WriteString(server, "hi\n")
	if got := readLine(t, c); got != "hi\n" {
		t.Errorf("got %q", got)
	}
}

// TestManyRefusals checks that a program cannot fill the journal with refusals, neither
// with the same one nor with many different ones.
func TestManyRefusals(t *testing.T) {
	w := newWorld(t, policy.HostRule{Host: "example.com", Methods: []string{"GET"}})
	w.site("example.com", &requestLog{})
	w.open()
	for range 100 {
		c := w.mustDial("203.0.113.1", 22)
		mustEnd(t, c)
		c.Close()
	}
	const requests = 5000
	for i := range requests {
		c := w.mustDial("example.com", 80)
		fmt.Fprintf(c, "POST /%d HTTP/1.1\r\nHost: example.com\r\nContent-Length: 0\r\n\r\n", i)
		io.Copy(io.Discard, c) // golem closes the connection after a refused request
		c.Close()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	same, different := 0, 0
	for _, r := range w.records {
		switch r.Step {
		case egress.Refused:
			same++
		case egress.Denied:
			different++
		}
	}
	if same != 8+3 || different < 2000 || different > 2100 {
		t.Errorf("%d records of 100 equal refusals, %d of %d different ones", same, different, requests)
	}
	if last := w.records[slices.IndexFunc(w.records, func(r egress.Event) bool { return strings.Contains(r.Why, "64 times") })]; last.Host != "203.0.113.1" {
		t.Errorf("got %+v", last)
	}
}

// TestManyRecords connects again and again. Few connections get records of their own, and
// the others are added up in them.
func TestManyRecords(t *testing.T) {
	w := newWorld(t, rules("example.com:7")...)
	w.echo("example.com", 7)
	w.open()
	const count = 700
	for range count {
		if !passes(w.mustDial("example.com", 7)) {
			t.Fatal("no echo")
		}
	}
	w.network.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	opened, stands, sent := 0, int64(0), int64(0)
	for _, r := range w.records {
		switch r.Step {
		case egress.Opened:
			opened++
		case egress.Closed:
			stands += 1 + r.More
			sent += r.Sent
		}
	}
	if opened != 502 || stands != count || sent != count { // 500, the one at 512, and the rest
		t.Errorf("%d connections got %d records, which stand for %d with %d bytes", count, opened, stands, sent)
	}
}

// TestNoRecordNoConnection checks that nothing leaves if it cannot be recorded.
func TestNoRecordNoConnection(t *testing.T) {
	w := newWorld(t, rules("example.com")...)
	var log requestLog
	w.site("example.com", &log)
	w.full = errors.New("no space left")
	w.open()
	if code, _, err := get(w.client(nil), "http://example.com/"); err == nil || log.seen() != "" || len(w.dialled) > 0 {
		t.Errorf("got %d, %s, %v", code, log.seen(), w.dialled)
	}
}

// TestHalfClose checks that the end of one direction does not end the other.
func TestHalfClose(t *testing.T) {
	w := newWorld(t, rules("example.com:7")...)
	l := listen(t)
	t.Cleanup(func() { l.Close() })
	w.host("example.com", 7, l.Addr())
	w.open()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		b, _ := io.ReadAll(c)
		fmt.Fprintf(c, "got %d bytes", len(b))
		c.Close()
	}()
	if got := exchange(w.mustDial("example.com", 7), strings.Repeat("\x01", 100_000)); got != "got 100000 bytes" {
		t.Errorf("got %q", got)
	}
	if r := w.awaitStep(egress.Closed, "example.com"); r.Sent != 100_000 || r.Received != 16 {
		t.Errorf("got %+v", r)
	}
}

// TestServerDisconnects checks that a program learns that the server is gone.
func TestServerDisconnects(t *testing.T) {
	w := newWorld(t, rules("example.com:7", "example.com")...)
	l := listen(t)
	w.host("example.com", 7, l.Addr())
	w.open()
	c := w.mustDial("example.com", 7)
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	server.(*net.TCPConn).SetLinger(0)
	server.Close()
	mustEnd(t, c)
	mustEnd(t, w.mustDial("example.com", 7)) // nobody listens
	if code, _, err := get(w.client(nil), "http://example.com/"); err != nil || code != http.StatusBadGateway {
		t.Errorf("got %d, %v", code, err)
	}
}

// TestManyConnections opens 1,000 connections at once.
func TestManyConnections(t *testing.T) {
	w := newWorld(t, rules("example.com:7")...)
	l := listen(t)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { io.Copy(c, c); c.Close() }()
		}
	}()
	w.host("example.com", 7, l.Addr())
	w.open()
	var conns []net.Conn
	for range 1000 {
		conns = append(conns, w.mustDial("example.com", 7))
	}
	for i, c := range conns {
		text := fmt.Sprintf("\x01%d", i)
		if got := exchange(c, text); got != text {
			t.Fatalf("connection %d: got %q", i, got)
		}
	}
}

// TestSlowReaders checks that programs that do not read cost golem little memory.
func TestSlowReaders(t *testing.T) {
	w := newWorld(t, append(rules("example.com:7", "example.com"), policy.HostRule{Host: "api.example.com", Methods: []string{"GET"}})...)
	endless := listen(t)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := endless.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				for b := make([]byte, 64<<10); err == nil; {
					_, err = c.Write(b)
				}
			})
		}
	})
	t.Cleanup(func() { endless.Close(); w.network.Close(); serving.Wait() })
	w.host("example.com", 7, endless.Addr())
	always := http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		var err error
		for b := make([]byte, 64<<10); err == nil; {
			_, err = out.Write(b)
		}
	})
	w.site("example.com", always)
	w.openWithTLS(w.site("api.example.com", always))
	before := heap()
	for range 10 {
		c := w.mustDial("example.com", 7)
		io.ReadFull(c, make([]byte, 1<<20))
		c = w.mustDial("example.com", 80)
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n")
		io.ReadFull(c, make([]byte, 1<<20))
		config := w.trustAuthority("http/1.1") // golem speaks HTTP/2 with the server
		config.ServerName = "api.example.com"
		c = tls.Client(w.mustDial("api.example.com", 443), config)
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n")
		io.ReadFull(c, make([]byte, 1<<20))
	}
	time.Sleep(time.Second) // the servers still send
	if grown := heap() - before; grown > 20<<20 {
		t.Errorf("30 slow readers took %d bytes", grown)
	}
}

// TestUnfinished checks that programs that begin many messages cost golem little memory: TLS
// hellos, headers of HTTP/1.1 and HTTP/2, and bodies that the host does not read.
func TestUnfinished(t *testing.T) {
	w := newWorld(t, policy.HostRule{Host: "example.com"}, policy.HostRule{Host: "api.example.com", Methods: []string{"GET", "POST"}})
	w.site("example.com", &requestLog{})
	w.openWithTLS(w.site("api.example.com", http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			<-r.Context().Done()
		}
	})))
	var hello []byte
	for body := append([]byte{1, 0, 0xfe, 0}, make([]byte, 0xf000)...); len(body) > 0; {
		part := body[:min(len(body), 16000)]
		hello = append(append(hello, 0x16, 3, 1, byte(len(part)>>8), byte(len(part))), part...)
		body = body[len(part):]
	}
	const count = 1000
	for name, begin := range map[string]func() net.Conn{
		"hellos": func() net.Conn {
			c := w.mustDial("example.com", 443)
			c.Write(hello)
			return c
		},
		"headers": func() net.Conn {
			c := w.mustDial("example.com", 80)
			io.WriteString(c, "GET / HTTP/1.1\r\nHost: example.com\r\nX: "+strings.Repeat("x", 60<<10))
			return c
		},
		"requests": func() net.Conn {
			p := w.rawHTTP2(t, "api.example.com")
			p.begin(":method", "POST", ":scheme", "https", ":authority", "api.example.com", ":path", "/", "x", strings.Repeat("x", 40<<10))
			return p.c
		},
	} {
		before := heap()
		var all []net.Conn
		for range map[bool]int{true: count / 5, false: count}[name == "requests"] {
			all = append(all, begin())
		}
		time.Sleep(500 * time.Millisecond)
		grown, unfinished := heap()-before, w.network.Unfinished()
		t.Logf("%d %s took %d MB, %d MB of them counted", len(all), name, grown>>20, unfinished>>20)
		if grown > 200<<20 || unfinished > 32<<20 {
			t.Errorf("%d %s took %d MB, %d MB of them counted", len(all), name, grown>>20, unfinished>>20)
		}
		for _, c := range all {
			c.Close()
		}
		for range 300 {
			if w.network.Unfinished() == 0 {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if left := w.network.Unfinished(); left != 0 {
			t.Errorf("%s: golem still counts %d bytes", name, left)
		}
		client := w.client(w.trustAuthority())
		if code, _, err := get(client, "https://api.example.com/"); err != nil || code != 200 {
			t.Errorf("after the %s: got %d, %v", name, code, err)
		}
		client.CloseIdleConnections() // golem counts what HTTP/2 sends without a request, such as the answer to SETTINGS
		w.network.CloseIdle()
	}
}

// TestClose checks that Close ends everything, also a connection that waits for an
// answer, and that a closed network serves nothing.
func TestClose(t *testing.T) {
	w := newWorld(t, rules("example.com:7", "example.com")...)
	l := listen(t)
	t.Cleanup(func() { l.Close() })
	w.host("example.com", 7, l.Addr())
	w.site("example.com", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	asked := make(chan struct{})
	w.options.Ask = func(ctx context.Context, _ egress.Question) egress.Answer {
		close(asked)
		<-ctx.Done()
		return egress.Later
	}
	w.options.Patience = time.Hour
	w.open()
	raw, idle, held := w.mustDial("example.com", 7), w.mustDial("example.com", 443), w.mustDial("other.org", 443)
	request := w.mustDial("example.com", 80)
	io.WriteString(request, "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n")
	if got := readLine(t, request); got != "HTTP/1.1 200 OK\r\n" {
		t.Fatalf("got %q", got)
	}
	<-asked
	if _, err := l.Accept(); err != nil {
		t.Fatal(err)
	}
	if err := w.network.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{raw, idle, held} {
		mustEnd(t, c)
	}
	io.Copy(io.Discard, request)
	if _, err := net.Dial("tcp", w.listener.Addr().String()); err == nil {
		t.Error("the network still listens")
	}
	if err := w.network.Serve(listen(t), w.destination); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
