package claims

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/reconcilers/access"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// onGateways is a source of events of a kind of the Gateway API, once a class has a Gateway. Once that is read, those are looked at who
// hold ports of such classes: what went before is told by no event.
func onGateways(
	mgr manager.Manager, b access.Access, kind client.Object, h handler.TypedEventHandler[client.Object, claimRequest],
) source.TypedSource[claimRequest] {
	return watch.OnGateways(mgr, b.View, kind, h, func(ctx context.Context) []claimRequest {
		return concernedByGateways(ctx, b.View)
	})
}

// concernedByGateways are the holders of claims on what the Gateway API has or gives, and of ports of classes with a Gateway.
func concernedByGateways(ctx context.Context, view *kube.View) []claimRequest {
	var claims v1beta1.EdgeClaimList
	if err := view.Reader.List(ctx, &claims); err != nil {
		log.FromContext(ctx).Error(err, "could not list claims")
	}
	holders := sets.New[claimRequest]()
	for i := range claims.Items {
		c := &claims.Items[i]
		at := coordinateOf(c)
		class, err := view.Class(ctx, at.Class())
		if at.IsListener() || at.IsRoute() || at.IsHostname() || at.IsRoutePath() || len(c.Spec.RouteNamespaces) > 0 ||
			err == nil && class != nil && class.Spec.Gateway != nil {
			holders.Insert(claimRequest{Holder: claim.HolderOf(c)})
		}
	}
	return holders.UnsortedList()
}

// isRouted says whether a port has a route in a namespace that its claim names, or a listener of ours: it has one before the route comes,
// and after the route went, and also where none came: who has the namespace that it is open for can attach routes of their own.
func (s *holderReading) isRouted(ctx context.Context, c *v1beta1.EdgeClaim, at claim.Coordinate) (bool, error) {
	routed, err := s.view.Gateways.HasRoute(ctx, s.reader, at, c.Spec.RouteNamespaces)
	if routed || err != nil {
		return routed, err
	}
	class, err := s.view.Class(ctx, at.Class())
	if err != nil || class != nil && class.Spec.Gateway == nil || class == nil && len(c.Spec.RouteNamespaces) == 0 {
		return false, err
	}
	return s.view.Gateways.HasListener(ctx, class, at)
}

// onListenerSet looks at the claims of the streams whose ports a ListenerSet has no listener for any longer.
func (r *claimReconciler) onListenerSet() handler.TypedEventHandler[client.Object, claimRequest] {
	return handler.TypedFuncs[client.Object, claimRequest]{
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q claimQueue) {
			still := kube.ListenersOf(e.ObjectNew.(*gatewayv1.ListenerSet))
			before := r.View.ListenersHere(ctx, e.ObjectOld.(*gatewayv1.ListenerSet))
			r.enqueuePoints(ctx, q, slices.DeleteFunc(before, func(at claim.Coordinate) bool { return slices.Contains(still, at) }))
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q claimQueue) {
			r.enqueuePoints(ctx, q, r.View.ListenersHere(ctx, e.Object.(*gatewayv1.ListenerSet)))
		},
	}
}

// onRoute looks at the claim of the stream whose route is gone, or about to go.
func (r *claimReconciler) onRoute() handler.TypedEventHandler[client.Object, claimRequest] {
	isGoing := func(before, after client.Object) bool {
		return before.GetDeletionTimestamp() == nil && after.GetDeletionTimestamp() != nil
	}
	return onLost(isGoing, func(ctx context.Context, route client.Object, q claimQueue) {
		if c, err := r.View.RoutedBy(ctx, route); err == nil && c != nil {
			enqueueClaim(q, c)
		}
	})
}

// onGateway looks at the claims of a Gateway, and, where it lets others attach than before, or is elsewhere or gone, at those of all whose
// listeners were attached to any.
func (r *claimReconciler) onGateway() handler.TypedEventHandler[client.Object, claimRequest] {
	own := onHolder(claim.GatewayHolder, predicate.Funcs{})
	lookAtAll := func(ctx context.Context, q claimQueue) {
		for _, req := range append(r.attached(ctx, ""), r.guarded(ctx, "")...) {
			q.Add(req)
		}
	}
	return handler.TypedFuncs[client.Object, claimRequest]{
		CreateFunc: own.Create,
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q claimQueue) {
			own.Update(ctx, e, q)
			before, after := e.ObjectOld.(*gatewayv1.Gateway), e.ObjectNew.(*gatewayv1.Gateway)
			if !equality.Semantic.DeepEqual(before.Spec.AllowedListeners, after.Spec.AllowedListeners) ||
				!equality.Semantic.DeepEqual(before.Status.Addresses, after.Status.Addresses) {
				lookAtAll(ctx, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q claimQueue) {
			own.Delete(ctx, e, q)
			lookAtAll(ctx, q)
		},
	}
}

// attached are all whose listeners have ports of classes with a Gateway, those of a namespace, or all of them for "".
func (r *claimReconciler) attached(ctx context.Context, namespace string) []claimRequest {
	classes, err := r.View.Classes(ctx)
	if err != nil {
		log.FromContext(ctx).Error(err, "could not list the classes")
	}
	holders := sets.New[claimRequest]()
	for i := range classes {
		if classes[i].Spec.Gateway == nil {
			continue
		}
		claims, err := r.portsOf(ctx, classes[i].Name, namespace)
		if err != nil {
			log.FromContext(ctx).Error(err, "could not list the claims of a class", "class", classes[i].Name, "namespace", namespace)
		}
		for _, c := range claims {
			if h := claim.HolderOf(c); h.Group == gatewayv1.GroupName {
				holders.Insert(claimRequest{Holder: h})
			}
		}
	}
	return holders.UnsortedList()
}

// portsOf are the claims on ports of a class, those of a namespace, or all of them for "".
func (r *claimReconciler) portsOf(ctx context.Context, class, namespace string) ([]*v1beta1.EdgeClaim, error) {
	if namespace != "" {
		return r.View.Claims.OfNamespace(ctx, namespace, claim.StreamScope(class))
	}
	claims, err := r.View.Claims.OfClass(ctx, class)
	return slices.Collect(maps.Values(claims)), err
}

// attachedIn finds those of a namespace whose labels have changed that have ports of classes by their listeners, and who have host names by
// those labels: Gateways may let those attach whose namespace has some.
func (r *claimReconciler) attachedIn(ctx context.Context, namespace client.Object) []claimRequest {
	holders := sets.New(append(r.attached(ctx, namespace.GetName()), r.guarded(ctx, namespace.GetName())...)...)
	if r.View.Hosts.Policies().Owns() { // listeners may no longer let its routes attach, or Gateways its ListenerSets
		holders.Insert(claimRequest{Holder: claim.NamespaceHolder(namespace.GetName())})
		holders.Insert(r.holdersOf(ctx, r.View.Hosts.OfSetsIn(ctx, namespace.GetName()))...)
	}
	if r.View.Hosts.GuardsPaths() {
		holders.Insert(claimRequest{Holder: claim.NamespaceHolder(namespace.GetName())})
		holders.Insert(r.pathHoldersOn(ctx, r.View.Hosts.GatewaysOfSetsIn(ctx, namespace.GetName())...)...)
	}
	return holders.UnsortedList()
}
