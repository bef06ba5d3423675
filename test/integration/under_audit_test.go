package integration

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// disagree waits until ledger and cluster disagree about so many points of each kind.
func (w *fixture) disagree(claims, points int) {
	w.t.Helper()
	w.measures(fmt.Sprintf(`portcullis_ledger_disagreements{kind="claim_without_holder"} %d`, claims))
	w.measures(fmt.Sprintf(`portcullis_ledger_disagreements{kind="point_without_claim"} %d`, points))
}

// told waits for a warning about an object that has all the texts.
func (w *fixture) told(kind, name, reason string, texts ...string) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("an event %s on %s %s", reason, kind, name), func() error {
		var list eventsv1.EventList
		if err := w.Client.List(w.t.Context(), &list); err != nil {
			return err
		}
		for i := range list.Items {
			e := &list.Items[i]
			if e.Regarding.Kind == kind && e.Regarding.Name == name && e.Reason == reason && e.Type == corev1.EventTypeWarning &&
				!slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(e.Note, text) }) {
				return nil
			}
		}
		return fmt.Errorf("none of %d events", len(list.Items))
	})
}

// forbid takes a verb on a resource from Portcullis, until the function it returns is called.
func (w *fixture) forbid(verb, resource string) (allow func()) {
	w.t.Helper()
	role := &rbacv1.ClusterRole{}
	role.Name = "portcullis"
	var before []rbacv1.PolicyRule
	what := &authorizationv1.ResourceAttributes{Verb: verb, Resource: resource}
	edit(w, role, func(r *rbacv1.ClusterRole) {
		before = r.DeepCopy().Rules
		taken := false
		for i := range r.Rules {
			if rule := &r.Rules[i]; slices.Contains(rule.Resources, resource) && slices.Contains(rule.Verbs, verb) {
				rule.Verbs = slices.DeleteFunc(rule.Verbs, func(v string) bool { return v == verb })
				what.Group, taken = rule.APIGroups[0], true
			}
		}
		if !taken {
			w.t.Fatalf("no rule allows to %s %s", verb, resource)
		}
	})
	w.awaitRight(harness.User, false, what)
	return func() {
		w.t.Helper()
		edit(w, role, func(r *rbacv1.ClusterRole) { r.Rules = before })
	}
}

// auditOptions look every so often, and not every minute.
func auditOptions(interval time.Duration) harness.Options {
	return harness.Options{Replicas: 1, Flags: []string{"--audit-interval=" + interval.String(), "--claim-grace=10s"}}
}

