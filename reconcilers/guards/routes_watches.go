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

// onRoute looks at the parents of a route, but not at what their controllers say of it.
func (r *routeReconciler) onRoute() handler.EventHandler {
	look := func(q watch.Queue, objs ...client.Object) {
		for _, obj := range objs {
			route, _ := guard.OfRoute(obj)
			for _, key := range route.ParentKeys() {
				q.AddAfter(requestFor(key), gather)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q watch.Queue) { look(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q watch.Queue) {
			was, _ := claim.NamedHeir(e.ObjectOld)
			is, _ := claim.NamedHeir(e.ObjectNew)
			if e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || e.ObjectOld.GetUID() != e.ObjectNew.GetUID() || was != is {
				look(q, e.ObjectOld, e.ObjectNew)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q watch.Queue) { look(q, e.Object) },
	}
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

// onClaim looks at the parent of whose listener a claim is gone, or somebody else's: who waits there may have it by now.
func (r *routeReconciler) onClaim() handler.EventHandler {
	look := func(obj client.Object, q watch.Queue) {
		if at, err := claim.Of(obj.(*v1beta1.EdgeClaim)); err == nil && at.IsRoute() {
			section := at.Section()
			key := guard.ParentKey{Kind: guard.Kind(section.Kind)}
			key.Namespace, key.Name = section.Namespace, section.Name
			q.AddAfter(requestFor(key), gather)
		}
	}
	return handler.Funcs{
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q watch.Queue) {
			if isAnothersNow(e) {
				look(e.ObjectNew, q)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q watch.Queue) { look(e.Object, q) },
	}
}

// isAnothersNow says whether a claim has another holder than before, or is no longer promised to whom it was: then whom the holder names
// by now may have it.
func isAnothersNow(e event.UpdateEvent) bool {
	before, now := e.ObjectOld.(*v1beta1.EdgeClaim), e.ObjectNew.(*v1beta1.EdgeClaim)
	return claim.HolderOf(before) != claim.HolderOf(now) || before.Spec.Heir != nil && now.Spec.Heir == nil
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
