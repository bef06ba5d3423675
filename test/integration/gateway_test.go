package integration

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// gateways starts a control plane with the Gateway API.
func gateways(t *testing.T, o harness.Options) *fixture {
	t.Helper()
	t.Parallel()
	w := newFixture(t, start(t, o))
	must(w, w.InstallGateways(t.Context()))
	return w
}

// TestGateway leads a life of streams of a class with a Gateway.
func TestGateway(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 2, Flags: []string{"--claim-grace=" + grace.String()}}))
	class := gatewayClass("gates", autoAssign(8000, 8002), reserved(22, 22))
	w.create(class, namespace("gates-a"), namespace("gates-b"), service("gates-a/web", port("http", 80), port("http-udp", 80, UDP)),
		service("gates-b/web", port("http", 8080)))

	t.Log("the class says what it lacks, one after another, until it lacks nothing")
	w.classHas(class, v1beta1.ConditionProgrammed, "False GatewayNotSupported")
	mustContain(t, messageOf(class.Status.Conditions, v1beta1.ConditionProgrammed), "spec.gateway", "install the Gateway API")
	must(w, w.InstallGatewayKinds(t.Context(), "gatewayclasses", "gateways")) // as older versions have them
	w.eventually("the class to lack ListenerSets", func() error {
		w.get(class)
		return saysAll(messageOf(class.Status.Conditions, v1beta1.ConditionProgrammed), "the cluster has no ListenerSets")
	})
	must(w, w.InstallGateways(t.Context()))
	w.classHas(class, v1beta1.ConditionProgrammed, "False GatewayNotFound")
	early := sti("gates-a/early", of("gates"), tcp(5432))
	w.create(early)
	w.has(early, v1beta1.ConditionAccepted, "True Accepted")
	w.has(early, v1beta1.ConditionProgrammed, "False GatewayNotFound")
	g := w.newGateway(class, "192.0.2.7")
	w.classHas(class, v1beta1.ConditionProgrammed, "True Programmed")

	t.Log("streams are open where the Gateway is, whatever came first")
	dns, given := sti("gates-a/dns", of("gates"), udp(5432)), sti("gates-a/given", of("gates"), auto(TCP))
	w.create(dns, given)
	w.programmed(early, dns, given)
	for _, s := range []*v1beta1.StreamIngress{early, dns, given} {
		if err := is(strings.Join(s.Status.Addresses, " "), "192.0.2.7"); err != nil {
			t.Error("the addresses of a stream: ", err)
		}
	}
	w.routes(class, TCP, 5432, "gates-a", "web:80")
	w.routes(class, UDP, 5432, "gates-a", "web:80")
	w.routes(class, TCP, given.Status.Listen, "gates-a", "web:80")

	t.Log("refusals are those of any class; what is foreign on the Gateway is in the ledger")
	for name, c := range map[string]struct {
		option streamOption
		texts  []string
	}{
		"taken":             {tcp(5432), []string{"spec.listen", "held by StreamIngress gates-a/early"}},
		"the Gateway's own": {tcp(80), []string{"spec.listen", "held by Gateway gw-gates/gates"}},
		"reserved":          {tcp(22), []string{"reserves this port for itself"}},
		"PROXY protocol":    {proxyProtocol(true, false), []string{"spec.proxyProtocol", "the Gateway API has no PROXY protocol"}},
	} {
		mustContain(t, name+": "+w.refusal(w.try(sti("gates-b/rival", of("gates"), tcp(6000), c.option))).Error(), c.texts...)
	}
	edit(w, class, func(c *v1beta1.StreamIngressClass) { c.Spec.OutsideUpstreams = v1beta1.OutsideAllowed })
	w.classHas(class, v1beta1.ConditionProgrammed, "True Programmed")
	w.eventually("a name outside to be refused", func() error {
		err := w.try(sti("gates-b/named", of("gates"), tcp(6000), outside("db.example.com", 5432)))
		if err == nil || !strings.Contains(err.Error(), "whose routes lead to addresses only") {
			return fmt.Errorf("got %w", err)
		}
		return nil
	})
	out := sti("gates-b/out", of("gates"), tcp(6001), outside("203.0.113.9", 5432))
	w.create(out)
	w.programmed(out)
	w.routes(class, TCP, 6001, "gates-b", v1beta1.OutsideServiceName("out")+":5432")

	w.leadsAbroad(class, early)
	w.putsRight(class, dns, g)

	t.Log("streams that go leave nothing")
	w.delete(dns, given, out)
	w.routes(class, UDP, 5432, "gates-a", "")
	w.routes(class, TCP, 6001, "gates-b", "")
	w.heldBy("gates", UDP, 5432, "")

	t.Log("nor does the class")
	w.delete(class)
	w.routes(class, TCP, 5432, "gates-a", "")
	w.eventually("no ListenerSet to be left", func() error {
		sets, err := g.attached(t.Context())
		if err != nil || len(sets) > 0 {
			return fmt.Errorf("%d are left: %w", len(sets), err)
		}
		return nil
	})
	w.heldBy("gates", TCP, 5432, "StreamIngress gates-a/early")
}

