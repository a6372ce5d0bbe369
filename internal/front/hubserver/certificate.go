package hubserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/files/durable"
)

// certificate returns the settings of the encryption, and the certificate that clients need to
// know: none if theirs comes from --tls, which their system knows.
func (f *flags) certificate() (*tls.Config, string, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	if f.tls != "" {
		certificate, key, ok := strings.Cut(f.tls, ",")
		if !ok {
			return nil, "", usageError("--tls takes two files: CERT.pem,KEY.pem")
		}
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, "", usageError(fmt.Sprintf("--tls: %v", err))
		}
		config.Certificates = []tls.Certificate{pair}
		return config, "", nil
	}
	name := filepath.Join(f.data, "certificate.pem")
	pair, err := tls.LoadX509KeyPair(name, name)
	if errors.Is(err, os.ErrNotExist) {
		if err = f.makeCertificate(name); err == nil {
			pair, err = tls.LoadX509KeyPair(name, name)
		}
	}
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w; remove the file, and the hub makes a new certificate; credentials must be made anew then", name, err)
	}
	config.Certificates = []tls.Certificate{pair}
	return config, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})), nil
}

// makeCertificate makes a certificate for ten years, for all names by which the hub is reached.
func (f *flags) makeCertificate(name string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	number, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: number, Subject: pkix.Name{CommonName: "golem hub"}, NotBefore: now.Add(-24 * time.Hour), NotAfter: now.AddDate(10, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IsCA: true, BasicConstraintsValid: true}
	for _, host := range f.hosts() {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})...)
	if err := os.MkdirAll(f.data, 0o700); err != nil {
		return err
	}
	return durable.WriteFile(name, text, 0o600)
}

// hosts returns the names by which the hub is reached.
func (f *flags) hosts() (list []string) {
	list = []string{"localhost", "127.0.0.1", "::1"}
	for _, at := range append([]string{f.listen}, f.public...) {
		if host, _, err := net.SplitHostPort(at); err == nil && host != "" {
			list = append(list, host)
		}
	}
	if name, err := os.Hostname(); err == nil {
		list = append(list, name)
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return list
	}
	for _, a := range addresses {
		if ip, _, err := net.ParseCIDR(a.String()); err == nil && !ip.IsLoopback() && !ip.IsLinkLocalUnicast() {
			list = append(list, ip.String())
		}
	}
	return list
}
