package guards

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// ofRoute asks for a look at the parents of a route.
func (r *routeReconciler) ofRoute(_ context.Context, obj client.Object) (requests []reconcile.Request) {
	route, _ := guard.OfRoute(obj)
	for _, key := range route.ParentKeys() {
		requests = append(requests, requestFor(key))
	}
	return requests
}

// asksOtherwise says whether a route has changed, but for what controllers say of it.
func asksOtherwise(before, now client.Object) bool {
	was, _ := claim.NamedHeir(before)
	is, _ := claim.NamedHeir(now)
	return before.GetGeneration() != now.GetGeneration() || before.GetUID() != now.GetUID() || was != is
}

// onParent looks at a Gateway or a ListenerSet whose listeners have changed. Which ListenerSets a Gateway lets attach concerns their
// routes.
func (r *routeReconciler) onParent(kind guard.Kind) handler.EventHandler {
	look := func(q watch.Queue, obj client.Object) {
		q.AddAfter(requestFor(guard.ParentKey{Kind: kind, NamespacedName: client.ObjectKeyFromObject(obj)}), gather)
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q watch.Queue) {
			look(q, e.Object)
			if kind == guard.Gateway && !e.IsInInitialList {
				watch.Add(q, r.everyParent(ctx))
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q watch.Queue) {
			if e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
				look(q, e.ObjectNew)
			}
			before, isGateway := e.ObjectOld.(*gatewayv1.Gateway)
			if isGateway && !equality.Semantic.DeepEqual(before.Spec.AllowedListeners, e.ObjectNew.(*gatewayv1.Gateway).Spec.AllowedListeners) {
				watch.Add(q, r.everyParent(ctx))
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q watch.Queue) {
			look(q, e.Object)
			if kind == guard.Gateway {
				watch.Add(q, r.everyParent(ctx))
			}
		},
	}
}

// ofClaim asks for a look at the parent of whose listener a claim is gone: who waits there may have it by now.
func (r *routeReconciler) ofClaim(_ context.Context, _ *v1beta1.EdgeClaim, at claim.Coordinate) []reconcile.Request {
	if !at.IsRoute() {
		return nil
	}
	section := at.Section()
	key := guard.ParentKey{Kind: guard.Kind(section.Kind)}
	key.Namespace, key.Name = section.Namespace, section.Name
	return []reconcile.Request{requestFor(key)}
}

// everyParent asks for a look at all that routes name.
func (r *routeReconciler) everyParent(ctx context.Context) (requests []reconcile.Request) {
	return r.parents(ctx, "")
}

// parentsIn asks for a look at all that the routes of a namespace name, whose labels have changed: a listener may select by them.
func (r *routeReconciler) parentsIn(ctx context.Context, namespace client.Object) []reconcile.Request {
	return r.parents(ctx, namespace.GetName())
}

// parents are those of the routes of a namespace, or of all for "".
func (r *routeReconciler) parents(ctx context.Context, namespace string) (requests []reconcile.Request) {
	routes, err := r.View.Gateways.GuardedIn(ctx, namespace)
	if err != nil {
		log.FromContext(ctx).V(1).Info("could not list routes", "error", err.Error()) // those that are yet to be read are looked at then
	}
	seen := sets.New[guard.ParentKey]()
	for _, route := range routes {
		for _, key := range route.ParentKeys() {
			if !seen.Has(key) {
				seen.Insert(key)
				requests = append(requests, requestFor(key))
			}
		}
	}
	return requests
}
