package integration

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// TestFirstSteps is what a newcomer does with kubectl: the platform's samples, then streams.
func TestFirstSteps(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 1}))
	w.apply("config/samples")
	public := &edge{fixture: w, class: streamClass("public", "ingress-nginx")}
	public.class.Spec.Service.Name = "ingress-nginx-controller"

	t.Run("the first users' manifest applies unchanged", func(t *testing.T) {
		manifest, err := os.ReadFile("testdata/streamingress.yaml")
		if err != nil {
			t.Fatal(err)
		}
		w, public := w.in(t), public.in(t)
		out := w.mustKubectl(string(manifest), "apply", "-f", "-")
		mustContain(t, out, "streamingress.nginx-stream.jeffthecoder.xyz/streamingress-sample created",
			"Warning: ", "there is no Service default/some-tcp-port yet")
		w.programmed(sti("default/streamingress-sample"))
		public.leads(TCP, 8080, "default/some-tcp-port:1234")

		second := strings.Replace(string(manifest), "streamingress-sample", "second", 1)
		out, err = w.kubectl(second, "apply", "-f", "-")
		if err == nil {
			t.Fatalf("the second one was accepted: %s", out)
		}
		mustContain(t, out, "held by StreamIngress default/streamingress-sample since 20",
			`on class "public"; free for namespace "default" nearby: 8078, 8079, 8081`, "spec.listen")
	})
	t.Run("all samples are programmed", func(t *testing.T) {
		w, public := w.in(t), public.in(t)
		w.apply("config/samples/streams")
		w.apply("config/samples/cross-namespace")
		for _, name := range []string{"postgres", "dns-tcp", "dns-udp", "submission", "smtp", "postgres-debug", "legacy-ldap", "legacy-syslog", "redis"} {
			w.programmed(sti("shop/" + name))
		}
		public.leads(TCP, 5432, "shop/postgres:5432")
		public.leads(TCP, 587, "shop/mail:587")
		public.leads(TCP, 25, "shop/mail:25::PROXY")
		public.leads(TCP, 6379, "data/redis:6379")
		public.leads(UDP, 53, "shop/dns:53")
		public.leads(UDP, 514, "shop/sti-legacy-syslog:514")
	})
	t.Run("kubectl get shows what matters", func(t *testing.T) { getShows(t, w.in(t)) })
	t.Run("kubectl explain knows every field", func(t *testing.T) { explains(t, w.in(t)) })
}

// in is the same fixture for a subtest.
func (w *fixture) in(t *testing.T) *fixture { return &fixture{Harness: w.Harness, t: t} }

// in is the same edge for a subtest.
func (e *edge) in(t *testing.T) *edge {
	return &edge{fixture: e.fixture.in(t), class: e.class, namespace: e.namespace}
}

// apply applies a kustomization of the repository, as a user of it would.
func (w *fixture) apply(dir string) {
	w.t.Helper()
	objects, err := controlplane.Render(w.t.Context(), dir)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := controlplane.Apply(w.t.Context(), w.Config(), "kubectl", objects...); err != nil {
		w.t.Fatal(err)
	}
}

