package integration

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/test/annotations"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// logTook logs how long something took that just happened. What is right does not hang on it: machines are busy.
func logTook(t *testing.T, what string, start time.Time) {
	t.Helper()
	t.Logf("%s: %s", what, time.Since(start).Round(time.Millisecond))
}

// TestMyNginx goes through the life of the example that users start with.
func TestMyNginx(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 1}))
	manifest, err := os.ReadFile("testdata/my-nginx.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const exposed = "class nginx\nPrefix example.com/ -> my-nginx:80"
	class := &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "nginx"}}
	class.Spec.Controller = "k8s.io/ingress-nginx"
	w.create(class)
	k := w.warned()
	w.eventually("the class to be known", func() error {
		must(w, k.Create(t.Context(), asking("default/probe", "nginx"), client.DryRunAll))
		return is(k.said(), "")
	})
	w.mustKubectl(string(manifest), "apply", "-n", "default", "-f", "-")
	svc := service("default/my-nginx")
	time.Sleep(300 * time.Millisecond)
	if ing := w.ingressOf(svc); ing != nil {
		t.Fatalf("there is an Ingress: %s", annotations.Describe(ing.Spec))
	}

	out := w.mustKubectl("", "annotate", "-n", "default", "service/my-nginx", "ingress/http=nginx")
	at := time.Now()
	if strings.Contains(out, "Warning") {
		t.Errorf("kubectl annotate warns: %s", out)
	}
	ing := w.serves(svc, exposed)
	logTook(t, "the Ingress after the annotation", at)
	table := w.mustKubectl("", "get", "-n", "default", "ingress", "my-nginx")
	t.Log("\n" + table)
	row := strings.Fields(strings.Split(table, "\n")[1])
	if row[0] != "my-nginx" || row[1] != "nginx" || row[2] != "example.com" || row[3] != "80" {
		t.Errorf("kubectl get ingress shows %v", row)
	}

	w.delete(ing)
	at = time.Now()
	w.eventually("the Ingress to be back", func() error {
		again := w.ingressOf(svc)
		return is(again != nil && again.UID != ing.UID && annotations.Describe(again.Spec) == exposed, true)
	})
	logTook(t, "the Ingress after it was deleted by hand", at)

	editIngress(w, svc, func(ing *networkingv1.Ingress) {
		ing.Spec.Rules[0].Host = "evil.example.com"
		ing.Spec.TLS = []networkingv1.IngressTLS{{SecretName: "evil"}}
		ing.Spec.DefaultBackend = ing.Spec.Rules[0].HTTP.Paths[0].Backend.DeepCopy()
		ing.OwnerReferences = nil
	})
	at = time.Now()
	ing = w.serves(svc, exposed)
	logTook(t, "the Ingress after it was changed by hand", at)
	if len(ing.OwnerReferences) != 1 {
		t.Errorf("the Ingress is owned by %v", ing.OwnerReferences)
	}

	w.mustKubectl("", "annotate", "-n", "default", "service/my-nginx", "ingress/http-")
	at = time.Now()
	w.serves(svc, "")
	logTook(t, "no Ingress after the annotation was removed", at)
	w.servedHeldBy("nginx", "example.com", "/", "")
	logTook(t, "nobody holds the host after the annotation was removed", at)

	w.mustKubectl("", "annotate", "-n", "default", "service/my-nginx", "ingress/http=nginx")
	w.serves(svc, exposed)
	w.servedHeldBy("nginx", "example.com", "/", "Service default/my-nginx")
	w.mustKubectl("", "delete", "-n", "default", "service/my-nginx", "--wait=false")
	at = time.Now()
	w.serves(svc, "")
	logTook(t, "no Ingress after the Service was deleted", at)
	w.servedHeldBy("nginx", "example.com", "/", "")
	logTook(t, "nobody holds the host after the Service was deleted", at)
}

// editIngress changes the Ingress of a Service as somebody else.
func editIngress(w *fixture, svc client.Object, change func(*networkingv1.Ingress)) {
	w.t.Helper()
	ing := &networkingv1.Ingress{}
	ing.Namespace, ing.Name = svc.GetNamespace(), svc.GetName()
	edit(w, ing, change)
}

