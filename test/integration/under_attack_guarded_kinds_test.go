package integration

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// kindRace is one race: all of its rivals want what at most one of them can have.
type kindRace struct {
	// points are what the winner may hold, by the kind of rival.
	points []claim.Coordinate
	rivals []*rival
}

// race holds a race after the other, each with rivals of its own, and has the winner give way.
func (w *fixture) race(races int, next func(round int) kindRace, kinds ...string) {
	w.t.Helper()
	wins, none, unclear := map[string]int{}, 0, 0
	began := time.Now()
	for round := range races {
		r := next(round)
		answers := tryAll(w.t.Context(), r.rivals, favorite(round))
		var won []*rival
		judged := true
		for i, a := range answers {
			if a.isYes() {
				won = append(won, r.rivals[i])
				wins[cmp.Or(r.rivals[i].kind, r.rivals[i].holder.Kind)]++
			}
			judged = judged && !a.isUnclear()
		}
		switch {
		case len(won) > 1:
			w.t.Errorf("round %d: %s was given to %s and to %s", round, r.points[0], won[0].holder, won[1].holder)
		case !judged: // who was let in unchecked may have been entered where a winner is about to be
			unclear++
		case len(won) == 0:
			none++
		default:
			if !slices.ContainsFunc(r.points, func(at claim.Coordinate) bool { return w.pointHolder(at.Name()) == won[0].holder.String() }) {
				w.t.Errorf("round %d: %s was told yes, and holds none of %v", round, won[0].holder, r.points)
			}
		}
		for _, r := range r.rivals {
			r.undo()
		}
	}
	w.t.Logf("%d races in %v: nobody won %d, %d without a verdict for all, winners %v", races, time.Since(began).Round(time.Millisecond), none, unclear, wins)
	if 2*(none+unclear) > races {
		w.t.Errorf("only %d of %d races had a winner", races-none-unclear, races)
	}
	for _, kind := range kinds {
		if races >= enoughRaces/2 && wins[kind] == 0 {
			w.t.Errorf("no %s has ever won", kind)
		}
	}
}

// takesBack deletes an object, if it is there.
func (w *fixture) takesBack(obj client.Object) {
	w.eventually("an object to be deleted", func() error { return client.IgnoreNotFound(w.Client.Delete(w.t.Context(), obj)) })
}

// noneLeft waits until no claim of a scope's family is left.
func (w *fixture) noneLeft(is func(claim.Coordinate) bool) {
	w.t.Helper()
	w.eventually("the losers' and the winners' claims to be gone", func() error {
		var claims v1beta1.EdgeClaimList
		if err := w.Client.List(w.t.Context(), &claims); err != nil {
			return err
		}
		for i := range claims.Items {
			if at, err := claim.Of(&claims.Items[i]); err == nil && is(at) {
				return fmt.Errorf("%s is held by %s", at, claims.Items[i].Spec.HeldBy)
			}
		}
		return nil
	})
}

// TestNoDoubleExternalIP has Services that name an address, and load balancers that ask for it, race for a port of it, or for all of it:
// by creates and by edits, over two replicas.
func TestNoDoubleExternalIP(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 2, Flags: []string{"--claim-grace=" + grace.String()}})
	w.create(addressPool("shared", []string{"198.18.84.0/24"}, forAll, sharesPorts, onRequest), addressPool("whole", []string{"198.18.85.0/24"}, forAll, onRequest))
	users := w.creators("ext", rivals)
	w.race(*guardRaces/2, func(round int) kindRace {
		ip, number, pool := "198.18.84.1", int32(1000+round), "shared"
		if round%2 == 1 {
			ip, number, pool = fmt.Sprintf("198.18.85.%d", round%250+1), 80, "whole"
		}
		address := claim.AddressPort(netip.MustParseAddr(ip), "TCP", number)
		race := kindRace{points: []claim.Coordinate{address, claim.Address(netip.MustParseAddr(ip))}}
		for i, c := range users {
			name := fmt.Sprintf("%s/round-%d", c.namespace, round)
			svc := naming(name, named(ip), ports(port("", number)))
			switch {
			case i%3 == 0:
				svc = balancer(name, inPool(pool), wants(ip), ports(port("", number)))
			case i%4 == 1: // by an edit
				w.create(naming(name))
				race.rivals = append(race.rivals, &rival{
					holder: claim.ServiceHolder(c.namespace, svc.Name), undo: func() { w.takesBack(svc.DeepCopy()) },
					try: editing(c.Client, naming(name), func(s *corev1.Service) { s.Spec.ExternalIPs, s.Spec.Ports = svc.Spec.ExternalIPs, svc.Spec.Ports }),
				})
				continue
			}
			race.rivals = append(race.rivals, &rival{
				holder: claim.ServiceHolder(c.namespace, svc.Name), undo: func() { w.takesBack(svc.DeepCopy()) }, try: creating(c.Client, svc.DeepCopy),
			})
		}
		return race
	}, "Service")
	w.noneLeft(claim.Coordinate.IsAddress)
	w.decidedBoth("Service")
}

