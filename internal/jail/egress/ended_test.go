package egress_test

import (
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptrace"
	"net/netip"
	"net/textproto"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/jail/egress"
)

// openWithTLS opens a world whose hosts have the certificates of httptest.
func (w *world) openWithTLS(server interface{ Certificate() *x509.Certificate }) *world {
	w.options.Roots = x509.NewCertPool()
	w.options.Roots.AddCert(server.Certificate())
	return w.open()
}

// trustAuthority returns a configuration for a program that trusts only the session's
// authority.
func (w *world) trustAuthority(protocols ...string) *tls.Config {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(w.network.Authority()) {
		w.t.Fatal("no authority")
	}
	return &tls.Config{RootCAs: pool, NextProtos: protocols}
}

// TestRequestsInsideTLS checks the same requests as for plain HTTP, by HTTP/1.1 and 2.
func TestRequestsInsideTLS(t *testing.T) {
	for _, protocol := range []string{"http/1.1", "h2"} {
		for _, test := range requestCases {
			for i := range test.rules {
				test.rules[i].Host = "example.com"
			}
			w := newWorld(t, test.rules...)
			var log requestLog
			w.openWithTLS(w.site("example.com", &log))
			client := w.client(w.trustAuthority(protocol))
			r, err := http.NewRequest(test.method, "https://example.com"+test.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", gitFetch)
			answer, err := client.Do(r)
			if err != nil {
				t.Errorf("%s %s: %v", protocol, test.path, err)
				continue
			}
			answer.Body.Close()
			want, code := "", http.StatusForbidden
			if test.ok {
				want, code = test.method+" example.com"+test.path, http.StatusOK
			}
			if got := log.seen(); got != want || answer.StatusCode != code || answer.Proto != map[string]string{"h2": "HTTP/2.0", "http/1.1": "HTTP/1.1"}[protocol] {
				t.Errorf("%s %v %s %s: the server got %q, want %q; the program got %s %s", protocol, test.rules, test.method, test.path, got, want, answer.Proto, answer.Status)
			}
			client.CloseIdleConnections()
			if r := w.awaitStep(egress.Closed, "example.com"); !r.Ended || r.Requests != 1 {
				t.Errorf("got %+v", r)
			}
		}
	}
}

// TestAuthorityOfRequests checks that a request inside TLS is for the name in the hello, by
// HTTP/1.1 and 2.
func TestAuthorityOfRequests(t *testing.T) {
	for _, protocol := range []string{"http/1.1", "h2"} {
		w := newWorld(t, policy.HostRule{Host: "example.com", Methods: []string{"GET"}}, policy.HostRule{Host: "api.example.com", Methods: []string{"GET"}})
		var log requestLog
		w.openWithTLS(w.site("example.com", &log))
		client := w.client(w.trustAuthority(protocol))
		for host, want := range map[string]int{"example.com": 200, "Example.COM:443": 200, "evil.org": 403, "api.example.com": 403, "example.com:80": 403} {
			r, err := http.NewRequest("GET", "https://example.com/"+protocol, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = host
			answer, err := client.Do(r)
			if err != nil {
				t.Errorf("%s for %s: %v", protocol, host, err)
				continue
			}
			answer.Body.Close()
			if answer.StatusCode != want || (answer.ProtoMajor == 2) != (protocol == "h2") {
				t.Errorf("%s for %s: got %s by %s, want %d", protocol, host, answer.Status, answer.Proto, want)
			}
		}
		if got := log.seen(); strings.Contains(got, "evil") || strings.Contains(got, "api.") {
			t.Errorf("%s: the server got %s", protocol, got)
		}
	}
}

// TestAuthorityFile checks the hash that OpenSSL would search for in a directory: that of
// the subject with its text in lower case, without the outer sequence.
func TestAuthorityFile(t *testing.T) {
	a, err := egress.NewAuthority(policy.HostsOfRules(policy.HostRule{Host: "example.com", Methods: []string{"GET"}}), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(a.PEM())
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.ToLower(c.Subject.CommonName)
	if c.Subject.String() != "CN="+c.Subject.CommonName || len(name) > 100 {
		t.Fatalf("the subject is %s", c.Subject)
	}
	text := append([]byte{0x0c, byte(len(name))}, name...)          // UTF8String
	pair := append([]byte{0x06, 3, 0x55, 4, 3}, text...)            // commonName
	pair = append([]byte{0x30, byte(len(pair))}, pair...)           // SEQUENCE
	sum := sha1.Sum(append([]byte{0x31, byte(len(pair))}, pair...)) // SET
	if want := fmt.Sprintf("%08x.0", binary.LittleEndian.Uint32(sum[:4])); egress.AuthorityFile != want {
		t.Errorf("got %s, want %s", egress.AuthorityFile, want)
	}
}

// TestAuthority checks that golem ends TLS only for hosts whose rules need it, that the
// authority is valid for no other host, and that golem verifies the real certificate.
func TestAuthority(t *testing.T) {
	if n, err := egress.New(newWorld(t, rules("example.com")...).options); err != nil || n.Authority() != nil {
		t.Errorf("an authority that no rule needs: %v", err)
	}
	w := newWorld(t, policy.HostRule{Host: "example.com", Methods: []string{"GET"}}, policy.HostRule{Host: "*.example.com"},
		policy.HostRule{Host: "192.0.2.9", GitRead: true}, policy.HostRule{Host: "*.bad.example.com", GitRead: true})
	var log requestLog
	server := w.site("example.com", &log)
	w.site("api.example.com", &log)
	w.site("very.bad.example.com", &log) // its certificate is for *.example.com
	w.openWithTLS(server)
	inside, outside := w.client(w.trustAuthority()), w.client(&tls.Config{RootCAs: w.options.Roots})
	for url, ended := range map[string]bool{"https://example.com/": true, "https://api.example.com/": false} {
		if _, _, err := get(inside, url); (err == nil) != ended {
			t.Errorf("%s with the session's authority: %v", url, err)
		}
		if _, _, err := get(outside, url); (err == nil) == ended {
			t.Errorf("%s with the real certificate: %v", url, err)
		}
	}
	if code, body, err := get(inside, "https://very.bad.example.com/"); err != nil || code != http.StatusBadGateway {
		t.Errorf("a host with a wrong certificate: got %d, %q, %v", code, body, err)
	}
	w.await("the wrong certificate", func(r egress.Event) bool { return r.Step == egress.Noticed && strings.Contains(r.Why, "certificate") })
	w.await("a program without trust", func(r egress.Event) bool {
		return r.Step == egress.Closed && strings.Contains(r.Why, "may not trust")
	})

	leaf := func(host string) *x509.Certificate {
		c := tls.Client(w.mustDial(host, 443), &tls.Config{ServerName: host, InsecureSkipVerify: true})
		if err := c.Handshake(); err != nil {
			t.Fatal(err)
		}
		return c.ConnectionState().PeerCertificates[0]
	}
	verify := func(c *x509.Certificate, name string) error {
		_, err := c.Verify(x509.VerifyOptions{Roots: w.trustAuthority().RootCAs, DNSName: name})
		return err
	}
	for _, host := range []string{"example.com", "192.0.2.9", "x.bad.example.com"} {
		if err := verify(leaf(host), host); err != nil {
			t.Errorf("%s: %v", host, err)
		}
		if err := verify(leaf(host), "evil.org"); err == nil {
			t.Errorf("the certificate of %s is valid for evil.org", host)
		}
	}
	for _, host := range []string{"evil.org", "example.org", "192.0.2.10", "2001:db8::1"} {
		c, err := w.network.MakeLeaf(host)
		if err != nil {
			t.Fatal(err)
		}
		if err := verify(c, host); err == nil {
			t.Errorf("the authority is valid for %s", host)
		}
	}
}

const (
	token       = "sk-ant-api03-AbCdEf0123456789xyzABCDEFGHIJKLMNOP"
	otherSecret = "ghp_0123456789abcdefABCDEF0123456789abcd"
)

// newVendor returns a world with a host that takes a credential.
func newVendor(t *testing.T, handler http.Handler) *world {
	w := newWorld(t, policy.HostRule{Host: "example.com", Credential: "vendor"}, policy.HostRule{Host: "api.example.com", Methods: []string{"GET"}},
		policy.HostRule{Host: "git.example.com", Credential: "git"}, policy.HostRule{Host: "none.example.com", Credential: "missing"})
	w.options.Credentials = map[string]egress.Credential{
		"vendor": {Value: token, Header: "x-api-key: ${value}"},
		"git":    {Value: otherSecret, Header: "Authorization: Basic ${basic:x-access-token}"},
	}
	for _, name := range []string{"api.example.com", "git.example.com", "none.example.com"} {
		w.site(name, handler)
	}
	return w.openWithTLS(w.site("example.com", handler))
}

func (w *world) placeholder(name string) string {
	w.t.Helper()
	text, ok := w.network.Placeholder(name)
	if !ok {
		w.t.Fatal("no placeholder for " + name)
	}
	return text
}

// TestRenewedCredential: the host gets the value of the moment, the jail keeps its
// placeholder, and no answer has one of the values.
func TestRenewedCredential(t *testing.T) {
	values := []string{"token-one-7Hd82kQzP0", "token-two-9Xs51mWyP0", "token-three-0Lp27vBnC8-longer"}
	var at atomic.Int64
	w := newWorld(t, policy.HostRule{Host: "example.com", Credential: "c"})
	w.options.Credentials = map[string]egress.Credential{"c": {Value: values[0], Header: "X-Api-Key: ${value}", Renew: func() (string, error) {
		if i := at.Load(); i < int64(len(values)) {
			return values[i], nil
		}
		return values[0], errors.New("its program failed")
	}}}
	got := make(chan string, 1)
	w.openWithTLS(w.site("example.com", http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("X-Api-Key")
		out.Header().Set("X-Echo", strings.Join(values, " "))
		io.WriteString(out, strings.Join(values[:at.Load()+1], " "))
	})))
	placeholder := w.placeholder("c")
	client := w.client(w.trustAuthority())
	for i, want := range values {
		at.Store(int64(i))
		for range 2 {
			r, _ := http.NewRequest("GET", "https://example.com/", nil)
			r.Header.Set("X-Api-Key", placeholder)
			answer, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(answer.Body)
			answer.Body.Close()
			if sent := <-got; err != nil || sent != want {
				t.Errorf("request %d: the host got %s, %v, want %s", i, sent, err, want)
			}
			for _, value := range values[:i+1] {
				if text := string(body) + answer.Header.Get("X-Echo"); strings.Contains(text, value[8:]) {
					t.Errorf("request %d: the answer %q has %s", i, text, value)
				}
			}
			if !strings.HasPrefix(string(body), placeholder) {
				t.Errorf("request %d: got %s, want the placeholder %s", i, body, placeholder)
			}
		}
	}
	at.Store(int64(len(values)))
	if code, body, err := get(client, "https://example.com/"); code != http.StatusForbidden && err == nil || len(got) > 0 {
		t.Errorf("without a value: got %d %s, %v", code, body, err)
	}
}

// TestCredentials checks which requests get the credential and which golem refuses.
func TestCredentials(t *testing.T) {
	got := make(chan http.Header, 1)
	var query string
	w := newVendor(t, http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		query = r.URL.RawQuery
		r.Header.Set("Trailers", fmt.Sprint(r.Trailer))
		got <- r.Header
		out.Header().Set("Set-Cookie", "session=1")
		io.WriteString(out, "ok")
	}))
	fake, git := w.placeholder("vendor"), w.placeholder("git")
	if len(fake) != len(token) || !strings.HasPrefix(fake, "sk-ant-") || !strings.HasSuffix(fake, "placeholder") || fake == token || strings.Contains(fake, token[15:30]) {
		t.Errorf("got placeholder %q", fake)
	}
	if len(git) != len(otherSecret) || !strings.HasPrefix(git, "ghp_") {
		t.Errorf("got placeholder %q", git)
	}
	basic := func(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) }
	for name, test := range map[string]struct {
		url    string
		header []string
		code   int
		query  string
	}{
		"the placeholder":              {"https://example.com/v1", []string{"X-Api-Key", fake}, 200, ""},
		"nothing":                      {"https://example.com/v1", nil, 200, ""},
		"the placeholder twice":        {"https://example.com/v1", []string{"X-Api-Key", fake, "Authorization", "Bearer " + fake}, 200, ""},
		"harmless names":               {"https://example.com/v1?page_token=x&max_tokens=7", []string{"Idempotency-Key", "x"}, 200, "page_token=x&max_tokens=7"},
		"an odd query":                 {"https://example.com/v1?b;a=%zz&&c", nil, 200, "b;a=%zz&&c"},
		"the placeholder in the query": {"https://example.com/v1?a=1&key=" + fake, nil, 200, "a=1"},
		"another key":                  {"https://example.com/v1", []string{"X-Api-Key", "sk-ant-attacker"}, 403, ""},
		"another key elsewhere":        {"https://example.com/v1", []string{"Authorization", "Bearer attacker"}, 403, ""},
		"a second value":               {"https://example.com/v1", []string{"X-Api-Key", fake, "X-Api-Key", "attacker"}, 403, ""},
		"a cookie":                     {"https://example.com/v1", []string{"Cookie", "session=attacker"}, 403, ""},
		"a token":                      {"https://example.com/v1", []string{"Private-Token", "attacker"}, 403, ""},
		"proxy authentication":         {"https://example.com/v1", []string{"Proxy-Authorization", "Basic x"}, 403, ""},
		"a key in the query":           {"https://example.com/v1?key=attacker", nil, 403, ""},
		"an escaped name":              {"https://example.com/v1?%61pi_key=attacker", nil, 403, ""},
		"after a semicolon":            {"https://example.com/v1?a;access_token=attacker", nil, 403, ""},
		"a key of old clients":         {"https://example.com/v1?bearer_token=attacker", nil, 403, ""},
		"an upload of somebody else":   {"https://example.com/v1?upload_id=attacker&upload_protocol=resumable", nil, 403, ""},
		"requests in a request":        {"https://example.com/batch", []string{"Content-Type", "Multipart/Mixed; boundary=x"}, 403, ""},
		"a signed URL":                 {"https://example.com/v1?X-Amz-Signature=attacker", nil, 403, ""},
		"a key as a protocol":          {"https://example.com/v1", []string{"Sec-Websocket-Protocol", "realtime, openai-insecure-api-key.attacker"}, 403, ""},
		"the header made hop by hop":   {"https://example.com/v1", []string{"Connection", "x-api-key"}, 200, ""},
		"basic":                        {"https://git.example.com/x", []string{"Authorization", basic("me:" + git)}, 200, ""},
		"another basic":                {"https://git.example.com/x", []string{"Authorization", basic("me:attacker")}, 403, ""},
		"another placeholder":          {"https://git.example.com/x", []string{"Authorization", "Bearer " + fake}, 403, ""},
		"without TLS":                  {"http://example.com/v1", []string{"X-Api-Key", fake}, 403, ""},
		"no value":                     {"https://none.example.com/", nil, 403, ""},
	} {
		r, err := http.NewRequest("GET", test.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(test.header); i += 2 {
			r.Header.Add(test.header[i], test.header[i+1])
		}
		answer, err := w.client(w.trustAuthority("http/1.1")).Do(r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != test.code || strings.Contains(string(body), token) {
			t.Errorf("%s: got %s, %q", name, answer.Status, body)
		}
		if answer.StatusCode != 200 {
			continue
		}
		h := <-got
		want := map[string][]string{"X-Api-Key": {token}}
		if strings.Contains(test.url, "git.") {
			want = map[string][]string{"Authorization": {basic("x-access-token:" + otherSecret)}}
		}
		for _, each := range []string{"X-Api-Key", "Authorization", "Cookie"} {
			if !slices.Equal(h[each], want[each]) {
				t.Errorf("%s: the server got %s %q, want %q", name, each, h[each], want[each])
			}
		}
		if query != test.query || answer.Header.Get("Set-Cookie") != "" || h.Get("Accept-Encoding") != "identity" {
			t.Errorf("%s: query %q, answer %v, request %v", name, query, answer.Header, h)
		}
	}
}

// TestCredentialStaysAtItsHost checks that another host gets the placeholder only, and
// that golem records it.
func TestCredentialStaysAtItsHost(t *testing.T) {
	got := make(chan http.Header, 1)
	w := newVendor(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header }))
	r, err := http.NewRequest("GET", "https://api.example.com/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", w.placeholder("vendor"))
	answer, err := w.client(w.trustAuthority()).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if h := <-got; h.Get("X-Api-Key") != w.placeholder("vendor") {
		t.Errorf("another host got %v", h)
	}
	if r := w.awaitStep(egress.Noticed, "api.example.com"); !strings.Contains(r.Why, "credential vendor in X-Api-Key") || strings.Contains(r.Why, token) {
		t.Errorf("got %+v", r)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.records {
		if strings.Contains(fmt.Sprint(r), token) {
			t.Errorf("a record has the secret: %+v", r)
		}
	}
}