// TestForeignIngressIsNeverTouched has an Ingress my-nginx before the Service asks for one.
func TestForeignIngressIsNeverTouched(t *testing.T) {
	w := shared(t)
	w.create(namespace("http-foreign-ingress"))
	theirs := foreignIngress("http-foreign-ingress/my-nginx", "theirs.example.com", "/")
	w.create(theirs)
	w.pathHeldBy("theirs.example.com", "/", "Ingress http-foreign-ingress/my-nginx")
	svc := service("http-foreign-ingress/my-nginx", port("http", 80))
	w.create(svc)

	var refused error
	w.eventually("the annotation to be refused", func() error {
		if refused = tryEdit(w, svc, ask("host=mine.example.com")); refused == nil {
			edit(w, svc, askNothing) // the cache has not seen the Ingress yet
		}
		return says(refused, "an Ingress http-foreign-ingress/my-nginx exists since")
	})
	isRefusedSaying(t, refused, "this Service does not own it")
	// Its host is not to be had under another name either.
	for _, value := range []string{"host=theirs.example.com", "host=theirs.example.com, exact=/"} {
		isRefusedSaying(t, w.refusedSaying(asking("http-foreign-ingress/other", value), "held by Ingress http-foreign-ingress/my-nginx since"))
	}
	now := w.ingressOf(theirs)
	if now.ResourceVersion != theirs.ResourceVersion {
		t.Errorf("the Ingress was written to: %v", now)
	}
	// Once it is gone, everything is there to be had.
	w.delete(theirs)
	w.eventually("the annotation to be accepted", func() error { return tryEdit(w, svc, ask("host=theirs.example.com")) })
	w.serves(svc, "Prefix theirs.example.com/ -> my-nginx:80")
	w.pathHeldBy("theirs.example.com", "/", "Service http-foreign-ingress/my-nginx")
}

// TestNextForeignIngressHolds has two foreign Ingresses at one point: when the first goes, the second holds it.
func TestNextForeignIngressHolds(t *testing.T) {
	w := shared(t)
	w.create(namespace("http-foreign-two"), foreignIngress("http-foreign-two/a", "two.example.com", "/x"))
	w.pathHeldBy("two.example.com", "/x", "Ingress http-foreign-two/a")
	w.create(foreignIngress("http-foreign-two/b", "two.example.com", "/x/"))
	w.delete(foreignIngress("http-foreign-two/a", "two.example.com", "/x"))
	w.pathHeldBy("two.example.com", "/x", "Ingress http-foreign-two/b")
	isRefusedSaying(t, w.refusedSaying(asking("http-foreign-two/web", "host=two.example.com, path=/x"), "held by Ingress http-foreign-two/b since"))
	w.delete(foreignIngress("http-foreign-two/b", "two.example.com", "/x"))
	w.pathHeldBy("two.example.com", "/x", "")
}

// foreignIngress is an Ingress that somebody made by hand.
func foreignIngress(key, host, path string) *networkingv1.Ingress {
	prefix := networkingv1.PathTypePrefix
	ing := &networkingv1.Ingress{}
	ing.Namespace, ing.Name, _ = strings.Cut(key, "/")
	http := &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
		Path: path, PathType: &prefix, Backend: networkingv1.IngressBackend{
			Service: &networkingv1.IngressServiceBackend{Name: "theirs", Port: networkingv1.ServiceBackendPort{Number: 80}},
		},
	}}}
	ing.Spec.Rules = []networkingv1.IngressRule{{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: http}}}
	return ing
}

