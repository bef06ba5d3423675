package harness

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// Issuer is an authority that issues serving certificates, as cert-manager's would.
type Issuer struct {
	// PEM is its certificate, for those who are to trust it.
	PEM []byte

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewIssuer makes an authority.
func NewIssuer() (*Issuer, error) {
	i := &Issuer{}
	der, key, err := i.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "issuer"}, NotAfter: time.Now().Add(10000 * time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	if err != nil {
		return nil, err
	}
	i.PEM, i.key = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key
	i.cert, err = x509.ParseCertificate(der)
	return i, err
}

// issue signs a certificate, by itself while there is no authority yet.
func (i *Issuer) issue(template *x509.Certificate) (der []byte, key *ecdsa.PrivateKey, err error) {
	if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, nil, err
	}
	parent, signer := i.cert, i.key
	if parent == nil {
		parent, signer = template, key
	}
	template.SerialNumber, template.NotBefore = big.NewInt(time.Now().UnixNano()), time.Now().Add(-2*time.Hour)
	der, err = x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	return der, key, err
}

// Mount writes a certificate for localhost, and its key, to where a replica reads them.
func (i *Issuer) Mount(dir string, notAfter time.Time) error {
	cert, key, err := i.issue(&x509.Certificate{
		DNSNames: []string{"localhost"}, NotAfter: notAfter, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	write := func(name, kind string, der []byte) error {
		return os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
	}
	return errors.Join(write("tls.crt", "CERTIFICATE", cert), write("tls.key", "PRIVATE KEY", keyDER))
}