// TestDisagreementsAreTold provokes each way in which ledger and cluster can disagree for long. All of them need somebody
// who keeps Portcullis from its work.
func TestDisagreementsAreTold(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, auditOptions(3*time.Second)))
	e := w.newEdge("audit")
	w.create(namespace("audit"))
	s, u := sti("audit/s", of("audit"), tcp(5432)), sti("audit/u", of("audit"), udp(53))
	w.create(s, u, asking("audit/web", "host=web.example.com"))
	w.programmed(s, u)
	w.pathHeldBy("web.example.com", "/", "Service audit/web")
	w.disagree(0, 0)

	pool, lb := &v1beta1.AddressPool{}, balanced("audit/lb")
	pool.Name, pool.Spec.Addresses = "audit", []string{"192.0.2.7", "192.0.2.8"}
	wants("192.0.2.7")(lb)
	w.create(pool)
	w.admitted(lb)
	first, address := claim.Address(netip.MustParseAddr("192.0.2.7")).Name(), claim.Address(netip.MustParseAddr("192.0.2.8")).Name()
	w.balances(lb, "192.0.2.7 VIP TCP/80")
	w.disagree(0, 0)

	t.Log("a status lists an address that can't be claimed again")
	allow := w.forbid("create", "edgeclaims")
	w.delete(&v1beta1.EdgeClaim{ObjectMeta: metav1.ObjectMeta{Name: first}})
	w.disagree(0, 1)
	w.told("Service", "lb", v1beta1.ReasonPointWithoutClaim, "192.0.2.7 stands in Service audit/lb and has no claim")
	allow()
	w.pointHeldBy(first, "Service audit/lb")
	w.disagree(0, 0)
	w.balances(lb, "192.0.2.7 VIP TCP/80")

	t.Log("a claim can't be released of an address that a status lists no longer")
	allow = w.forbid("delete", "edgeclaims")
	edit(w, lb, wants("192.0.2.8"))
	w.balances(lb, "192.0.2.8 VIP TCP/80")
	w.disagree(1, 0)
	w.told("EdgeClaim", first, v1beta1.ReasonClaimWithoutHolder, "Service audit/lb")
	allow()
	w.disagree(0, 0)

	t.Log("a claim can't be released of what is gone")
	allow = w.forbid("delete", "edgeclaims")
	w.delete(s, lb)
	w.disagree(2, 0)
	w.told("EdgeClaim", address, v1beta1.ReasonClaimWithoutHolder, "Service audit/lb")
	w.told("EdgeClaim", claim.Stream("audit", TCP, 5432).Name(), v1beta1.ReasonClaimWithoutHolder, "StreamIngress audit/s")
	allow()
	w.disagree(0, 0)

	t.Log("what is foreign can't be entered")
	allow = w.forbid("create", "edgeclaims")
	ing := &networkingv1.Ingress{}
	ing.Namespace, ing.Name = "audit", "by-hand"
	ing.Spec.Rules = []networkingv1.IngressRule{{Host: "hand.example.com"}}
	w.create(ing)
	edit(w, configMap(e.namespace+"/tcp-services", nil), func(cm *corev1.ConfigMap) { cm.Data = map[string]string{"9000": manual} })
	edit(w, e.proxy(), func(svc *corev1.Service) { svc.Spec.Ports = append(svc.Spec.Ports, port("extra", 9001)) })
	w.disagree(0, 3)
	w.told("StreamIngressClass", "audit", v1beta1.ReasonPointWithoutClaim, "TCP/9000", "ConfigMap edge-audit/tcp-services")
	w.told("StreamIngressClass", "audit", v1beta1.ReasonPointWithoutClaim, "TCP/9001", "Service edge-audit/proxy")
	w.told("Ingress", "by-hand", v1beta1.ReasonPointWithoutClaim, "hand.example.com/")
	allow()
	w.disagree(0, 0)

	t.Log("an entry can't be taken out")
	allow = w.forbid("patch", "configmaps")
	w.delete(u)
	w.disagree(0, 1)
	w.told("StreamIngressClass", "audit", v1beta1.ReasonPointWithoutClaim, "UDP/53", "ConfigMap edge-audit/udp-services")
	allow()
	w.disagree(0, 0)

	t.Log("the cluster can't be read")
	allow = w.forbid("list", "streamingresses")
	w.eventually("an audit to fail", func() error {
		return is(w.metric(`portcullis_ledger_audits_total{result="failed"}`) > 0, true)
	})
	allow()
	before := w.audits()
	w.eventually("another audit", func() error { return is(w.audits() > before, true) })
	w.disagree(0, 0)
}

// balanced is a Service of type LoadBalancer that is Portcullis' to serve.
func balanced(key string) *corev1.Service {
	svc := service(key, port("http", 80))
	svc.Spec.Type, svc.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new(v1beta1.LoadBalancerClass)
	return svc
}

// audits is how often ledger and cluster were compared.
func (w *fixture) audits() (done float64) {
	w.t.Helper()
	for _, r := range w.Replicas {
		done += metrics(w, r.Metrics+"/metrics", http.DefaultClient)[`portcullis_ledger_audits_total{result="done"}`]
	}
	return done
}

// TestABusyLedgerIsNoDisagreement opens and closes the same few ports and paths as fast as it can, and audits far more
// often than anybody would.
func TestABusyLedgerIsNoDisagreement(t *testing.T) {
	t.Parallel()
	// What is under way on a busy machine may take many seconds, and is no disagreement before an interval has passed. With
	// suspects there are six looks an interval.
	w := newFixture(t, start(t, auditOptions(30*time.Second)))
	w.newEdge("busy", autoAssign(20000, 20009))
	pool := &v1beta1.AddressPool{}
	pool.Name, pool.Spec.Addresses = "busy", []string{"192.0.2.0/30"}
	w.create(namespace("busy"), pool)
	const enough = 9
	last := w.audits() + enough
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			for round := 0; w.audits() < last && t.Context().Err() == nil; round++ {
				name := fmt.Sprintf("busy/s%d-%d", i, round)
				objects := []client.Object{
					sti(name, of("busy"), tcp(int32(1000+i))), sti(name+"-auto", of("busy"), auto(UDP)),
					asking(name, fmt.Sprintf("host=busy%d.example.com", i)), balanced(name + "-lb"),
				}
				for _, object := range objects {
					_ = w.Client.Create(t.Context(), object) // the round before may not be over, and then it is refused
				}
				for _, object := range objects {
					_ = w.Client.Delete(t.Context(), object)
				}
			}
		})
	}
	group.Wait()
	w.disagree(0, 0)
	var list eventsv1.EventList
	if err := w.Client.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if reason := list.Items[i].Reason; reason == v1beta1.ReasonClaimWithoutHolder || reason == v1beta1.ReasonPointWithoutClaim {
			t.Errorf("false alarm: %s", list.Items[i].Note)
		}
	}
}
