package egress

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
)

// An Authority makes certificates for the hosts whose requests golem reads. Its keys exist
// only in memory. It is constrained to these hosts: a program that trusts it cannot be
// made to trust golem for another one.
type Authority struct {
	now     func() time.Time
	root    *x509.Certificate
	rootKey *ecdsa.PrivateKey
	leafKey *ecdsa.PrivateKey
	pem     []byte

	mu     sync.Mutex
	leaves map[string]*tls.Certificate
}

// AuthorityFile is the name of a file with an authority's certificate in a directory for
// OpenSSL: the hash of its subject, authorityName.
const AuthorityFile = "0df63417.0"

const authorityName = "golem session"

const (
	rootLife = 365 * 24 * time.Hour
	leafLife = 30 * 24 * time.Hour
	maxSkew  = 24 * time.Hour // of clocks
)

// NewAuthority returns the authority for the rules that need one, nil if none does. The
// caller makes it before the network, so that programs can trust it from the start.
func NewAuthority(hosts policy.Hosts, now func() time.Time) (*Authority, error) {
	root := &x509.Certificate{
		Subject:               pkix.Name{CommonName: authorityName},
		NotBefore:             now().Add(-maxSkew),
		NotAfter:              now().Add(rootLife),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
		PermittedDNSDomainsCritical: true,
	}
	needed := false
	for _, r := range hosts.Rules() {
		if !r.NeedsRequests() {
			continue
		}
		needed = true
		if a, err := netip.ParseAddr(r.Host); err == nil {
			root.PermittedIPRanges = append(root.PermittedIPRanges, &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())})
		} else {
			root.PermittedDNSDomains = append(root.PermittedDNSDomains, strings.TrimPrefix(r.Host, "*."))
		}
	}
	if !needed {
		return nil, nil
	}
	// No constraint for a kind of name would permit all of that kind.
	if root.PermittedIPRanges == nil {
		root.ExcludedIPRanges = []*net.IPNet{
			{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}, {IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}}
	}
	if root.PermittedDNSDomains == nil {
		root.PermittedDNSDomains = []string{"invalid"}
	}
	root.PermittedDNSDomains = slices.Compact(root.PermittedDNSDomains)
	a := &Authority{now: now, leaves: map[string]*tls.Certificate{}}
	var err error
	if a.rootKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	if a.leafKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	der, err := a.sign(root, root, &a.rootKey.PublicKey)
	if err != nil {
		return nil, err
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	a.root, err = x509.ParseCertificate(der)
	return a, err
}

func (a *Authority) sign(template, parent *x509.Certificate, key *ecdsa.PublicKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	return x509.CreateCertificate(rand.Reader, template, parent, key, a.rootKey)
}

// leaf returns a certificate for a host. A network has at most as many as names.
func (a *Authority) leaf(host string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.leaves[host]; c != nil && a.now().Before(c.Leaf.NotAfter.Add(-maxSkew)) {
		return c, nil
	}
	template := &x509.Certificate{
		NotBefore: a.now().Add(-maxSkew), NotAfter: a.now().Add(leafLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if address, err := netip.ParseAddr(host); err == nil {
		template.IPAddresses = []net.IP{address.AsSlice()}
	} else {
		template.DNSNames = []string{host}
	}
	der, err := a.sign(template, a.root, &a.leafKey.PublicKey)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	c := &tls.Certificate{Certificate: [][]byte{der, a.root.Raw}, PrivateKey: a.leafKey, Leaf: leaf}
	a.leaves[host] = c
	return c, nil
}

// PEM returns the certificate that programs must trust. It returns nil if a is nil.
func (a *Authority) PEM() []byte {
	if a == nil {
		return nil
	}
	return slices.Clone(a.pem)
}

// endTLS reads the requests inside TLS. The certificate is for the host that the hello
// names.
func (s *stream) endTLS(ctx context.Context) error {
	c, err := s.n.o.Authority.leaf(s.host)
	if err != nil {
		return err
	}
	s.ended = true
	return s.serveWeb(ctx, &tls.Config{Certificates: []tls.Certificate{*c}, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12})
}