// TestNoDoubleRoute has routes race for listeners that serve one, and for host names at one that serves one for each.
func TestNoDoubleRoute(t *testing.T) {
	const listeners = 60
	w := guarded(t, harness.Options{Replicas: 2, Flags: []string{"--claim-grace=" + grace.String()}})
	w.create(namespace("infra"))
	own := []gatewayv1.Listener{routable("tls", gatewayv1.TLSProtocolType, 7443, gatewayv1.NamespacesFromAll)}
	for i := range listeners {
		own = append(own, routable(fmt.Sprintf("l%d", i), gatewayv1.TCPProtocolType, int32(8000+i), gatewayv1.NamespacesFromAll))
	}
	edge := w.openGateway("infra/edge", own...)
	users := w.creators("routes", rivals)
	section := claim.Section{Kind: "Gateway", Namespace: "infra", Name: "edge"}
	w.race(*guardRaces/2, func(round int) kindRace {
		var race kindRace
		on := section
		on.Listener = fmt.Sprintf("l%d", round%listeners)
		host := gatewayv1.Hostname(fmt.Sprintf("r%d.example.com", round))
		race.points = []claim.Coordinate{claim.Route(on, TCP)}
		if round%2 == 1 {
			on.Listener = "tls"
			race.points = []claim.Coordinate{claim.HostRoute(on, string(host))}
		}
		for i, c := range users {
			name := fmt.Sprintf("%s/round-%d", c.namespace, round)
			switch ref := onListener(edge, on.Listener); {
			case round%2 == 1:
				route := tlsRoute(name, ref, host)
				race.rivals = append(race.rivals, &rival{
					holder: claim.RouteHolder("TLSRoute", c.namespace, route.Name), undo: func() { w.takesBack(route.DeepCopy()) },
					try: creating(c.Client, route.DeepCopy),
				})
			case i%4 == 1: // by an edit
				route := tcpRoute(name, onListener(edge, "none"))
				w.create(route.DeepCopy())
				race.rivals = append(race.rivals, &rival{
					holder: claim.RouteHolder("TCPRoute", c.namespace, route.Name), undo: func() { w.takesBack(route.DeepCopy()) },
					try: editing(c.Client, route, func(r *gatewayv1.TCPRoute) { r.Spec.ParentRefs[0] = ref }),
				})
			default:
				route := tcpRoute(name, ref)
				race.rivals = append(race.rivals, &rival{
					holder: claim.RouteHolder("TCPRoute", c.namespace, route.Name), undo: func() { w.takesBack(route.DeepCopy()) },
					try: creating(c.Client, route.DeepCopy),
				})
			}
		}
		return race
	}, "TCPRoute", "TLSRoute")
	w.noneLeft(claim.Coordinate.IsRoute)
	w.decidedBoth("TCPRoute", "TLSRoute")
}

// decidedBoth checks that each replica has decided on some kinds: or else it was no race between replicas.
func (w *fixture) decidedBoth(kinds ...string) {
	w.t.Helper()
	for i, r := range w.Replicas {
		for _, kind := range kinds {
			if decisions(w, r, kind) == 0 {
				w.t.Errorf("replica %d never decided on a %s, so that this was no race between replicas", i, kind)
			}
		}
	}
}

// creating creates an object, a copy each time it is asked for.
func creating[T client.Object](c client.Client, made func() T) func(context.Context) error {
	return func(ctx context.Context) error { return c.Create(ctx, made()) }
}

// editing changes an object that is stored.
func editing[T client.Object](c client.Client, stored T, change func(T)) func(context.Context) error {
	return func(ctx context.Context) error { return editBy(ctx, c, stored.DeepCopyObject().(T), change) }
}

// TestNoDoubleHost has objects of all kinds that use host names race for one, and for a wildcard against names below it: by creates and by
// edits, each in a namespace of its own, over two replicas.
func TestNoDoubleHost(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 2, Flags: []string{"--claim-grace=" + grace.String()}})
	w.create(namespace("infra"), hostPolicy("own", []string{"*.own.test"}, ownsNames))
	w.policiesCount("the policy", unreadable("infra/early"))
	edge := w.openGateway("infra/edge")
	users := w.creators("hosts", rivals)
	w.race(*guardRaces, func(round int) kindRace {
		host := fmt.Sprintf("a.r%d.own.test", round)
		wildcard := fmt.Sprintf("*.r%d.own.test", round)
		race := kindRace{points: []claim.Coordinate{claim.Hostname(host), claim.Hostname(wildcard)}}
		for i, c := range users {
			name, wants := fmt.Sprintf("%s/round-%d", c.namespace, round), host
			if round%2 == 1 && i%2 == 1 {
				wants = wildcard
			}
			one := &rival{holder: claim.NamespaceHolder(c.namespace)}
			var obj client.Object
			switch (i + round) % 5 {
			case 0:
				obj, one.kind = ingressOn(name, "/login", wants), "Ingress"
			case 1:
				obj, one.kind = httpRoute(name, onListener(edge, "web"), gatewayv1.Hostname(wants)), "HTTPRoute"
			case 2:
				obj, one.kind = inDNS(naming(name), wants), "Service for the DNS"
			case 3:
				obj, one.kind = asking(name, "host="+wants), "annotated Service"
			default: // by an edit
				obj, one.kind = ingressOn(name, "/login", c.namespace+".free.test"), "edited Ingress"
				w.create(obj.DeepCopyObject().(client.Object))
				one.try = editing(c.Client, obj.(*networkingv1.Ingress), func(ing *networkingv1.Ingress) { ing.Spec.Rules[0].Host = wants })
			}
			if one.try == nil {
				one.try = creating(c.Client, func() client.Object { return obj.DeepCopyObject().(client.Object) })
			}
			one.undo = func() { w.takesBack(obj.DeepCopyObject().(client.Object)) }
			race.rivals = append(race.rivals, one)
		}
		return race
	}, "Ingress", "HTTPRoute", "Service for the DNS", "annotated Service", "edited Ingress")
	w.noneLeft(claim.Coordinate.IsHostname)
	w.decidedBoth("Ingress", "HTTPRoute", "Service")
}
