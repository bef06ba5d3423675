package integration

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
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/test/harness"
)

// issuer is an authority that issues serving certificates, as cert-manager's would.
type issuer struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{t: t}
	i.cert, i.key, i.pem = i.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "issuer"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	})
	return i
}

// issue signs a certificate, by itself while there is no authority yet.
func (i *issuer) issue(template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey, []byte) {
	i.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	parent, signer := i.cert, i.key
	if parent == nil {
		parent, signer = template, key
	}
	template.SerialNumber, template.NotBefore = big.NewInt(time.Now().UnixNano()), time.Now().Add(-2*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		i.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		i.t.Fatal(err)
	}
	return cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// mount writes a certificate for localhost to where a replica reads it.
func (i *issuer) mount(dir string, notAfter time.Time) {
	i.t.Helper()
	_, key, cert := i.issue(&x509.Certificate{DNSNames: []string{"localhost"}, NotAfter: notAfter, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		i.t.Fatal(err)
	}
	for name, content := range map[string][]byte{"tls.crt": cert, "tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			i.t.Fatal(err)
		}
	}
}

// inject puts an authority into the webhook configuration, as cert-manager's cainjector would.
func (w *world) inject(authority *issuer) {
	w.t.Helper()
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	configuration.Name = "portcullis"
	edit(w, configuration, func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
		for i := range c.Webhooks {
			c.Webhooks[i].ClientConfig.CABundle = authority.pem
		}
	})
}

// TestDistrust breaks what makes the API server trust a certificate that is mounted. Whoever operates Portcullis is told
// by metrics, which the alerts are made of, and by the log.
func TestDistrust(t *testing.T) {
	t.Parallel()
	w := inWorld(t, start(t, harness.Options{}))
	authority, dir := newIssuer(t), t.TempDir()
	authority.mount(dir, time.Now().Add(time.Hour))
	w.inject(authority)
	r, err := w.StartReplica(t.Context(), "--self-signed-certs=false", "--cert-dir="+dir)
	must(w, err)
	asked := func() error { // none is stored, and there is no such class
		err := w.Client.Create(t.Context(), sti("default/s", of("unknown"), tcp(1)), client.DryRunAll)
		return errors.New(strings.ReplaceAll(err.Error(), "\n", " "))
	}
	says := func(text string) func() error {
		return func() error {
			if err := asked(); !strings.Contains(err.Error(), text) {
				return err
			}
			return nil
		}
	}
	metric := func(want float64) func() error {
		return func() error { return is(w.metric("portcullis_webhook_certificate_trusted"), want) }
	}
	w.eventually("Portcullis to be asked", says("spec.className"))
	w.eventually("trust", metric(1))

	w.inject(newIssuer(t))
	w.eventually("the API server to refuse", says("certificate signed by unknown authority"))
	w.eventually("a broken authority to be seen", metric(0))
	mustContain(t, r.LogTail(1<<20), "The API server does not trust the serving certificate", "signed by unknown authority")
	w.ready(r, "+certificate +caches +webhook")

	w.inject(authority)
	w.eventually("Portcullis to be asked again", says("spec.className"))
	w.eventually("trust again", metric(1))
	mustContain(t, r.LogTail(1<<20), "The API server trusts the serving certificate")

	authority.mount(dir, time.Now().Add(-time.Minute))
	w.ready(r, "-certificate +caches -webhook")
	w.eventually("an expired certificate to be seen", metric(0))
	if left := time.Until(time.Unix(int64(w.metric("portcullis_webhook_certificate_expiry_timestamp_seconds")), 0)); left > 0 {
		t.Errorf("the metric says that the certificate is valid for %s", left)
	}
	mustContain(t, r.LogTail(1<<20), "Not ready to serve", "expired at")
}
