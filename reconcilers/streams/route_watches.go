package streams

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

func setupRoutes(mgr manager.Manager, b base, refused *refusedDoors, ports *kube.KeyMutex[claim.Coordinate]) error {
	r := &routeReconciler{base: b, refused: refused, ports: ports}
	routes := handler.EnqueueRequestsFromMapFunc(r.portOfRoute)
	return b.onUpstreams(mgr, builder.ControllerManagedBy(mgr).Named("streamingressclass-route"), r.portsOf, r.everyPort).
		// Where a route is about to be is written in the same look as the route.
		Watches(&v1beta1.EdgeClaim{}, afterLag(r.portOfClaim)).
		Watches(&v1beta1.StreamIngressClass{}, handler.EnqueueRequestsFromMapFunc(r.portsOfClass),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1beta1.StreamIngress{}, handler.EnqueueRequestsFromMapFunc(r.portsOfStream), builder.WithPredicates(watch.StreamChanged())).
		WatchesRawSource(watch.OnGateways(mgr, b.View, &gatewayv1.ListenerSet{}, r.onListeners(), r.everyPort)).
		WatchesRawSource(watch.OnGateways(mgr, b.View, &gatewayv1.TCPRoute{}, routes, r.everyPort)).
		WatchesRawSource(watch.OnGateways(mgr, b.View, &gatewayv1.UDPRoute{}, routes, r.everyPort)).
		WithOptions(watch.Fairly(forwarders, r.turnOfPort)).
		Complete(watch.Guarded(b.View, b.Kinds, r))
}

// hasRoutes says whether a port has, or may have, a route.
func (r *routeReconciler) hasRoutes(ctx context.Context, at claim.Coordinate, c *v1beta1.EdgeClaim) bool {
	if !at.IsStream() {
		return false
	}
	if c != nil && len(c.Spec.RouteNamespaces) > 0 {
		r.View.Gateways.Ask() // its class may be gone since
		return true
	}
	class, err := r.View.Class(ctx, at.Class())
	return err == nil && class != nil && class.Spec.Gateway != nil
}

// portOfClaim finds the port that a claim is on. One that is gone, or names others now, may have left a route in each namespace that it
// named: by hand, as Portcullis takes the routes out before.
func (r *routeReconciler) portOfClaim(ctx context.Context, obj client.Object) []reconcile.Request {
	c := obj.(*v1beta1.EdgeClaim)
	at, err := claim.Parse(c.Name)
	if err != nil || !r.hasRoutes(ctx, at, c) {
		return nil
	}
	requests := []reconcile.Request{watch.ForName(at.Name())}
	now, err := r.View.Claim(ctx, at.Name())
	if err != nil {
		return requests
	}
	for _, ns := range c.Spec.RouteNamespaces {
		if now == nil || !slices.Contains(now.Spec.RouteNamespaces, ns) {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: ns, Name: at.Name()}})
		}
	}
	return requests
}

// portsOfClass finds the ports of a class that have, or may have, a route.
func (r *routeReconciler) portsOfClass(ctx context.Context, class client.Object) []reconcile.Request {
	claims, err := r.View.Claims.OfClass(ctx, class.GetName())
	if err != nil {
		log.FromContext(ctx).Error(err, "could not list the claims of a class", "class", class.GetName())
	}
	var requests []reconcile.Request
	for at, c := range claims {
		if r.hasRoutes(ctx, at, c) {
			requests = append(requests, watch.ForName(at.Name()))
		}
	}
	return requests
}

func (r *routeReconciler) everyPort(ctx context.Context) []reconcile.Request {
	return forEach(ctx, r.classes(ctx), r.portsOfClass)
}

// portsOf finds the ports that streams hold.
func (r *routeReconciler) portsOf(ctx context.Context, streams []v1beta1.StreamIngress) []reconcile.Request {
	return forEach(ctx, streams, r.portsOfStream)
}

func (r *routeReconciler) portsOfStream(ctx context.Context, si client.Object) []reconcile.Request {
	return r.portsHeldBy(ctx, si, func(at claim.Coordinate) bool {
		c, err := r.View.Claim(ctx, at.Name())
		return err == nil && r.hasRoutes(ctx, at, c)
	})
}

// portOfRoute finds the port that a route says it is for. Whether it may be there is found out by the look.
func (r *routeReconciler) portOfRoute(_ context.Context, route client.Object) []reconcile.Request {
	at, ok := kube.PortOfRoute(route)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: route.GetNamespace(), Name: at.Name()}}}
}

// onListeners looks at the ports whose listeners a ListenerSet has come to have, or has no longer, or has for another namespace.
func (r *routeReconciler) onListeners() handler.EventHandler {
	ports := func(ctx context.Context, set *gatewayv1.ListenerSet) map[claim.Coordinate]gatewayv1.ListenerEntry {
		if set == nil {
			return nil
		}
		entries := map[claim.Coordinate]gatewayv1.ListenerEntry{}
		for _, at := range r.View.ListenersHere(ctx, set) {
			for _, entry := range set.Spec.Listeners {
				if entry.Port == at.Port() && v1beta1.Protocol(entry.Protocol) == at.Protocol() {
					entries[at] = entry
				}
			}
		}
		return entries
	}
	return watch.OnChanges(func(ctx context.Context, q watch.Queue, before, after *gatewayv1.ListenerSet) {
		old, now := ports(ctx, before), ports(ctx, after)
		for at := range sets.KeySet(old).Union(sets.KeySet(now)) {
			was, had := old[at]
			is, has := now[at]
			if had != has || !equality.Semantic.DeepEqual(was, is) {
				q.Add(watch.ForName(at.Name()))
			}
		}
	})
}
