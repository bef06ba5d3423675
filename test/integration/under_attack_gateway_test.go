package integration

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// gatewayStorm is a life of many streams of a class with a Gateway: each has a claim, a listener and a route.
type gatewayStorm struct {
	*churn
	gateway *gatewayController
}

// TestGatewayStorm creates a thousand streams of a class with a Gateway, of which then most move, lead elsewhere or go, while leaders die
// and leave and the API server crashes. Afterwards there are exactly the claims, listeners and routes that the streams want, no set has
// more than it may, and nothing is written any more, also not by a process that begins anew.
func TestGatewayStorm(t *testing.T) {
	t.Parallel()
	const streams = 1000
	o := raceOptions()
	o.ControlPlane.Audit = true
	h := start(t, o)
	w := newFixture(t, h)
	must(w, h.InstallGateways(t.Context()))
	class := gatewayClass("gatestorm", autoAssign(30000, 30999))
	w.create(class)
	g := w.newGateway(class, "192.0.2.8")
	w.classHas(class, v1beta1.ConditionProgrammed, "True Programmed")
	s := &gatewayStorm{churn: (&edge{fixture: w, class: class}).churning("gatestorm", 4), gateway: g}
	for _, ns := range s.namespaces {
		w.create(service(ns+"/web", port("http", 80), port("more", 81), port("http-udp", 80, UDP), port("more-udp", 81, UDP)))
	}

	began := time.Now()
	s.live(0, streams/2, 16)
	dead := leader(w, h.Replicas...)
	must(w, dead.Kill())
	another, err := h.StartReplica(t.Context())
	must(w, err)
	t.Log("the leader is dead")
	s.live(streams/2, 3*streams/4, 16)
	alive := append(others(h.Replicas, dead), another)
	leaves := leader(w, alive...)
	must(w, leaves.Retire(t.Context()))
	_, err = h.StartReplica(t.Context())
	must(w, err)
	t.Log("the leader has left, and the API server crashes")
	must(w, h.CrashAPIServer(t.Context()))
	s.live(3*streams/4, streams, 16)
	if running := withoutEnded(h.Replicas); len(running) < 2 {
		_, err = h.StartReplica(t.Context())
		must(w, err)
	}
	t.Logf("created and changed after %v", time.Since(began).Round(time.Second))
	w.eventually("listeners and routes to be exact", s.exactly)
	s.nobodyWasLiedTo()
	w.settles(10 * time.Second)
	must(w, s.exactly())
	written := map[string]int{}
	for _, write := range w.writes() {
		written[write.Resource]++
	}
	t.Logf("%d streams took the writes %v", streams, written)

	for _, r := range withoutEnded(h.Replicas) {
		must(w, r.Kill())
	}
	before := len(w.writes())
	fresh, err := h.StartReplica(t.Context())
	must(w, err)
	leader(w, fresh)
	w.settles(10 * time.Second)
	if n := len(w.writes()) - before; n > 0 {
		t.Errorf("a process that begins anew has written %d times", n)
	}
	must(w, s.exactly())
}

func withoutEnded(all []*harness.Replica) (running []*harness.Replica) {
	for _, r := range all {
		if !hasEnded(r) {
			running = append(running, r)
		}
	}
	return running
}

// exactly says what is not as it should be, nil when everything is.
func (s *gatewayStorm) exactly() error {
	var streams v1beta1.StreamIngressList
	var claims v1beta1.EdgeClaimList
	for _, list := range []client.ObjectList{&streams, &claims} {
		if err := s.Client.List(s.t.Context(), list); err != nil {
			return err
		}
	}
	want := &expected{holders: map[string]*v1beta1.StreamIngress{}}
	for i := range streams.Items {
		want.add(&streams.Items[i])
	}
	held, wanted := map[string]string{}, map[string]string{claim.Stream(s.class.Name, TCP, 80).Name(): "Gateway gw-gatestorm/gatestorm"}
	for i := range claims.Items {
		held[claims.Items[i].Name] = claims.Items[i].Spec.HeldBy
	}
	for name, holder := range want.holders {
		wanted[name] = claim.StreamHolder(holder.Namespace, holder.Name).String()
	}
	return errors.Join(errors.Join(want.wrong...), same("the ledger", held, wanted), s.doorsAre(want))
}

// doorsAreThose compares listeners and routes with the streams of the class.
func (s *gatewayStorm) doorsAreThose() error {
	var streams v1beta1.StreamIngressList
	if err := s.Client.List(s.t.Context(), &streams); err != nil {
		return err
	}
	want := &expected{holders: map[string]*v1beta1.StreamIngress{}}
	for i := range streams.Items {
		if streams.Items[i].Spec.ClassName == s.class.Name {
			want.add(&streams.Items[i])
		}
	}
	return errors.Join(errors.Join(want.wrong...), s.doorsAre(want))
}

// doorsAre compares listeners and routes.
func (s *gatewayStorm) doorsAre(want *expected) error {
	sets, err := s.gateway.attached(s.t.Context())
	if err != nil {
		return err
	}
	listeners, routes := map[string]string{}, map[string]string{}
	at := map[string]types.NamespacedName{}
	for i := range sets {
		if n := len(sets[i].Spec.Listeners); n > stream.MaxListeners {
			return fmt.Errorf("%s has %d listeners", sets[i].Name, n)
		}
		stored := stream.StoredSetOf(&sets[i], *s.class.Spec.Gateway)
		if stored.Foreign {
			return fmt.Errorf("%s has something that is not ours", sets[i].Name)
		}
		for _, l := range stored.Listeners {
			name := claim.Stream(s.class.Name, l.Port.Protocol, l.Port.Port).Name()
			listeners[name] = joined(listeners[name], l.Namespace)
			at[name] = client.ObjectKeyFromObject(&sets[i])
		}
	}
	var tcp gatewayv1.TCPRouteList
	var udp gatewayv1.UDPRouteList
	for _, list := range []client.ObjectList{&tcp, &udp} {
		if err := s.Client.List(s.t.Context(), list); err != nil {
			return err
		}
	}
	for i := range tcp.Items {
		s.note(routes, &tcp.Items[i], want, at)
	}
	for i := range udp.Items {
		s.note(routes, &udp.Items[i], want, at)
	}
	wantedListeners, wantedRoutes := map[string]string{}, map[string]string{}
	for name, holder := range want.holders {
		wantedListeners[name], wantedRoutes[name] = holder.UpstreamNamespace(), "leads where it should"
	}
	return errors.Join(same("the listeners", listeners, wantedListeners), same("the routes", routes, wantedRoutes))
}

// note notes where a route leads, by the claim on the port that it has the name of.
func (s *gatewayStorm) note(routes map[string]string, route client.Object, want *expected, sets map[string]types.NamespacedName) {
	at, ok := kube.PortOfRoute(route)
	text := "of no stream"
	if holder := want.holders[at.Name()]; ok && holder != nil {
		wanted := stream.Route{
			Port: stream.PortKey{Protocol: at.Protocol(), Port: at.Port()}, Set: sets[at.Name()],
			Key:     kube.RouteKey(at, holder.UpstreamNamespace()),
			Service: holder.UpstreamService(), ServicePort: holder.Spec.Upstream.Port.IntVal,
		}
		if text = "leads elsewhere"; wanted.IsWritten(route) && wanted.Key == client.ObjectKeyFromObject(route) {
			text = "leads where it should"
		}
	}
	routes[at.Name()] = joined(routes[at.Name()], text)
}
