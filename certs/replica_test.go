package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// replica is a manager with a webhook server that serves a self-managed certificate.
type replica struct {
	serving *Serving
	port    int
	writes  atomic.Int64
	cancel  context.CancelFunc
	done    chan error
	ended   sync.Once
}

func selfManaged(t *testing.T) Options {
	return Options{
		Dir: filepath.Join(t.TempDir(), "certs"), SelfManaged: true,
		Namespace: testNamespace, SecretName: testSecret, WebhookConfiguration: testHooks,
		DNSNames: []string{testServiceName, "localhost"},
	}
}

func startReplica(t *testing.T, cfg *rest.Config, o Options) *replica {
	t.Helper()
	r := &replica{port: freePort(t), done: make(chan error, 1)}
	serving, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r.serving = serving

	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(r.countWrites)
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		LeaderElection:          true,
		LeaderElectionID:        "portcullis",
		LeaderElectionNamespace: testNamespace,
		// Handing over, instead of waiting for the lease to run out, keeps the test short.
		LeaderElectionReleaseOnCancel: true,
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: "127.0.0.1", Port: r.port, CertDir: filepath.Join(t.TempDir(), "never", "read"),
			TLSOpts: []func(*tls.Config){func(c *tls.Config) { c.GetCertificate = serving.GetCertificate }},
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	mgr.GetWebhookServer().Register("/validate", &admission.Webhook{Handler: admission.HandlerFunc(
		func(context.Context, admission.Request) admission.Response { return admission.Denied("called") })})
	if err := serving.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.cancel = cancel
	go func() { r.done <- mgr.Start(ctx) }()
	t.Cleanup(func() { r.stop(t) })
	return r
}

func (r *replica) stop(t *testing.T) {
	r.ended.Do(func() {
		r.cancel()
		select {
		case err := <-r.done:
			if err != nil {
				t.Errorf("the manager ended with %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("the manager does not stop")
		}
	})
}

// countWrites counts the writes that are not about the lease.
func (r *replica) countWrites(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if req.Method != http.MethodGet && !bytes.Contains([]byte(req.URL.Path), []byte("leases")) {
			r.writes.Add(1)
		}
		return next.RoundTrip(req)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// expectAgreement waits until every replica is ready, and clients that trust what the webhook configuration says are
// content with every one of them and are shown the same certificate, with a key that is fast to sign with.
func expectAgreement(t *testing.T, admin client.Client, replicas []*replica) {
	t.Helper()
	eventually(t, func() error {
		roots := x509.NewCertPool()
		for _, hook := range readHooks(t, admin).Webhooks {
			if !roots.AppendCertsFromPEM(hook.ClientConfig.CABundle) {
				return fmt.Errorf("webhook %s has no authority", hook.Name)
			}
		}
		secret := readSecret(t, admin)
		for i, r := range replicas {
			if err := r.serving.Check(nil); err != nil {
				return fmt.Errorf("replica %d is not ready: %w", i, err)
			}
			conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.port),
				&tls.Config{RootCAs: roots, ServerName: testServiceName, MinVersion: tls.VersionTLS12})
			if err != nil {
				return fmt.Errorf("replica %d: %w", i, err)
			}
			shown := conn.ConnectionState().PeerCertificates[0]
			_ = conn.Close()
			pair, err := tls.X509KeyPair(secret.Data[certFile], secret.Data[keyFile])
			if err != nil {
				return err
			}
			if !shown.Equal(pair.Leaf) {
				return fmt.Errorf("replica %d shows another certificate than the Secret has", i)
			}
			if shown.PublicKeyAlgorithm != x509.ECDSA {
				return fmt.Errorf("replica %d has a key for %v", i, shown.PublicKeyAlgorithm)
			}
		}
		return nil
	})
}

// callHook makes the API server call the webhook, which answers no with a word.
func callHook(admin client.Client) error {
	err := admin.Create(context.Background(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "judged", Labels: map[string]string{"judge": "me"}},
	}, client.DryRunAll)
	if apierrors.IsForbidden(err) && bytes.Contains([]byte(err.Error()), []byte("called")) {
		return nil
	}
	return fmt.Errorf("the API server did not get an answer from the webhook: %w", err)
}
