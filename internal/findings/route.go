package findings

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/hostname"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

// unclaimed is a ledger without a claim.
type unclaimed struct{}

// Claim is nil: nobody has claimed anything.
func (unclaimed) Claim(string) *v1beta1.EdgeClaim { return nil }

// RoutesAt are none: who is about to leave is asked of claims alone.
func (unclaimed) RoutesAt(claim.Coordinate) []guard.Route { return nil }

// HandsOver is nobody: there is nothing to hand over.
func (unclaimed) HandsOver(_, _ claim.Holder) bool { return false }

// routes are those that never serve: a listener serves another one, or none lets them attach.
func routes(s *snapshot.Snapshot) (found []Finding) {
	if !s.Knows("Gateway", "") {
		return nil
	}
	parents := s.Parents()
	created, on := map[claim.Holder]metav1.Object{}, map[guard.ParentKey][]guard.Route{}
	for _, obj := range s.Routes {
		r, ok := guard.OfRoute(obj)
		if !ok {
			continue
		}
		created[r.Holder] = obj
		for _, key := range r.ParentKeys() {
			if slices.Contains(guard.Routes(), r.Kind) {
				on[key] = append(on[key], r)
			}
		}
		if f, is := unattached(s, r, obj, parents); is {
			found = append(found, f)
		}
	}
	for key, p := range parents {
		slices.SortFunc(on[key], guard.CompareRoutes)
		_, lost := guard.SettleRoutes(unclaimed{}, p, on[key], s.NamespaceLabels)
		for i := range lost {
			found = append(found, routeLost(s, &lost[i], p, created))
		}
	}
	return found
}

// unattached is the finding about a route that no listener of its parents lets attach; is is false for one that is attached somewhere, and
// for one that is another's to serve, such as a mesh's.
func unattached(s *snapshot.Snapshot, r guard.Route, obj metav1.Object, parents map[guard.ParentKey]*guard.Parent) (f Finding, is bool) {
	if !s.Knows("Namespace", "") || !s.Knows("ListenerSet", "") {
		return f, false
	}
	var named []string
	hosts := hostsOf(r, obj)
	for _, ref := range r.Parents {
		key := r.ParentOf(ref)
		if key == (guard.ParentKey{}) || attaches(s, r, hosts, key, parents[key]) {
			return f, false
		}
		named = append(named, fmt.Sprintf("%s %s", key.Kind, key.NamespacedName))
	}
	slices.Sort(named)
	text := "it names no parent"
	if len(named) > 0 {
		text = "no listener of " + list(slices.Compact(named)) +
			" lets it attach, by name, port, kind, namespace and host name; or there is none"
	}
	return Finding{
		Rule: RouteNeverServes, Point: r.String(), Objects: []Object{objectOf(string(r.Kind), obj)}, Text: text,
		Advice: "name a listener that allows routes of this kind from this namespace, or remove the route",
	}, true
}

// hostsOf are the names that a route says itself.
func hostsOf(r guard.Route, obj metav1.Object) (hosts []gatewayv1.Hostname) {
	user, _ := hostname.Of(obj, exposure.Defaults{})
	user.Only(r.Kind)
	for _, n := range user.Names {
		hosts = append(hosts, gatewayv1.Hostname(n.Host))
	}
	return hosts
}

// protocols are those that the Gateway API knows. Whether a route may be on a listener of another one is up to who serves that.
var protocols = []gatewayv1.ProtocolType{
	gatewayv1.HTTPProtocolType, gatewayv1.HTTPSProtocolType, gatewayv1.TLSProtocolType, gatewayv1.TCPProtocolType, gatewayv1.UDPProtocolType,
}

// attaches says whether a route may be on a listener of a parent.
func attaches(s *snapshot.Snapshot, r guard.Route, hosts []gatewayv1.Hostname, key guard.ParentKey, p *guard.Parent) bool {
	if p == nil {
		return false
	}
	has := s.NamespaceLabels(r.Namespace)
	for _, l := range p.Listeners {
		lets := p.Allows(l, r, has) && len(guard.HostsAt(l, hosts)) > 0
		if r.IsOn(key, l) && (lets || !slices.Contains(protocols, l.Protocol)) {
			return true
		}
	}
	return false
}

func routeLost(s *snapshot.Snapshot, lost *guard.RouteLoss, p *guard.Parent, created map[claim.Holder]metav1.Object) Finding {
	holder := claim.HolderOf(lost.Held)
	listener := lost.Place.At.Section().Listener
	point := "listener " + listener
	if host := lost.Place.At.RouteHost(); host != "" {
		point = host + " on " + point
	}
	return Finding{
		Rule: RouteNeverServes, Point: point, Scope: fmt.Sprintf("%s %s", p.Kind, p.NamespacedName),
		Wins:    winner(s, holder.Kind, holder.String()),
		Objects: []Object{objectOf(holder.Kind, created[holder]), objectOf(string(lost.Route.Kind), created[lost.Route.Holder])},
		Text:    fmt.Sprintf("the listener serves one route, the oldest: %s and not %s", holder, lost.Route.Holder),
		Advice:  "choose another listener for one of them, or have all backends in one route",
	}
}
