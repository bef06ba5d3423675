package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	gatewayv1beta1 "sigs.k8s.io/gateway-api/apis/v1beta1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

func TestSchemeKnowsWhatIsReadAndWritten(t *testing.T) {
	scheme := newScheme()
	for _, obj := range []runtime.Object{
		&v1beta1.StreamIngress{}, &v1beta1.StreamIngressClass{}, &v1beta1.EdgeClaim{},
		&corev1.ConfigMap{}, &corev1.Service{}, &corev1.Namespace{}, &corev1.Secret{}, &discoveryv1.EndpointSlice{}, &gatewayv1beta1.ReferenceGrant{},
	} {
		if kinds, _, err := scheme.ObjectKinds(obj); err != nil || len(kinds) != 1 {
			t.Errorf("%T: %v, %v", obj, kinds, err)
		}
	}
}

func TestWithClientCA(t *testing.T) {
	dir := t.TempDir()
	for file, text := range map[string]string{"empty.crt": "", "ca.crt": testCA(t)} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	base := &tls.Config{NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS13}
	for name, tc := range map[string]struct {
		file string
		auth tls.ClientAuthType
		err  string
	}{
		"none is named": {"", tls.NoClientCert, ""},
		"one is named":  {filepath.Join(dir, "ca.crt"), tls.RequireAndVerifyClientCert, ""},
		"it is missing": {filepath.Join(dir, "nosuch.crt"), 0, "client CA of the webhook: open " + filepath.Join(dir, "nosuch.crt") + ": no such file or directory"},
		"it holds none": {filepath.Join(dir, "empty.crt"), 0, "client CA of the webhook: " + filepath.Join(dir, "empty.crt") + " holds no certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := withClientCA(base, tc.file)
			if (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err {
				t.Fatalf("got %v, want %s", err, tc.err)
			}
			if err == nil && (c.ClientAuth != tc.auth || (c.ClientCAs != nil) != (tc.file != "") || len(c.NextProtos) != 1) {
				t.Errorf("clients: %v of %v, protocols %v", c.ClientAuth, c.ClientCAs, c.NextProtos)
			}
		})
	}
	if base.ClientCAs != nil {
		t.Error("it has changed what metrics are served with, too")
	}
}

// testCA is a certificate.
func testCA(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