// TestEchoedSecret checks that an answer with the secret does not reach the program,
// however the server sends it.
func TestEchoedSecret(t *testing.T) {
	w := newVendor(t, http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		flush := func() { out.(http.Flusher).Flush() }
		key := r.Header.Get("X-Api-Key")
		switch r.URL.Path {
		case "/hint":
			out.Header().Set("Link", key)
			out.WriteHeader(http.StatusEarlyHints)
			out.Header().Del("Link")
			io.WriteString(out, "hinted")
		case "/header":
			out.Header().Set("X-Echo", "key "+key)
		case "/plain":
			out.Header().Set("Content-Length", fmt.Sprint(len(key)*3+2))
			io.WriteString(out, key+"\n"+key+key+"\n")
		case "/bytes":
			for _, b := range []byte("<" + key[:10] + key + ">" + key[:20]) {
				out.Write([]byte{b})
				flush()
			}
		case "/range":
			http.ServeContent(out, r, "x.txt", time.Time{}, strings.NewReader(key))
		case "/gzip":
			out.Header().Set("Content-Encoding", "gzip")
			io.WriteString(out, "compressed "+key)
		case "/trailer":
			out.Header().Set("Trailer", "X-Echo")
			io.WriteString(out, "body")
			out.Header().Set("X-Echo", key)
		case "/basic":
			io.WriteString(out, r.Header.Get("Authorization")+" "+otherSecret)
		case "/big":
			for range 3000 {
				io.WriteString(out, strings.Repeat("x", 977)+key)
			}
		}
	}))
	fake := w.placeholder("vendor")
	basic := base64.StdEncoding.EncodeToString([]byte("x-access-token:" + w.placeholder("git")))
	for _, protocol := range []string{"http/1.1", "h2"} {
		for url, want := range map[string]string{
			"https://example.com/header":    "",
			"https://example.com/hint":      "hinted",
			"https://example.com/plain":     fake + "\n" + fake + fake + "\n",
			"https://example.com/bytes":     "<" + token[:10] + fake + ">" + fake[:20],
			"https://example.com/range":     fake,
			"https://example.com/trailer":   "body",
			"https://example.com/gzip":      "golem refused this request: the server compressed its answer",
			"https://git.example.com/basic": "Basic " + basic + " " + w.placeholder("git"),
			"https://example.com/big":       strings.Repeat(strings.Repeat("x", 977)+fake, 3000),
		} {
			hint := ""
			trace := &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error { hint = h.Get("Link"); return nil }}
			r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), "GET", url, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Range", "bytes=3-20")
			r.Header.Set("Accept-Encoding", "gzip")
			answer, err := w.client(w.trustAuthority(protocol)).Do(r)
			if err != nil {
				t.Errorf("%s: %v", url, err)
				continue
			}
			b, err := io.ReadAll(answer.Body)
			answer.Body.Close()
			if body := string(b); err != nil || body != want && !(strings.HasPrefix(want, "golem refused") && strings.HasPrefix(body, want)) {
				t.Errorf("%s %s: got %.200q, %v, want %.200q", protocol, url, body, err, want)
			}
			if strings.Contains(url, "/hint") != (hint == fake) {
				t.Errorf("%s %s: got the hint %q", protocol, url, hint)
			}
			if all := fmt.Sprint(answer.Header, answer.Trailer); strings.Contains(all, token) || strings.Contains(url, "/header") && !strings.Contains(all, "key "+fake) ||
				strings.Contains(url, "/trailer") && answer.Trailer.Get("X-Echo") != fake {
				t.Errorf("%s %s: got %s", protocol, url, all)
			}
		}
	}
}

