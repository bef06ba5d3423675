package integration

import (
	"errors"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/test/harness"
)

// inject puts an authority into the webhook configuration, as cert-manager's cainjector would.
func (w *fixture) inject(authority *harness.Issuer) {
	w.t.Helper()
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	configuration.Name = "portcullis"
	edit(w, configuration, func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
		for i := range c.Webhooks {
			c.Webhooks[i].ClientConfig.CABundle = authority.PEM
		}
	})
}

// TestDistrust breaks what makes the API server trust a certificate that is mounted. Whoever operates Portcullis is told
// by metrics, which the alerts are made of, and by the log.
func TestDistrust(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{}))
	authority, err := harness.NewIssuer()
	must(w, err)
	other, err := harness.NewIssuer()
	must(w, err)
	dir := t.TempDir()
	must(w, authority.Mount(dir, time.Now().Add(time.Hour)))
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
	logs := func(texts ...string) { // a moment after the metric
		t.Helper()
		w.eventually("the log to say so", func() error { return saysAll(r.LogTail(1<<20), texts...) })
	}
	w.eventually("Portcullis to be asked", says("spec.className"))
	w.eventually("trust", metric(1))

	w.inject(other)
	w.eventually("the API server to refuse", says("certificate signed by unknown authority"))
	w.eventually("a broken authority to be seen", metric(0))
	logs("The API server does not trust the serving certificate", "signed by unknown authority")
	w.ready(r, "+certificate +caches +webhook")

	w.inject(authority)
	w.eventually("Portcullis to be asked again", says("spec.className"))
	w.eventually("trust again", metric(1))
	logs("The API server trusts the serving certificate")

	must(w, authority.Mount(dir, time.Now().Add(-time.Minute)))
	w.ready(r, "-certificate +caches -webhook")
	w.eventually("an expired certificate to be seen", metric(0))
	if left := time.Until(time.Unix(int64(w.metric("portcullis_webhook_certificate_expiry_timestamp_seconds")), 0)); left > 0 {
		t.Errorf("the metric says that the certificate is valid for %s", left)
	}
	logs("Not ready to serve", "expired at")
}
