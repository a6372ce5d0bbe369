package mcp

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/golem-forge/golem/internal/work/program"
)

// TestTLS checks that an address that other machines can reach accepts only TLS.
func TestTLS(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	cert, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	put := func(kind string, data []byte) string {
		name := filepath.Join(t.TempDir(), "file.pem")
		if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	h := newTestServer(t, map[string]string{"a.txt": "hello\n"})
	address, token := h.serveHTTP(program.HTTPOptions{Address: "0.0.0.0:0", Anywhere: true, Cert: put("CERTIFICATE", cert), Key: put("PRIVATE KEY", secret), Hosts: []string{"box.example"}})
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := http.Get("http://127.0.0.1:" + port + endpoint); err == nil {
		if r.Body.Close(); r.StatusCode != 400 {
			t.Errorf("without TLS: got %d", r.StatusCode)
		}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
	client := &http.Client{Transport: asBox{&http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}, token}}
	c := h.connect(&mcp.StreamableClientTransport{Endpoint: "https://127.0.0.1:" + port + endpoint, HTTPClient: client}, "2025-11-25", nil, nil)
	if text, ok := use(t, c, "read_file", map[string]any{"path": "/a.txt"}); !ok || !strings.Contains(text, "hello") {
		t.Errorf("got %q", text)
	}
}

// asBox sends requests with the token to a name that the server was given.
type asBox struct {
	http.RoundTripper
	token string
}

func (b asBox) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Host = "box.example"
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.RoundTripper.RoundTrip(r)
}