// TestEchoElsewhere checks that a host does not return a secret in the answer to a request
// that has another credential or none.
func TestEchoElsewhere(t *testing.T) {
	const other = "ghp_kPqZ7vXw2LmN9tYb4RsD8fGh3JcV6aEu1QxT"
	w := newWorld(t, policy.HostRule{Host: "example.com", Credential: "vendor", Paths: []string{"/v1/**"}}, policy.HostRule{Host: "example.com", Paths: []string{"/log"}},
		policy.HostRule{Host: "example.com", Credential: "git", Paths: []string{"/git/**"}})
	w.options.Credentials = map[string]egress.Credential{"vendor": {Value: token, Header: "x-api-key: ${value}"}, "git": {Value: other, Header: "Authorization: Bearer ${value}"}}
	var log []string
	w.openWithTLS(w.site("example.com", http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		log = append(log, r.Header.Get("X-Api-Key"), r.Header.Get("Authorization"))
		out.Header().Set("X-Log", strings.Join(log, ","))
		io.WriteString(out, strings.Join(log, "\n"))
	})))
	client := w.client(w.trustAuthority())
	for _, path := range []string{"/v1/x", "/git/x", "/log"} {
		answer, err := client.Get("https://example.com" + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if all := fmt.Sprint(answer.Header, string(body)); err != nil || strings.Contains(all, token) || strings.Contains(all, other) || !strings.Contains(all, w.placeholder("vendor")) {
			t.Errorf("%s: got %s, %v", path, all, err)
		}
	}
	if len(log) != 6 || log[0] != token || log[3] != "Bearer "+other || log[4] != "" || log[5] != "" {
		t.Errorf("the host got %q", log)
	}
}