// leadsAbroad has a stream lead to another namespace and back: its route is where its Service is, and nowhere else.
func (w *fixture) leadsAbroad(class *v1beta1.StreamIngressClass, s *v1beta1.StreamIngress) {
	w.t.Helper()
	w.t.Log("to another namespace, with its consent; that is withdrawn, and given again")
	g := grant("gates-b/all", "gates-a")
	w.create(g)
	w.eventually("the stream to be let in", func() error {
		return tryEdit(w, s, func(s *v1beta1.StreamIngress) {
			s.Spec.Upstream.Namespace = "gates-b"
			to("web", 8080)(s)
			s.Spec.Upstream.Namespace = "gates-b"
		})
	})
	w.routes(class, TCP, 5432, "gates-b", "web:8080")
	w.programmed(s)
	w.eventually("no route to be left", func() error { return w.noRoute(class, TCP, 5432, "gates-a") })
	w.delete(g)
	w.has(s, v1beta1.ConditionProgrammed, "False UnresolvedRefs")
	w.routes(class, TCP, 5432, "gates-b", "")
	w.heldBy("gates", TCP, 5432, "StreamIngress gates-a/early")
	edit(w, s, func(s *v1beta1.StreamIngress) { to("web", 80)(s) })
	w.programmed(s)
	w.routes(class, TCP, 5432, "gates-a", "web:80")
	w.eventually("no route to be left", func() error { return w.noRoute(class, TCP, 5432, "gates-b") })
}

// noRoute says that a port has a route in a namespace.
func (w *fixture) noRoute(class *v1beta1.StreamIngressClass, protocol v1beta1.Protocol, number int32, ns string) error {
	route := &gatewayv1.TCPRoute{ObjectMeta: metav1.ObjectMeta{
		Namespace: ns, Name: v1beta1.StreamServiceName(class.Name, protocol, number),
	}}
	err := w.Client.Get(w.t.Context(), client.ObjectKeyFromObject(route), route)
	if err == nil {
		return fmt.Errorf("%s/%s is there", route.Namespace, route.Name)
	}
	return client.IgnoreNotFound(err)
}

// putsRight has somebody change what Portcullis has written, and others take a port on the Gateway.
func (w *fixture) putsRight(class *v1beta1.StreamIngressClass, s *v1beta1.StreamIngress, g *gatewayController) {
	w.t.Helper()
	w.t.Log("what is changed by hand is put right")
	route := &gatewayv1.UDPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "gates-a", Name: "gates-udp-5432"}}
	edit(w, route, func(r *gatewayv1.UDPRoute) { r.Spec.Rules[0].BackendRefs[0].Name = "other" })
	w.routes(class, UDP, 5432, "gates-a", "web:80")
	w.delete(route)
	w.routes(class, UDP, 5432, "gates-a", "web:80")
	w.programmed(s)
	sets, err := g.attached(w.t.Context())
	must(w, err)
	edit(w, &sets[0], func(set *gatewayv1.ListenerSet) {
		set.Spec.Listeners = append(set.Spec.Listeners, gatewayv1.ListenerEntry{Name: "mine", Port: 9999, Protocol: gatewayv1.TCPProtocolType})
	})
	w.eventually("the foreign listener to be gone", func() error {
		w.get(&sets[0])
		for _, l := range sets[0].Spec.Listeners {
			if l.Name == "mine" {
				return fmt.Errorf("it is there")
			}
		}
		return nil
	})
	w.delete(&sets[0])
	w.routes(class, UDP, 5432, "gates-a", "web:80")
	w.programmed(s)

	w.t.Log("a port that another ListenerSet takes is its, and who had it is told by whom")
	foreign := &gatewayv1.ListenerSet{ObjectMeta: metav1.ObjectMeta{Namespace: g.gateway.Namespace, Name: "others"}}
	foreign.Spec.ParentRef = gatewayv1.ParentGatewayReference{Name: gatewayv1.ObjectName(g.gateway.Name), Kind: ptr.To(gatewayv1.Kind("Gateway"))}
	foreign.Spec.Listeners = []gatewayv1.ListenerEntry{{Name: "a", Port: 7000, Protocol: gatewayv1.TCPProtocolType}}
	w.create(foreign)
	w.heldBy(class.Name, TCP, 7000, "ListenerSet gw-gates/others")
	mustContain(w.t, w.refusal(w.try(sti("gates-b/rival", of("gates"), tcp(7000)))).Error(), "held by ListenerSet gw-gates/others")
	w.delete(foreign)
	w.heldBy(class.Name, TCP, 7000, "")
	edit(w, g.gateway, func(gw *gatewayv1.Gateway) {
		gw.Spec.Listeners = append(gw.Spec.Listeners, gatewayv1.Listener{Name: "late", Port: 7001, Protocol: gatewayv1.TLSProtocolType,
			TLS: &gatewayv1.ListenerTLSConfig{Mode: ptr.To(gatewayv1.TLSModePassthrough)}})
	})
	w.heldBy(class.Name, TCP, 7001, "Gateway gw-gates/gates")
}