// getShows reads the columns of each kind, by its short names.
func getShows(t *testing.T, w *fixture) {
	for _, test := range []struct {
		resource string
		header   string
		row      string
	}{
		{"sti", "NAMESPACE NAME CLASS PROTOCOL LISTEN ACCEPTED PROGRAMMED ADDRESS AGE", "shop dns-udp public UDP 53 Accepted Programmed"},
		{"streamingress", "NAMESPACE NAME CLASS PROTOCOL LISTEN ACCEPTED PROGRAMMED ADDRESS AGE", "shop smtp public TCP 25 Accepted Programmed"},
		{"ec", "NAME SCOPE POINT HOLDER AGE", "stream.public.tcp.443 stream/public TCP/443 Service ingress-nginx/ingress-nginx-controller"},
		{"edgeclaims", "NAME SCOPE POINT HOLDER AGE", "stream.public.udp.53 stream/public UDP/53 StreamIngress shop/dns-udp"},
		{"streamingressclass", "NAME ACCEPTED PROGRAMMED SERVICE DEFAULT AGE", "public Accepted Programmed ingress-nginx-controller true"},
	} {
		table := columns(w.mustKubectl("", "get", test.resource, "-A"))
		if !strings.HasPrefix(table, test.header+"\n") {
			t.Errorf("kubectl get %s: want the columns %s in\n%s", test.resource, test.header, table)
		}
		if !strings.Contains(table, "\n"+test.row) {
			t.Errorf("kubectl get %s: want a row %s in\n%s", test.resource, test.row, table)
		}
	}
	mustContain(t, w.mustKubectl("", "get", "portcullis", "-A", "-o", "name"),
		"streamingressclass.nginx-stream.jeffthecoder.xyz/public", "streamingress.nginx-stream.jeffthecoder.xyz/postgres",
		"edgeclaim.nginx-stream.jeffthecoder.xyz/stream.public.tcp.80")
	mustContain(t, w.mustKubectl("", "get", "ec", "--field-selector", "spec.heldBy=StreamIngress shop/postgres", "-o", "name"), "stream.public.tcp.5432")
	// Events are written a moment after the status.
	w.eventually("the events to be told of", func() error {
		return errors.Join(
			saysAll(w.mustKubectl("", "describe", "sti", "-n", "shop", "postgres"), "TCP/5432 of class public is claimed", "TCP/5432 of class public is open"),
			saysAll(w.mustKubectl("", "events", "-n", "shop", "--for", "streamingress/postgres"), "Programmed", "TCP/5432 of class public is open"))
	})
}

// columns is a table with one blank between columns.
func columns(table string) string {
	lines := strings.Split(table, "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	return strings.Join(lines, "\n")
}

// explains asks for the text of fields that users look up.
func explains(t *testing.T, w *fixture) {
	for path, text := range map[string]string{
		"sti":                                "asks for one TCP or UDP port at the edge",
		"sti.spec.listen":                    "a port of the class's autoAssign range",
		"sti.spec.upstream.namespace":        "ReferenceGrant",
		"sti.spec.is_service":                "whether the upstream is a Service of this cluster",
		"sti.spec.proxyProtocol":             "PROXY protocol",
		"sti.status.conditions":              "Accepted, ResolvedRefs, Programmed",
		"streamingressclass.spec.allow":      "gives ports to namespaces",
		"streamingressclass.spec.reserved":   "never given to a stream",
		"streamingressclass.spec.autoAssign": "streams without listen get their port",
		"ec.spec.holder":                     "the object that holds the point",
	} {
		out := w.mustKubectl("", "explain", path)
		mustContain(t, strings.Join(strings.Fields(out), " "), text)
	}
}

// forbids adds a ValidatingAdmissionPolicy of an administrator's, and its binding: what matches, in YAML, is refused with a message unless
// an expression holds. lift takes it away. When the API server has learned of either, it does not say.
func (w *fixture) forbids(name, matching, unless, message string) (lift func()) {
	w.t.Helper()
	return w.forbidsAs(metav1.StatusReasonInvalid, name, matching, unless, message)
}

// forbidsAs does so with a reason: webhooks say Forbidden, where a policy says Invalid if it is not told another.
func (w *fixture) forbidsAs(reason metav1.StatusReason, name, matching, unless, message string) (lift func()) {
	w.t.Helper()
	policy := fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  failurePolicy: Fail
  matchConstraints:%[2]s
  validations: [{expression: %[3]q, message: %[4]q, reason: %[5]s}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny]}
`, name, matching, unless, message, reason)
	w.mustKubectl(policy, "apply", "-f", "-")
	return func() {
		w.t.Helper()
		w.mustKubectl(policy, "delete", "-f", "-")
	}
}
