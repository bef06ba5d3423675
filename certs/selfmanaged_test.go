package certs

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"jeffthecoder.xyz/portcullis/test/controlplane"
)

const (
	testNamespace   = "portcullis-system"
	testService     = "portcullis-webhook"
	testServiceName = testService + "." + testNamespace + ".svc"
	testSecret      = "portcullis-webhook-cert"
	testHooks       = "portcullis"
)

// TestMain sends the log to where go test shows it when a test fails.
func TestMain(m *testing.M) {
	logf.SetLogger(funcr.New(func(prefix, args string) {
		_, _ = fmt.Fprintln(os.Stderr, prefix, args)
	}, funcr.Options{LogTimestamp: true}))
	os.Exit(m.Run())
}

// TestSelfManaged goes through the life of a self-managed certificate against a real API server. The managers have the
// rights that the markers ask for, and no others.
func TestSelfManaged(t *testing.T) {
	cp, err := controlplane.Start(t.Context(), controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	user, err := cp.ConfigFor("system:serviceaccount:" + testNamespace + ":portcullis")
	if err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(cp.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	install(t, admin)

	one, two := startReplica(t, user, selfManaged(t)), startReplica(t, user, selfManaged(t))
	replicas := []*replica{one, two}
	createHooks(t, admin, one.port)

	t.Run("two replicas that start without a Secret agree on one authority", func(t *testing.T) {
		expectAgreement(t, admin, replicas)
	})
	t.Run("the API server calls the webhook", func(t *testing.T) {
		eventually(t, func() error { return callHook(admin) })
	})
	t.Run("an authority that somebody removes from the webhooks comes back", func(t *testing.T) {
		editHooks(t, admin, func(c *admissionv1.WebhookClientConfig) { c.CABundle = nil })
		expectAgreement(t, admin, replicas)
	})
	t.Run("nothing is written when nothing changed", func(t *testing.T) {
		expectAgreement(t, admin, replicas)
		before, writes := hooksVersion(t, admin), one.writes.Load()+two.writes.Load()
		for i := range 3 {
			relabel(t, admin, fmt.Sprint(i))
			time.Sleep(500 * time.Millisecond)
		}
		if extra := one.writes.Load() + two.writes.Load() - writes; extra != 0 {
			t.Errorf("%d requests to write were sent", extra)
		}
		if after := hooksVersion(t, admin); after != before {
			t.Errorf("the webhook configuration went from version %s to %s", before, after)
		}
	})
	t.Run("a Secret that is deleted is made again and served", func(t *testing.T) {
		before := readSecret(t, admin)
		if err := admin.Delete(t.Context(), before); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error {
			secret := &corev1.Secret{}
			if err := admin.Get(t.Context(), client.ObjectKeyFromObject(before), secret); err != nil {
				return err
			}
			if bytes.Equal(secret.Data[caFile], before.Data[caFile]) {
				return errors.New("it is still the old one")
			}
			return nil
		})
		expectAgreement(t, admin, replicas)
		eventually(t, func() error { return callHook(admin) })
	})
	t.Run("a certificate that is about to expire is rotated under the same authority", func(t *testing.T) {
		before := readSecret(t, admin)
		setCertificate(t, admin, 24*time.Hour, testServiceName, "localhost")
		eventually(t, func() error {
			secret := readSecret(t, admin)
			pair, err := tls.X509KeyPair(secret.Data[certFile], secret.Data[keyFile])
			if err == nil && time.Until(pair.Leaf.NotAfter) < 300*24*time.Hour {
				err = fmt.Errorf("the certificate expires at %s", pair.Leaf.NotAfter)
			}
			return err
		})
		expectAgreement(t, admin, replicas)
		if !bytes.Equal(before.Data[caFile], readSecret(t, admin).Data[caFile]) {
			t.Error("the authority changed with the certificate")
		}
	})
	t.Run("a Secret that somebody spoils is made good", func(t *testing.T) {
		secret := readSecret(t, admin)
		secret.Data = map[string][]byte{certFile: []byte("garbage"), keyFile: nil}
		if err := admin.Update(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		expectAgreement(t, admin, replicas)
	})
	t.Run("a follower loads mounted files again", func(t *testing.T) {
		dir, ca := t.TempDir(), newAuthority(t)
		follower := startReplica(t, user, Options{Dir: dir})
		address := fmt.Sprintf("127.0.0.1:%d", follower.port)
		for _, name := range []string{"first.test", "second.test"} {
			ca.pair(t, name, time.Hour).write(t, dir)
			expectServed(t, address, ca, name)
		}
		if err := follower.serving.Check(nil); err != nil {
			t.Errorf("Check says %v", err)
		}
		follower.stop(t)
	})
	t.Run("the next leader makes a certificate for a name that is new", func(t *testing.T) {
		setCertificate(t, admin, 300*24*time.Hour, testServiceName)
		one.stop(t)
		two.stop(t)
		three := startReplica(t, user, selfManaged(t))
		expectAgreement(t, admin, []*replica{three})
		editHooks(t, admin, func(c *admissionv1.WebhookClientConfig) {
			if c.URL != nil {
				c.URL = ptr.To(fmt.Sprintf("https://localhost:%d/validate", three.port))
			}
		})
		eventually(t, func() error { return callHook(admin) })
	})
}
