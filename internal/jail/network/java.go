package network

import (
	"crypto/x509"
	"encoding/pem"
	"strconv"

	"software.sslmate.com/src/go-pkcs12"
)

// maxStores is the most bytes of certificates that commands get, in both forms.
const maxStores = 900 << 10

// javaStore returns certificates as a key store for Java. It returns nil if they are too
// many.
func javaStore(certificates []byte) []byte {
	var entries []pkcs12.TrustStoreEntry
	for rest := certificates; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil { // golem skips a certificate that Go cannot read
			entries = append(entries, pkcs12.TrustStoreEntry{Cert: c, FriendlyName: strconv.Itoa(len(entries))})
		}
	}
	data, err := pkcs12.Passwordless.EncodeTrustStoreEntries(entries, "")
	if err != nil || len(certificates)+len(data) > maxStores {
		return nil
	}
	return data
}
