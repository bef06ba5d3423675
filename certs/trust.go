package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// configurationKind is read untyped, because cert-controller does: one informer serves both.
var configurationKind = admissionv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration")

// trustedBy says why the API server would not accept the certificate for the webhooks of the configuration of that name;
// nil when it would, for each of them. It asks what the API server asks: the injected authority and the host name.
func trustedBy(ctx context.Context, from client.Reader, name string, cert *tls.Certificate, now time.Time) error {
	configuration, err := readConfiguration(ctx, from, name)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("there is no ValidatingWebhookConfiguration %q to serve for", name)
	}
	if err != nil {
		return fmt.Errorf("reading ValidatingWebhookConfiguration %q: %w", name, err)
	}
	return trustedFor(configuration, cert, now)
}

// trustedFor says why the certificate would not be accepted for the webhooks of a configuration. Most have one authority and one
// host, which are verified once: that is asked every few seconds.
func trustedFor(configuration *admissionv1.ValidatingWebhookConfiguration, cert *tls.Certificate, now time.Time) error {
	type asker struct{ authority, host string }
	accepting := sets.New[asker]()
	for _, webhook := range configuration.Webhooks {
		asks := asker{string(webhook.ClientConfig.CABundle), hostOf(webhook.ClientConfig)}
		if accepting.Has(asks) {
			continue
		}
		if err := trustedByClient(webhook.ClientConfig, cert, now); err != nil {
			return fmt.Errorf("webhook %s of ValidatingWebhookConfiguration %q: %w", webhook.Name, configuration.Name, err)
		}
		accepting.Insert(asks)
	}
	return nil
}

func readConfiguration(ctx context.Context, from client.Reader, name string) (*admissionv1.ValidatingWebhookConfiguration, error) {
	untyped := &unstructured.Unstructured{}
	untyped.SetGroupVersionKind(configurationKind)
	if err := from.Get(ctx, client.ObjectKey{Name: name}, untyped); err != nil {
		return nil, err
	}
	configuration := &admissionv1.ValidatingWebhookConfiguration{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(untyped.Object, configuration)
	return configuration, err
}

// trustedByClient says why the certificate would not be accepted for one webhook. cert-controller's ValidCert is not enough: it takes
// the first authority of a bundle and no intermediate certificates, and cert-manager may inject several and issue with some.
func trustedByClient(c admissionv1.WebhookClientConfig, cert *tls.Certificate, now time.Time) error {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(c.CABundle) {
		return fmt.Errorf("the authority is not injected yet")
	}
	between := x509.NewCertPool()
	for _, der := range cert.Certificate[1:] {
		if parsed, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(parsed)
		}
	}
	_, err := cert.Leaf.Verify(x509.VerifyOptions{
		DNSName: hostOf(c), Roots: roots, Intermediates: between, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return fmt.Errorf("the serving certificate does not fit: %w", err)
	}
	return nil
}

// hostOf returns the name that the API server expects in the certificate.
func hostOf(c admissionv1.WebhookClientConfig) string {
	if c.Service != nil {
		return c.Service.Name + "." + c.Service.Namespace + ".svc"
	}
	if c.URL != nil {
		if parsed, err := url.Parse(*c.URL); err == nil {
			return parsed.Hostname()
		}
	}
	return ""
}
