package certs

import (
	"context"
	"crypto/tls"
	"slices"
	"testing"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	corev1 "k8s.io/api/core/v1"
)

func TestEveryNameIsInTheCertificate(t *testing.T) {
	issuedFor := func(names ...string) *corev1.Secret {
		secret, err := issue(newRotator(Options{DNSNames: names}))
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	spoiled := issuedFor("a.test")
	spoiled.Data[certFile] = []byte("garbage")
	noAuthority := issuedFor("a.test")
	noAuthority.Data[caKeyFile] = nil

	for name, test := range map[string]struct {
		stored  *corev1.Secret
		replace bool
	}{
		"one of two": {issuedFor("a.test"), true},
		"both":       {issuedFor("b.test", "a.test"), false},
		"what is no certificate is the rotator's":    {spoiled, false},
		"what has no authority is the rotator's":     {noAuthority, false},
		"an empty Secret is the rotator's to fill":   {&corev1.Secret{}, false},
		"more names than are needed may be in there": {issuedFor("a.test", "b.test", "c.test"), false},
	} {
		t.Run(name, func(t *testing.T) {
			writer, wanted := &secretWriter{}, []string{"a.test", "b.test"}
			p := newPatientRotator(test.stored, writer, wanted)
			if done, err := p.prepare(t.Context()); err != nil || !done {
				t.Fatalf("prepare returned %v, %v", done, err)
			}
			if (writer.updated != nil) != test.replace {
				t.Fatalf("wrote %v", writer.updated)
			}
			if !test.replace {
				return
			}
			data := writer.updated.(*corev1.Secret).Data
			pair, err := tls.X509KeyPair(data[certFile], data[keyFile])
			if err != nil || !slices.Equal(pair.Leaf.DNSNames, wanted) {
				t.Errorf("the new certificate is for %v, %v", pair.Leaf, err)
			}
			if valid, err := rotator.ValidCert(data[caFile], data[certFile], data[keyFile], "b.test", nil, time.Now()); !valid {
				t.Errorf("cert-controller does not accept it: %v", err)
			}
		})
	}
}

func TestTheProcessOutlivesTheRotator(t *testing.T) {
	secret, err := issue(newRotator(Options{DNSNames: []string{"a.test"}}))
	if err != nil {
		t.Fatal(err)
	}
	log := &logLines{}
	p := newPatientRotator(secret, &secretWriter{}, []string{"a.test"})
	p.log = log.logger()
	p.rotator = &rotator.CertRotator{} // Ends at once, without a reader.

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Start(ctx) }()
	eventually(t, func() error {
		if len(log.about("gave up")) == 0 {
			return context.DeadlineExceeded
		}
		return nil
	})
	select {
	case err := <-ended:
		t.Fatalf("Start returned %v", err)
	default:
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Start returned %v at the end", err)
	}
}

func newPatientRotator(stored *corev1.Secret, writer *secretWriter, names []string) *patientRotator {
	return &patientRotator{
		rotator: newRotator(Options{DNSNames: names}),
		reader:  secretReader{stored}, writer: writer, names: names, log: (&logLines{}).logger(),
	}
}
