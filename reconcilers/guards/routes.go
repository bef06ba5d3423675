package guards

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/reconcilers/access"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// setupRoutes adds the reconciler of what routes attach to, if any routes are guarded.
func setupRoutes(mgr manager.Manager, a access.Access, lost *losses) error {
	kinds := a.View.Gateways.GuardedRoutes()
	if len(kinds) == 0 {
		return nil
	}
	r := &routeReconciler{Access: a, losers: lost.of(a.View.Gateways.Guarded.Among(guard.Routes()...)...)}
	b := builder.ControllerManagedBy(mgr).Named("guard-routes").
		WatchesRawSource(watch.OnGateways(mgr, a.View, &gatewayv1.Gateway{}, r.onParent(guard.Gateway), watch.Nobody)).
		WatchesRawSource(watch.OnGateways(mgr, a.View, &gatewayv1.ListenerSet{}, r.onParent(guard.ListenerSet), r.everyParent)).
		WatchesRawSource(watch.OnHeirsKnown(a.View, r.everyParent)).
		Watches(&v1beta1.EdgeClaim{}, onClaimGone(r.ofClaim)).
		Watches(kube.NamespaceObject(), handler.EnqueueRequestsFromMapFunc(r.parentsIn),
			builder.OnlyMetadata, builder.WithPredicates(predicate.LabelChangedPredicate{}))
	for _, kind := range kinds {
		b = b.WatchesRawSource(watch.OnGateways(mgr, a.View, kind, onChange(r.ofRoute, asksOtherwise), r.everyParent))
	}
	return b.WithOptions(watch.Fairly(workers, func(req reconcile.Request) string { return req.Namespace })).
		Complete(watch.Guarded(a.View, a.Kinds, r))
}

// routeReconciler looks at all routes that name a Gateway or a ListenerSet.
type routeReconciler struct {
	access.Access
	losers *losers
}

// Reconcile enters the routes of a parent that stand without a claim, and tells those who stand where somebody else has the listener.
func (r *routeReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	entries, lost, err := r.settle(ctx, parentIn(req))
	switch {
	case kube.IsUnread(err):
		return reconcile.Result{RequeueAfter: gather}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	r.tell(req.NamespacedName, lost)
	again, err := enterAll(ctx, r.Access, entries)
	return reconcile.Result{RequeueAfter: again}, err
}

// settle has the rules look at the routes of a parent; there are none where nothing is to attach to.
func (r *routeReconciler) settle(ctx context.Context, key guard.ParentKey) (enter []claim.Entry, lost []guard.RouteLoss, err error) {
	parent, err := r.View.Gateways.Parent(ctx, key)
	if err != nil || parent == nil {
		return nil, nil, err
	}
	routes, err := r.View.Gateways.RoutesTo(ctx, key)
	if err != nil || len(routes) == 0 {
		return nil, nil, err
	}
	_, err = kube.Decide(ctx, r.View, func(f *kube.Facts) struct{} {
		has := map[string]labels.Set{}
		for _, route := range routes {
			if _, known := has[route.Namespace]; !known {
				has[route.Namespace] = f.NamespaceLabels(route.Namespace)
			}
		}
		enter, lost = guard.SettleRoutes(f, parent, routes, func(namespace string) labels.Set { return has[namespace] })
		return struct{}{}
	})
	return enter, lost, err
}

// tell tells those who have lost at a parent, or have handed over what they have there.
func (r *routeReconciler) tell(parent types.NamespacedName, lost []guard.RouteLoss) {
	losses := make([]loss, 0, len(lost))
	for _, l := range lost {
		losses = append(losses, loss{
			of: l.Route.Claimant, kind: l.Route.Kind, reason: v1beta1.ReasonRouteConflict, text: l.String(), key: l.Key(), given: l.Given,
		})
	}
	r.losers.tell(r.Events, parent, losses, allTold,
		"one of the two is served, by age and not by who had it: attach to another listener",
		"it was handed over, and the older of the two is served: delete this route, or take that out of it")
}

// requestFor asks for a look at the routes of a parent.
func requestFor(key guard.ParentKey) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: key.Namespace, Name: string(key.Kind) + "/" + key.Name}}
}

// parentIn is the parent that a request is about.
func parentIn(req reconcile.Request) guard.ParentKey {
	kind, name, _ := strings.Cut(req.Name, "/")
	return guard.ParentKey{Kind: guard.Kind(kind), NamespacedName: types.NamespacedName{Namespace: req.Namespace, Name: name}}
}
