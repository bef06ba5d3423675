//go:build monitoring

package monitoring

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"jeffthecoder.xyz/portcullis/test/harness"
)

// TestExpiryOutlivesItsMetrics lets the certificate of a replica expire, with which its metrics are served, too. Prometheus
// loses the replica when it has to connect anew, and goes on telling why.
func TestExpiryOutlivesItsMetrics(t *testing.T) {
	program(t, "prometheus")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	h := start(ctx, t, harness.Options{})
	authority, err := harness.NewIssuer()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	mount := func(notAfter time.Time) {
		if err := authority.Mount(dir, notAfter); err != nil {
			t.Fatal(err)
		}
	}
	mount(time.Now().Add(90 * 24 * time.Hour))
	r, err := h.StartReplica(ctx, "--metrics-secure=true", "--self-signed-certs=false", "--cert-dir="+dir)
	if err != nil {
		t.Fatal(err)
	}
	w := newWatcher(t, h, authority.PEM)
	p := startPrometheus(t, w.dir, w.configuration())
	// How long they go on until they fire is not what is tested.
	const told = `count(ALERTS{alertname=~"PortcullisWebhookCertificate(Expiring|NotTrusted)"})`
	// Nobody has put the authority into the webhook configuration.
	eventually(t, "distrust to be told", p.gives(told, 1))

	mount(time.Now().Add(-time.Minute))
	eventually(t, "expiry to be told", p.gives(told, 2))
	// A connection from before is good for as long as it lasts.
	if err := r.Freeze(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the connection to be lost", p.gives(`count(up{job="portcullis-metrics"} == 0)`, 1))
	if err := r.Thaw(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "Prometheus to refuse the certificate", func() error {
		return p.complains("certificate has expired")
	})
	const lost = `absent_over_time(portcullis_webhook_certificate_expiry_timestamp_seconds[5s])`
	eventually(t, "metrics to be lost", p.gives(lost, 1))
	if err := p.gives(told, 2)(); err != nil {
		t.Errorf("alerts without metrics: %v", err)
	}

	mount(time.Now().Add(90 * 24 * time.Hour))
	eventually(t, "renewal to be seen", p.gives(told, 1))
}

// gives is a check that an expression has one value.
func (p *prometheus) gives(expr string, want float64) func() error {
	return func() error {
		got, err := p.values(expr)
		if err != nil || len(got) != 1 || got[0] != want {
			return fmt.Errorf("%s gives %v, want %v: %w", expr, got, want, err)
		}
		return nil
	}
}

// complains is nil when a scrape of every replica failed last for a reason.
func (p *prometheus) complains(why string) error {
	var data struct {
		Active []struct {
			Pool      string `json:"scrapePool"`
			LastError string
		} `json:"activeTargets"`
	}
	if err := p.get("targets", nil, &data); err != nil {
		return err
	}
	for _, target := range data.Active {
		if target.Pool == "portcullis-metrics" && !strings.Contains(target.LastError, why) {
			return fmt.Errorf("the last scrape says %q", target.LastError)
		}
	}
	return nil
}
