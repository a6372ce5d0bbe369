package egress_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/netip"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
)

// newBench returns a client that goes one of the ways through golem, or around it.
func newBench(b *testing.B, around bool, rule policy.HostRule, handler http.Handler) *http.Client {
	w := newWorld(b, rule)
	server := w.site("example.com", handler)
	w.openWithTLS(server)
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AddCert(server.Certificate())
	if rule.NeedsRequests() {
		config = w.trustAuthority()
	}
	config.NextProtos = []string{"http/1.1"}
	client := w.client(config)
	if around {
		w.around = func(port uint16) string { return w.servers[netip.AddrPortFrom(w.names["example.com"][0], port)] }
	}
	return client
}

var benches = []struct {
	name, url string
	around    bool
	rule      policy.HostRule
}{
	{"http/direct", "http://example.com/", true, policy.HostRule{Host: "example.com"}},
	{"http/golem", "http://example.com/", false, policy.HostRule{Host: "example.com"}},
	{"tls/direct", "https://example.com/", true, policy.HostRule{Host: "example.com"}},
	{"tls/passed", "https://example.com/", false, policy.HostRule{Host: "example.com"}},
	{"tls/ended", "https://example.com/", false, policy.HostRule{Host: "example.com", Methods: []string{"GET"}}},
}

// BenchmarkFirstByte opens a connection for each request.
func BenchmarkFirstByte(b *testing.B) {
	for _, each := range benches {
		b.Run(each.name, func(b *testing.B) {
			client := newBench(b, each.around, each.rule, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "x") }))
			client.Transport.(*http.Transport).DisableKeepAlives = true
			for b.Loop() {
				if _, _, err := get(client, each.url); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCopy reads a large answer.
func BenchmarkCopy(b *testing.B) {
	const size = 256 << 20
	for _, each := range benches {
		b.Run(each.name, func(b *testing.B) {
			client := newBench(b, each.around, each.rule, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				io.CopyBuffer(struct{ io.Writer }{w}, io.LimitReader(zeros{}, size), make([]byte, 64<<10))
			}))
			b.SetBytes(size)
			for b.Loop() {
				answer, err := client.Get(each.url)
				if err != nil {
					b.Fatal(err)
				}
				if n, err := io.Copy(io.Discard, answer.Body); n != size || err != nil {
					b.Fatal(n, err)
				}
				answer.Body.Close()
			}
		})
	}
}
