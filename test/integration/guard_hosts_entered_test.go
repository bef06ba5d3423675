package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// namesOf are the host names that a namespace holds.
func (w *fixture) namesOf(namespace string) (hosts []string) {
	w.t.Helper()
	var claims v1beta1.EdgeClaimList
	must(w, w.Client.List(w.t.Context(), &claims, client.MatchingFields{"spec.scope": claim.HostnameScope, "spec.heldBy": "Namespace " + namespace}))
	for i := range claims.Items {
		hosts = append(hosts, claims.Items[i].Spec.Point)
	}
	return hosts
}

// TestGuardEntersHosts turns a policy of one name for each namespace on over namespaces that use several: each has one, and another when it
// gives that up.
func TestGuardEntersHosts(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 1, Flags: []string{"--claim-grace=" + grace.String()}})
	w.create(namespace("many"), namespace("young"))
	for i := range 6 {
		w.create(ingressOn(fmt.Sprintf("many/n%d", i), "/", fmt.Sprintf("n%d.few.test", i)))
	}
	time.Sleep(time.Second) // so that it is older, by the API server's clock
	w.create(ingressOn("young/n0", "/young", "n0.few.test"))
	few := hostPolicy("few", []string{"*.few.test"}, ownsNames, func(p *v1beta1.HostPolicy) { p.Spec.MaxPerNamespace = new(int32(1)) })
	w.create(few)
	var first string
	has := func(namespace string) func() error {
		return func() error {
			names := w.namesOf(namespace)
			if len(names) > 1 {
				t.Fatalf("namespace %s has %v, of one name", namespace, names)
			}
			return is(len(names), 1)
		}
	}
	w.eventually("a namespace to have one of its names", has("many"))
	first = w.namesOf("many")[0]
	t.Logf("it has %s", first)
	if first == "n0.few.test" {
		w.told("Ingress", "n0", v1beta1.ReasonHostConflict, "held by Namespace many")
	} else {
		w.nameHeldBy("n0.few.test", "Namespace young")
	}

	t.Log("what is given up makes room for another")
	w.delete(ingressOn("many/"+strings.TrimSuffix(first, ".few.test"), "/", first))
	w.eventually("the namespace to have another of its names", func() error {
		if names := w.namesOf("many"); len(names) == 1 && names[0] == first {
			return fmt.Errorf("it still has %s", first)
		}
		return has("many")()
	})
}

// TestGuardFollowsInheritedHosts has routes take over host names of listeners, which then let them attach no longer, and again.
func TestGuardFollowsInheritedHosts(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 1, Flags: []string{"--claim-grace=" + grace.String()}})
	w.create(namespace("infra"), namespace("routes", "team=a"), namespace("sets", "team=a"), hostPolicy("own", []string{"*.own.test"}, ownsNames))
	selected := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	edge := w.openGateway("infra/edge", gatewayv1.Listener{Name: "chosen", Protocol: gatewayv1.HTTPProtocolType, Port: 8080,
		Hostname: new(gatewayv1.Hostname("chosen.own.test")), AllowedRoutes: &gatewayv1.AllowedRoutes{
			Namespaces: &gatewayv1.RouteNamespaces{From: ptr.To(gatewayv1.NamespacesFromSelector), Selector: selected}}})
	set := listenerSet("sets/set", edge, listen(gatewayv1.HTTPProtocolType, 8081, "set.own.test"))
	w.create(set, httpRoute("routes/inherits", onListener(edge, "chosen")), httpRoute("sets/inherits", onListener(set, "")))
	w.nameHeldBy("chosen.own.test", "Namespace routes")
	w.nameHeldBy("set.own.test", "Namespace sets")

	t.Log("by the labels of its namespace a route attaches, or not")
	label := func(name, team string) {
		edit(w, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, func(ns *corev1.Namespace) { ns.Labels["team"] = team })
	}
	label("routes", "b")
	w.nameHeldBy("chosen.own.test", "")
	label("routes", "a")
	w.nameHeldBy("chosen.own.test", "Namespace routes")

	t.Log("and by what the Gateway says of it, a ListenerSet")
	allow := func(from gatewayv1.FromNamespaces, selector *metav1.LabelSelector) {
		edit(w, edge, func(g *gatewayv1.Gateway) {
			g.Spec.AllowedListeners.Namespaces = &gatewayv1.ListenerNamespaces{From: &from, Selector: selector}
		})
	}
	allow(gatewayv1.NamespacesFromNone, nil)
	w.nameHeldBy("set.own.test", "")
	allow(gatewayv1.NamespacesFromSelector, selected)
	w.nameHeldBy("set.own.test", "Namespace sets")
	label("sets", "b")
	w.nameHeldBy("set.own.test", "")
	label("sets", "a")
	w.nameHeldBy("set.own.test", "Namespace sets")
	w.delete(edge)
	w.nameHeldBy("set.own.test", "")
	w.nameHeldBy("chosen.own.test", "")
	w.create(&gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: edge.Namespace, Name: edge.Name}, Spec: edge.Spec})
	w.nameHeldBy("set.own.test", "Namespace sets")
	w.nameHeldBy("chosen.own.test", "Namespace routes")
}
