package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// validity is long, because nothing renews these certificates; they are worth nothing outside this machine.
const validity = 10 * 365 * 24 * time.Hour

// pki is the certificates and keys of one control plane, kept in a directory.
type pki struct {
	dir string
	ca  *keyPair
}

// keyPair is a certificate and its key, parsed and as PEM.
type keyPair struct {
	cert            *x509.Certificate
	key             *ecdsa.PrivateKey
	certPEM, keyPEM []byte
}

// openPKI returns the certificates in dir; the first time it makes them.
func openPKI(dir string) (*pki, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	p := &pki{dir: dir}
	var err error
	p.ca, err = loadKeyPair(p.path("ca.crt"), p.path("ca.key"))
	if errors.Is(err, fs.ErrNotExist) {
		err = p.create()
	}
	return p, err
}

// create makes everything anew. The authority is written last: it says that all of it is there.
func (p *pki) create() error {
	var err error
	if p.ca, err = issue(nil, &x509.Certificate{
		Subject: pkix.Name{CommonName: "portcullis local authority"},
		IsCA:    true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}); err != nil {
		return err
	}
	server, err := issue(p.ca, &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return err
	}
	tokens, err := issue(p.ca, &x509.Certificate{Subject: pkix.Name{CommonName: "service account tokens"}})
	if err != nil {
		return err
	}
	for _, file := range []struct {
		name    string
		content []byte
	}{
		{"apiserver.crt", server.certPEM},
		{"apiserver.key", server.keyPEM},
		{"serviceaccount.key", tokens.keyPEM},
		{"ca.crt", p.ca.certPEM},
		{"ca.key", p.ca.keyPEM},
	} {
		if err := os.WriteFile(p.path(file.name), file.content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// client returns a certificate, and its key, with which the API server takes a client for user.
func (p *pki) client(user string, groups []string) (cert, key []byte, err error) {
	pair, err := issue(p.ca, &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return nil, nil, err
	}
	return pair.certPEM, pair.keyPEM, nil
}

func (p *pki) path(name string) string {
	return filepath.Join(p.dir, name)
}

// issue completes template and signs it with the authority's key, or with its own when there is no authority.
func issue(ca *keyPair, template *x509.Certificate) (*keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, err
	}
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = template.NotBefore.Add(validity)
	template.KeyUsage |= x509.KeyUsageDigitalSignature
	parent, signer := template, key
	if ca != nil {
		parent, signer = ca.cert, ca.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &keyPair{
		cert: cert, key: key,
		certPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		keyPEM:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
	}, nil
}

// loadKeyPair reads what create wrote.
func loadKeyPair(certFile, keyFile string) (*keyPair, error) {
	certPEM, err := os.ReadFile(certFile)
	if err != nil {
		return nil, err
	}
	keyPEM, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, err
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New(keyFile + " holds no ECDSA key")
	}
	return &keyPair{cert: pair.Leaf, key: key, certPEM: certPEM, keyPEM: keyPEM}, nil
}