// TestMovingHosts moves a Service from host to host: it holds the new one and gives the old one back, and nobody else
// gets a host that its Ingress still serves.
func TestMovingHosts(t *testing.T) {
	w := shared(t)
	w.create(namespace("http-moving"))
	svc := asking("http-moving/web", "host=from.example.com")
	w.create(svc)
	w.serves(svc, "Prefix from.example.com/ -> web:80")
	edit(w, svc, ask("host=to.example.com, path=/a"))
	w.serves(svc, "Prefix to.example.com/a -> web:80")
	w.pathHeldBy("to.example.com", "/a", "Service http-moving/web")
	at := time.Now()
	w.pathHeldBy("from.example.com", "/", "")
	logTook(t, "the former host is free", at)
	edit(w, svc, ask("host=from.example.com"))
	w.serves(svc, "Prefix from.example.com/ -> web:80")
	at = time.Now()
	w.pathHeldBy("to.example.com", "/a", "")
	logTook(t, "the host of an update is free", at)
	// Another Service may have what was given back, and not what is held.
	w.admitted(asking("http-moving/other", "host=to.example.com, path=/a"))
	isRefusedSaying(t, w.refusedSaying(asking("http-moving/third", "host=from.example.com"), "held by Service http-moving/web since",
		"choose another host or path, for example host=from.example.com, path=/other"))
	// A dry run claims nothing. That it tells a conflict has been seen above.
	if err := w.Client.Create(t.Context(), asking("http-moving/dry", "host=dry.example.com"), client.DryRunAll); err != nil {
		t.Error(err)
	}
	if holder := w.pathHolder("dry.example.com", "/"); holder != "" {
		t.Errorf("a dry run claimed for %s", holder)
	}
}

// TestPortsOfExposedServices changes ports under an annotation.
func TestPortsOfExposedServices(t *testing.T) {
	w := shared(t)
	w.create(namespace("http-ports-exposed"))
	svc := asking("http-ports-exposed/web", "host=ports.example.com")
	w.create(svc)
	w.serves(svc, "Prefix ports.example.com/ -> web:80")
	edit(w, svc, func(svc *corev1.Service) { svc.Spec.Ports[0].Port = 8080 })
	w.serves(svc, "Prefix ports.example.com/ -> web:8080")
	err := tryEdit(w, svc, func(svc *corev1.Service) {
		svc.Spec.Ports = []corev1.ServicePort{port("a", 1), port("b", 2)}
	})
	isRefusedSaying(t, err, "port is left out", "a (1), b (2)")
}

// TestDeletingAnUpstreamWarns deletes Services that streams lead to.
func TestDeletingAnUpstreamWarns(t *testing.T) {
	w := shared(t)
	e := w.newEdge("upstream-gone")
	w.create(namespace("http-upstream-gone"), service("http-upstream-gone/db", port("db", 5432)), service("http-upstream-gone/idle", port("db", 5432)))
	w.create(sti("http-upstream-gone/db", of(e.class.Name), tcp(5432), to("db", 5432)))
	out := w.mustKubectl("", "delete", "-n", "http-upstream-gone", "service/idle")
	if strings.Contains(out, "Warning") {
		t.Errorf("deleting an idle Service warns: %s", out)
	}
	w.eventually("the deletion to warn", func() error {
		out := w.mustKubectl("", "delete", "-n", "http-upstream-gone", "service/db")
		if strings.Contains(out, "Warning: 1 StreamIngress(es) send their traffic to Service http-upstream-gone/db: http-upstream-gone/db;") {
			return nil
		}
		w.create(service("http-upstream-gone/db", port("db", 5432))) // the replica that answered has not seen the stream yet
		return errors.New(out)
	})
}

// TestWarningsOfClasses names classes that do not exist.
func TestWarningsOfClasses(t *testing.T) {
	w := shared(t)
	w.create(namespace("http-classes-missing"))
	for value, want := range map[string]string{
		"class=there-is-none, host=missing1.example.com": `Warning: there is no IngressClass "there-is-none"`,
		"host=missing2.example.com":                      "Warning: no IngressClass is named, and none is marked as the cluster's default",
	} {
		w.create(service("http-classes-missing/web", port("http", 80)))
		mustContain(t, w.mustKubectl("", "annotate", "-n", "http-classes-missing", "service/web", "ingress/http="+value), want)
		w.delete(service("http-classes-missing/web"))
	}
}

// TestIssuerWithoutCertManager names an issuer where there is no cert-manager.
func TestIssuerWithoutCertManager(t *testing.T) {
	w := shared(t)
	w.create(namespace("http-no-cert-manager"))
	isRefusedSaying(t, w.try(asking("http-no-cert-manager/web", "host=tls.example.com, issuer=letsencrypt")),
		"issuer=letsencrypt needs cert-manager, which is not installed in this cluster", "for example tls=web-tls")
	if holder := w.pathHolder("tls.example.com", "/"); holder != "" {
		t.Errorf("a refusal claimed for %s", holder)
	}
	svc := asking("http-no-cert-manager/web", "host=tls.example.com, tls=shop-tls")
	w.create(svc)
	w.serves(svc, "Prefix tls.example.com/ -> web:80\ntls shop-tls for tls.example.com")
}

