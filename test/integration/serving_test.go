package integration

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// fetch reads a URL of a replica: its status code and its text. A replica that does not listen yet is code 0.
func (w *fixture) fetch(url string) (code int, text string) {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(body)
}

// ready waits until a replica's readiness is as wanted, each check with + or -, for example "+caches -certificate".
func (w *fixture) ready(r *harness.Replica, want string) {
	w.t.Helper()
	w.eventually("the readiness "+want, func() error {
		if code, text := w.fetch(r.Health + "/healthz"); code != http.StatusOK {
			return fmt.Errorf("health: %d %s", code, text)
		}
		code, text := w.fetch(r.Health + "/readyz?verbose")
		if (code == http.StatusOK) == strings.Contains(want, "-") {
			return fmt.Errorf("%d %s", code, text)
		}
		for _, check := range strings.Fields(want) {
			if !strings.Contains(text, fmt.Sprintf("[%c]%s ", check[0], check[1:])) {
				return fmt.Errorf("want %s in %d %s", check, code, text)
			}
		}
		return nil
	})
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 0}))

	t.Log("not before the ledger is known")
	role := &rbacv1.ClusterRole{}
	role.Name = "portcullis"
	var rules []rbacv1.PolicyRule
	edit(w, role, func(r *rbacv1.ClusterRole) {
		rules = r.Rules
		r.Rules = nil
		for _, rule := range rules {
			if !strings.Contains(strings.Join(rule.Resources, ","), "edgeclaims") {
				r.Rules = append(r.Rules, rule)
			}
		}
		if len(r.Rules) == len(rules) {
			t.Fatal("no rule is about claims")
		}
	})
	w.awaitRight(harness.User, false, &authorizationv1.ResourceAttributes{Verb: "list", Group: v1beta1.GroupName, Resource: "edgeclaims"})
	first, err := w.SpawnReplica()
	if err != nil {
		t.Fatal(err)
	}
	w.ready(first, "-caches -webhook")
	edit(w, role, func(r *rbacv1.ClusterRole) { r.Rules = rules })
	w.ready(first, "+certificate +caches +webhook")
	if err := first.AwaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}

	t.Log("not before there is a certificate")
	certs := t.TempDir()
	second, err := w.SpawnReplica("--self-signed-certs=false", "--cert-dir="+certs)
	if err != nil {
		t.Fatal(err)
	}
	w.ready(second, "-certificate +caches -webhook")
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = "portcullis-system", "portcullis-webhook-cert"
	w.get(secret)
	for _, name := range []string{"tls.crt", "tls.key"} {
		if err := os.WriteFile(filepath.Join(certs, name), secret.Data[name], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.ready(second, "+certificate +caches +webhook")
}

func TestMetrics(t *testing.T) {
	e := shared(t).newEdge("metrics")
	e.create(namespace("metrics"))
	s, u := sti("metrics/some-stream", of("metrics"), tcp(1000)), sti("metrics/other-stream", of("metrics"), udp(1000))
	e.create(s, u)
	e.programmed(s, u)
	e.toldOf(sti("metrics/rival", of("metrics"), tcp(1000)), "held by")
	for _, want := range []string{
		`portcullis_admission_decisions_total{decision="allowed",kind="StreamIngress",operation="create",reason=""}`,
		`portcullis_admission_decisions_total{decision="allowed",kind="StreamIngressClass",operation="create",reason=""}`,
		`portcullis_admission_decisions_total{decision="denied",kind="StreamIngress",operation="create",reason="PortConflict"}`,
		`portcullis_admission_duration_seconds_bucket{kind="StreamIngress",operation="create",le="+Inf"}`,
		`portcullis_conflicts_total{source="admission"}`,
		`portcullis_claims{scope="stream/metrics"} 4`,
		`portcullis_streams{class="metrics",state="programmed"} 2`,
		`portcullis_configmap_entries{class="metrics",protocol="TCP"} 1`,
		`portcullis_configmap_entries{class="metrics",protocol="UDP"} 1`,
		`portcullis_configmap_bytes{class="metrics",protocol="TCP"} ` + fmt.Sprint(len("1000metrics/web:80")),
		`portcullis_stream_programming_seconds_count`,
		`portcullis_webhook_certificate_expiry_timestamp_seconds`,
	} {
		e.measures(want)
	}
	for _, r := range e.Replicas {
		_, text := e.fetch(r.Metrics + "/metrics")
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "portcullis_") && strings.Contains(line, "-stream") {
				t.Errorf("labeled by object: %s", line)
			}
		}
	}
	e.delete(s, u)
	e.measures(`portcullis_configmap_entries{class="metrics",protocol="UDP"} 0`)
}

// measures waits until one of the replicas has a metric.
func (w *fixture) measures(want string) {
	w.t.Helper()
	w.eventually("the metric "+want, func() error {
		for _, r := range w.Replicas {
			if _, text := w.fetch(r.Metrics + "/metrics"); strings.Contains(text, "\n"+want) {
				return nil
			}
		}
		return is("not measured", want)
	})
}

// TestReferenceGrantsInstalledLater: without the Gateway API nothing is granted, and only what needs a grant waits for it.
func TestReferenceGrantsInstalledLater(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 2, WithoutGatewayAPI: true}))
	e := w.newEdge("late")
	w.create(namespace("shop"), namespace("data"))
	own := sti("shop/own", of("late"), tcp(1))
	w.create(own)
	e.leads(TCP, 1, "shop/web:80")
	all := w.newEdge("late-all", upstreams(v1beta1.UpstreamAll))
	w.create(sti("shop/all", of("late-all"), tcp(2), to("data/redis", 6379)))
	all.leads(TCP, 2, "data/redis:6379")
	if err := w.try(grant("data/all", "shop")); !meta.IsNoMatchError(err) {
		t.Errorf("a ReferenceGrant without its kind: %v", err)
	}
	cross := func() *v1beta1.StreamIngress { return sti("shop/cross", of("late"), tcp(2), to("data/redis", 6379)) }
	mustContain(t, w.refusal(w.try(cross())).Error(), `namespace "data" has not consented`)

	must(w, w.InstallGatewayAPI(t.Context()))
	w.eventually("the grant to be stored", func() error { return w.try(grant("data/all", "shop")) })
	w.eventually("the grant to be seen by both replicas", func() error {
		for range 4 {
			if err := w.Client.Create(t.Context(), cross(), client.DryRunAll); err != nil {
				return err
			}
		}
		return nil
	})
	w.create(cross())
	e.leads(TCP, 2, "data/redis:6379")

	t.Log("and what is withdrawn is noticed")
	w.delete(grant("data/all", "shop"))
	e.leads(TCP, 2, "closed")
}
