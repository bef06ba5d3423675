package e2e

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"testing"
	"time"
)

// TestCertificatesAreRotated has cert-manager renew the certificate and its authority, and lose the Secret, while users
// create StreamIngresses. Nobody notices.
func TestCertificatesAreRotated(t *testing.T) {
	_, err := tryKubectl("", "get", "certificate", "portcullis-webhook", "-n", system)
	needs(t, err == nil, "cert-manager makes certificates in the overlay default only")
	found := replicas(t)
	t.Cleanup(bePatient(t))
	u := busy(t, "rotated")
	time.Sleep(settling)
	for _, c := range []struct {
		what   string
		change func()
	}{
		{"the certificate is renewed", func() { renew(t, "portcullis-webhook") }},
		{"its Secret is lost", func() { kubectl(t, "delete", "secret", "portcullis-webhook-cert", "-n", system) }},
		{"its authority is renewed", func() {
			former := secretCertificate(t, "portcullis-ca")
			renew(t, "portcullis-ca")
			awaitAnother(t, "portcullis-ca", former)
			renew(t, "portcullis-webhook")
		}},
	} {
		former := secretCertificate(t, "portcullis-webhook-cert")
		c.change()
		latest := awaitAnother(t, "portcullis-webhook-cert", former)
		for _, r := range found {
			// kubelet looks at Secrets once a minute, and at each change of a pod.
			kubectl(t, "annotate", "pod", r.Metadata.Name, "-n", system, "--overwrite", fmt.Sprintf("e2e/look=%d", time.Now().UnixNano()))
			eventually(t, r.Metadata.Name+" to serve the latest certificate when "+c.what, func() error {
				if got := served(t, r); got != latest {
					return fmt.Errorf("it serves %s, want %s", got, latest)
				}
				return nil
			})
		}
		t.Logf("served since %s: %s", c.what, latest)
	}
	time.Sleep(settling)
	u.stop()
	u.report(t)
	u.noneFailed(t)
	u.keptTheirWord(t)
}

// renew does what `cmctl renew` does.
func renew(t *testing.T, certificate string) {
	t.Helper()
	patch, err := json.Marshal([]any{map[string]any{"op": "add", "path": "/status/conditions/-", "value": map[string]any{
		"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "renewed by a test",
		"lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, "patch", "certificate", certificate, "-n", system, "--subresource=status", "--type=json", "-p", string(patch))
}

// secretCertificate is the serial number of the certificate in a Secret, empty without one.
func secretCertificate(t *testing.T, secret string) string {
	t.Helper()
	out, err := tryKubectl("", "get", "secret", secret, "-n", system, "--ignore-not-found", "-o", `jsonpath={.data.tls\.crt}`)
	if err != nil {
		t.Fatal(err)
	}
	content, err := base64.StdEncoding.DecodeString(out)
	if err != nil {
		t.Fatal(err)
	}
	return serial(content)
}

// serial is the serial number of the first certificate in a text, empty without one.
func serial(text []byte) string {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			return cert.SerialNumber.Text(16)
		}
	}
	return ""
}

// awaitAnother waits until there is another certificate in a Secret than the former.
func awaitAnother(t *testing.T, secret, former string) (now string) {
	t.Helper()
	eventually(t, "another certificate in "+secret, func() error {
		if now = secretCertificate(t, secret); now == "" || now == former {
			return errors.New("it is not there")
		}
		return nil
	})
	return now
}

// served is the serial number of the certificate that a replica shows to who connects to its webhook server.
func served(t *testing.T, r replica) string {
	t.Helper()
	address, stop, err := forward(r.Metadata.Name, 9443)
	if err != nil {
		t.Log(err)
		return ""
	}
	defer stop()
	shown, err := atForward("openssl", "s_client", "-connect", address).Output()
	if err != nil {
		t.Logf("connecting to %s: %v", r.Metadata.Name, err)
	}
	return serial(shown)
}
