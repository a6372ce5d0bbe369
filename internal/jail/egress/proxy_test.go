package egress_test

import (
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
)

// TestUpstreamProxy checks that connections leave by the user's proxy: TLS by CONNECT,
// plain HTTP by requests to the proxy. The proxy itself may have a private address.
func TestUpstreamProxy(t *testing.T) {
	w := newWorld(t, append(rules("example.com"), policy.HostRule{Host: "api.example.com", Methods: []string{"GET"}})...)
	var log requestLog
	server := w.site("example.com", &log)
	var mu sync.Mutex
	var seen []string
	var tunnels sync.WaitGroup
	proxy := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.Method+" "+r.Host+" "+r.Header.Get("Proxy-Authorization"))
		mu.Unlock()
		if r.Method != http.MethodConnect {
			r.RequestURI = ""
			r.URL.Host = w.servers[w.publicAddress("example.com", 80)]
			answer, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer answer.Body.Close()
			out.WriteHeader(answer.StatusCode)
			io.Copy(out, answer.Body)
			return
		}
		far, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		near, _, err := out.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		io.WriteString(near, "HTTP/1.1 200 OK\r\n\r\n")
		tunnels.Go(func() { io.Copy(far, near); far.Close() })
		tunnels.Go(func() { io.Copy(near, far); near.Close() })
	}))
	t.Cleanup(func() { w.network.Close(); proxy.Close(); tunnels.Wait() })
	at, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	at.User = url.UserPassword("me", "pass")
	w.options.Proxy = func(*url.URL) (*url.URL, error) { return at, nil }
	w.openWithTLS(server)
	client := w.client(server.Client().Transport.(*http.Transport).TLSClientConfig)
	for _, u := range []string{"https://example.com/a", "http://example.com/b"} {
		if code, body, err := get(client, u); err != nil || code != 200 {
			t.Errorf("%s: got %d, %q, %v", u, code, body, err)
		}
	}
	for _, target := range []string{"x:http://evil.org/", "http://evil.org/", "//evil.org/"} {
		if got := exchange(w.mustDial("example.com", 80), "POST "+target+" HTTP/1.1\r\nHost: evil.org\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 403 ") {
			t.Errorf("%s: got %q", target, got)
		}
	}
	if got := exchange(w.mustDial("example.com", 80), "GET x:http://evil.org/ HTTP/1.1\r\nHost: example.com\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 403 ") {
		t.Errorf("got %q", got)
	}
	if code, body, err := get(w.client(w.trustAuthority()), "https://api.example.com/"); err != nil || code != 200 {
		t.Errorf("with TLS ended: got %d, %q, %v", code, body, err)
	}
	auth := "Basic " + base64.StdEncoding.EncodeToString([]byte("me:pass"))
	mu.Lock()
	defer mu.Unlock()
	if got, want := strings.Join(seen, ", "), "CONNECT example.com:443 "+auth+", GET example.com "+auth+", CONNECT api.example.com:443 "+auth; got != want {
		t.Errorf("the proxy got %s, want %s", got, want)
	}
	if len(w.dialled) > 0 {
		t.Errorf("golem dialled %v itself", w.dialled)
	}
}
