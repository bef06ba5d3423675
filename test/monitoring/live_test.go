//go:build monitoring

package monitoring

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/test/harness"
)

// configuration is that of a Prometheus beside a control plane: two replicas and the API server.
const configuration = `
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [rules.yaml]
scrape_configs:
- job_name: portcullis-metrics
  scheme: https
  authorization: {credentials_file: token}
  tls_config: {ca_file: portcullis.crt, server_name: localhost}
  static_configs: [{targets: [%s]}]
- job_name: apiserver
  scheme: https
  authorization: {credentials_file: token}
  tls_config: {ca_file: apiserver.crt}
  static_configs: [{targets: [%s]}]
`

// TestPrometheusSeesEverything lets a real Prometheus scrape two replicas and the API server, by TLS and with the token of
// the ServiceAccount that config/prometheus lets in. Every query of the dashboard gives data, every alert can be
// evaluated from metrics that exist, and every metric is in docs/metrics.md.
func TestPrometheusSeesEverything(t *testing.T) {
	program(t, "prometheus")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute+*playFor)
	defer cancel()
	options := harness.Options{Replicas: 2, Guard: true, Flags: []string{"--metrics-secure=true", "--audit-interval=5s"}}
	if *picture != "" {
		options.WebhookTimeout = 3 // of which there will be some
	}
	h := start(ctx, t, options)
	secret := &corev1.Secret{}
	if err := h.Client.Get(ctx, client.ObjectKey{Namespace: "portcullis-system", Name: "portcullis-webhook-cert"}, secret); err != nil {
		t.Fatal(err)
	}
	w := newWatcher(t, h, secret.Data["ca.crt"])
	w.isLetInAlone()
	w.findsReplicas()
	p := startPrometheus(t, w.dir, w.configuration())
	begun := time.Now()
	s := stage(t, h)

	var later, now []query
	for _, q := range dashboard(t) {
		if strings.HasPrefix(q.panel, "Admission: No answer") {
			later = append(later, q)
		} else {
			now = append(now, q)
		}
	}
	eventually(t, "data for the dashboard", func() (err error) {
		if err := s.goOn(); err != nil {
			return err
		}
		now, err = p.unanswered(now)
		return err
	})
	hold(t, p)
	if *picture != "" {
		begun = time.Now()
		s.play(ctx, *playFor)
	}
	panels := panels(t)
	eventually(t, "values for every panel", func() error { return cmp.Or(p.draw(panels, begun), s.goOn()) })

	for _, r := range h.Replicas {
		if err := r.Terminate(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "data of the API server", func() (err error) {
		if err := s.unheard(); err != nil {
			return err
		}
		later, err = p.unanswered(later)
		return err
	})
	evaluated(t, p)
}

// start starts Portcullis for one test. Its machine may stand still for longer than a cluster would put up with.
func start(ctx context.Context, t *testing.T, o harness.Options) *harness.Harness {
	t.Helper()
	o.WebhookTimeout = cmp.Or(o.WebhookTimeout, 30)
	o.Flags = append(o.Flags, "--leader-elect-lease-duration=75s", "--leader-elect-renew-deadline=60s")
	h, err := harness.Start(ctx, o)
	if err != nil {
		t.Fatalf("starting Portcullis: %v", err)
	}
	t.Cleanup(func() {
		for _, r := range h.Replicas {
			if t.Failed() {
				t.Logf("log of %s:\n%s", r.Log, r.LogTail(3000))
			}
		}
		if err := h.Stop(); err != nil {
			t.Errorf("stopping Portcullis: %v", err)
		}
	})
	return h
}

// hold checks the names of the metrics: those that alerts and dashboard use exist, and those of Portcullis are the ones
// that docs/metrics.md lists.
func hold(t *testing.T, p *prometheus) {
	t.Helper()
	scraped := p.names()
	exists := func(name string) bool { return slices.Contains(scraped, name) }
	rules, _ := alerts(t)
	for _, r := range rules {
		for _, name := range metricsIn(r.Expr) {
			// The API server counts what fails, which comes later.
			if !exists(name) && !strings.HasPrefix(name, "apiserver_admission_webhook_") {
				t.Errorf("%s uses %s, which does not exist", r.Alert, name)
			}
		}
	}
	listed := listedMetrics(t)
	for _, name := range scraped {
		if base := baseOf(name); strings.HasPrefix(name, "portcullis_") && !slices.Contains(listed, base) {
			t.Errorf("docs/metrics.md does not list %s", base)
		}
	}
	for _, name := range listed {
		if !exists(name) && !exists(name+"_count") {
			t.Errorf("docs/metrics.md lists %s, which does not exist", name)
		}
	}
}

// evaluated checks that every alert can be evaluated, from metrics that exist.
func evaluated(t *testing.T, p *prometheus) {
	t.Helper()
	scraped := p.names()
	rules, _ := alerts(t)
	for _, r := range rules {
		for _, name := range metricsIn(r.Expr) {
			if !slices.Contains(scraped, name) {
				t.Errorf("%s uses %s, which does not exist", r.Alert, name)
			}
		}
	}
	var loaded struct {
		Groups []struct {
			Rules []struct {
				Name, Health, LastError string
			} `json:"rules"`
		} `json:"groups"`
	}
	if err := p.get("rules", nil, &loaded); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, group := range loaded.Groups {
		for _, r := range group.Rules {
			n++
			if r.Health != "ok" {
				t.Errorf("%s is %s: %s", r.Name, r.Health, r.LastError)
			}
		}
	}
	if n != len(rules) {
		t.Errorf("Prometheus has %d alerts, and there are %d", n, len(rules))
	}
}
