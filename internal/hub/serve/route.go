package serve

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"time"
)

// routeTLS returns the encryption between the hubs of a cluster. They derive the same key from
// their secret, and each accepts only this key from the other side.
func (s secret) routeTLS() (*tls.Config, error) {
	key := ed25519.NewKeyFromSeed(s.key("cluster certificate"))
	public := key.Public().(ed25519.PublicKey)
	// The key counts, not the certificate around it. So its dates do not matter.
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "golem hub"}, NotBefore: time.Unix(0, 0), NotAfter: time.Unix(0, 0).AddDate(1000, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, ClientAuth: tls.RequireAnyClientCert,
		InsecureSkipVerify: true, // VerifyConnection compares the key instead
		VerifyConnection: func(c tls.ConnectionState) error {
			if len(c.PeerCertificates) == 0 || !public.Equal(c.PeerCertificates[0].PublicKey) {
				return errors.New("the other side is no hub of this cluster; each hub needs a copy of the first one's hub.json")
			}
			return nil
		},
	}, nil
}