// TestExpiredCredential checks that the journal says why a program with a placeholder is not
// authorized.
func TestExpiredCredential(t *testing.T) {
	w := newVendor(t, http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) { http.Error(out, "expired", http.StatusUnauthorized) }))
	for _, host := range []string{"api.example.com", "example.com"} {
		if code, _, err := get(w.client(w.trustAuthority()), "https://"+host+"/v1"); err != nil || code != http.StatusUnauthorized {
			t.Errorf("%s: got %d, %v", host, code, err)
		}
	}
	r := w.await("a notice", func(r egress.Event) bool { return r.Step == egress.Noticed })
	if r.Host != "example.com" || r.Request != "GET /v1" || !strings.HasPrefix(r.Why, "the host does not accept the credential vendor (401); ") {
		t.Errorf("got %+v", r)
	}
}

// TestInvalidCredentials checks that a network does not open with a credential that it
// cannot use, and that the error does not have its value.
func TestInvalidCredentials(t *testing.T) {
	for name, c := range map[string]egress.Credential{
		"no value":      {Header: "X: ${value}"},
		"short":         {Value: "1234567", Header: "X: ${value}"},
		"line end":      {Value: "secret-value\n", Header: "X: ${value}"},
		"no header":     {Value: "secret-value"},
		"no name":       {Value: "secret-value", Header: ": ${value}"},
		"two headers":   {Value: "secret-value", Header: "X: ${value}\r\nY: 1"},
		"bad name":      {Value: "secret-value", Header: "X Y: ${value}"},
		"no variable":   {Value: "secret-value", Header: "X: value"},
		"bad variable":  {Value: "secret-value", Header: "X: ${HOME} ${value}"},
		"no characters": {Value: "--------", Header: "X: ${value}"},
	} {
		o := newWorld(t).options
		o.Credentials = map[string]egress.Credential{"c": c}
		if _, err := egress.New(o); err == nil || c.Value != "" && strings.Contains(err.Error(), c.Value) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestGit lets the real git clone and push. With git read, only the first works.
func TestGit(t *testing.T) {
	for _, read := range []bool{true, false} {
		dir := t.TempDir()
		git := func(args ...string) (string, error) {
			c := exec.Command("git", args...)
			c.Dir = dir
			c.Env = append(os.Environ(), "HOME="+dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_SSL_CAINFO="+filepath.Join(dir, "ca.pem"),
				"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
			out, err := c.CombinedOutput()
			return string(out), err
		}
		must := func(args ...string) string {
			t.Helper()
			out, err := git(args...)
			if err != nil {
				t.Fatalf("git %v: %v\n%s", args, err, out)
			}
			return out
		}
		must("init", "-q", "--bare", "srv/x.git")
		must("-C", "srv/x.git", "config", "http.receivepack", "true")
		must("init", "-q", "-b", "main", "first")
		must("-C", "first", "commit", "-q", "--allow-empty", "-m", "one")
		must("-C", "first", "push", "-q", filepath.Join(dir, "srv/x.git"), "main")
		must("-C", "srv/x.git", "symbolic-ref", "HEAD", "refs/heads/main")

		// The program reaches golem by a port of this machine.
		near := listen(t)
		port := netip.MustParseAddrPort(near.Addr().String()).Port()
		w := newWorld(t, policy.HostRule{Host: "example.com", Ports: []uint16{port}, GitRead: read, Methods: map[bool][]string{false: {"GET", "POST"}}[read]})
		server := w.site("example.com", &cgi.Handler{Path: strings.TrimSpace(must("--exec-path")) + "/git-http-backend",
			Env: []string{"GIT_PROJECT_ROOT=" + filepath.Join(dir, "srv"), "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=me", "HOME=" + dir}})
		w.host("example.com", port, server.Listener.Addr())
		w.openWithTLS(server)
		var relaying sync.WaitGroup
		relaying.Go(func() {
			for {
				c, err := near.Accept()
				if err != nil {
					return
				}
				far, err := w.dial("example.com", port)
				if err != nil {
					t.Error(err)
					c.Close()
					continue
				}
				relaying.Go(func() { io.Copy(far, c); far.Close() })
				relaying.Go(func() { io.Copy(c, far); c.Close() })
			}
		})
		t.Cleanup(func() { near.Close(); w.network.Close(); relaying.Wait() })
		if err := os.WriteFile(filepath.Join(dir, "ca.pem"), w.network.Authority(), 0o600); err != nil {
			t.Fatal(err)
		}
		options := []string{"-c", fmt.Sprintf("http.curloptResolve=example.com:%d:127.0.0.1", port)}
		url := fmt.Sprintf("https://example.com:%d/x.git", port)
		must(append(options, "clone", "-q", url, "second")...)
		must("-C", "second", "commit", "-q", "--allow-empty", "-m", "two")
		out, err := git(append(options, "-C", "second", "push", "-q", "origin", "main")...)
		if log := must("-C", "srv/x.git", "log", "--format=%s"); read != (err != nil) || read == strings.Contains(log, "two") {
			t.Errorf("git read %v: push: %v\n%s\nthe server has %s", read, err, out, log)
		}
		must(append(options, "-C", "second", "fetch", "-q")...)
	}
}