// TestUnrelatedChangesPass changes what no rule is about, with an annotation that came before Portcullis.
func TestUnrelatedChangesPass(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{}))
	w.create(asking("default/web", "host=Wrong"))
	if _, err := w.StartReplica(t.Context()); err != nil {
		t.Fatal(err)
	}
	svc := service("default/web")
	w.hasEvent(asking("default/web", ""), "Warning InvalidAnnotation", "written in lower case")
	edit(w, svc, func(svc *corev1.Service) { svc.Labels = map[string]string{"a": "b"} })
	edit(w, svc, func(svc *corev1.Service) { svc.Spec.Ports[0].Port = 81 })
	edit(w, svc, func(svc *corev1.Service) { svc.Finalizers = []string{"example.com/keep"} })
	w.delete(svc)
	edit(w, svc, func(svc *corev1.Service) { svc.Finalizers = nil })
	if generation := svc.Generation; generation != 0 {
		t.Errorf("Services have a generation by now, %d: claims could tell by it which change is stored", generation)
	}
	if c := w.pathHolder("example.com", "/"); c != "" {
		t.Errorf("the host is held by %s", c)
	}
}

// TestRefusedIngress has the API server refuse an Ingress that Portcullis wants to write: that is told, and tried again
// when the Service changes.
func TestRefusedIngress(t *testing.T) {
	w := shared(t)
	w.create(namespace("http-policy"))
	w.forbids("no-forbidden-hosts", `
    resourceRules: [{apiGroups: [networking.k8s.io], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [ingresses]}]`,
		"!object.spec.rules.exists(r, r.host.startsWith('forbidden'))", "that host is forbidden")
	w.eventually("the policy to hold", func() error {
		err := w.Client.Create(t.Context(), foreignIngress("http-policy/probe", "forbidden-probe.example.com", "/"), client.DryRunAll)
		return is(err != nil, true)
	})
	svc := asking("http-policy/web", "host=forbidden.example.com")
	w.create(svc)
	w.hasEvent(svc, "Warning IngressRefused", "that host is forbidden")
	edit(w, svc, ask("host=permitted.example.com"))
	w.serves(svc, "Prefix permitted.example.com/ -> web:80")
	w.hasEvent(svc, "Normal Exposed", "host=permitted.example.com")
	// What stands stays when its successor is refused.
	edit(w, svc, ask("host=forbidden.example.com"))
	w.hasEvent(svc, "Warning IngressRefused", "changing the Ingress")
	w.serves(svc, "Prefix permitted.example.com/ -> web:80")
	isRefusedSaying(t, w.refusedSaying(asking("http-policy/other", "host=permitted.example.com"), "Service http-policy/web"))
}

// TestReplacedService deletes and creates a Service again and again: it keeps its host, and gives it back at once when it
// asks for another.
func TestReplacedService(t *testing.T) {
	w := shared(t)
	w.create(namespace("http-replaced"))
	for range 10 {
		svc := asking("http-replaced/web", "host=replaced.example.com")
		w.create(svc)
		w.serves(svc, "Prefix replaced.example.com/ -> web:80")
		w.delete(svc)
		w.create(asking("http-replaced/web", "host=replaced.example.com"))
		w.eventually("the Ingress of the new Service", func() error {
			now := service("http-replaced/web")
			w.get(now)
			ing := w.ingressOf(now)
			return is(ing != nil && metav1.IsControlledBy(ing, now), true)
		})
		w.delete(svc)
	}
	svc := asking("http-replaced/web", "host=replaced.example.com")
	w.create(svc)
	edit(w, svc, ask("host=elsewhere.example.com"))
	w.serves(svc, "Prefix elsewhere.example.com/ -> web:80")
	w.pathHeldBy("replaced.example.com", "/", "")
	w.pathHeldBy("elsewhere.example.com", "/", "Service http-replaced/web")
}
