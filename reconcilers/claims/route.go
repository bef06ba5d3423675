package claims

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/kube"
)

// routeWants says whether a route that holds what a listener has for one is there, and is on that listener. Nobody wants any of a kind that
// is not guarded.
func (s *holderReading) routeWants(ctx context.Context, at claim.Coordinate) (seen claim.HolderState, err error) {
	if !s.view.Gateways.Guarded.Guards(guard.Kind(s.holder.Kind)) {
		return seen, nil
	}
	route, err := s.route(ctx)
	if err != nil || route == nil {
		return seen, err
	}
	seen = claim.HolderState{Exists: true, UID: route.UID, Generation: route.Generation}
	has, err := s.view.NamespaceLabels(ctx, route.Namespace)
	if err != nil {
		return seen, err
	}
	places, err := kube.PlacesBy(ctx, *route, has, s.routeParent)
	seen.Wants = slices.ContainsFunc(places, func(p guard.Place) bool { return p.At == at })
	return seen, err
}

// route is the holder, nil if it is not there.
func (s *holderReading) route(ctx context.Context) (*guard.Route, error) {
	var obj client.Object
	switch guard.Kind(s.holder.Kind) {
	case guard.TCPRoute:
		obj = &gatewayv1.TCPRoute{}
	case guard.UDPRoute:
		obj = &gatewayv1.UDPRoute{}
	case guard.TLSRoute:
		obj = &gatewayv1.TLSRoute{}
	default:
		return nil, nil
	}
	found, err := s.readLate(ctx, s.holder.Key(), obj)
	if err != nil || !found {
		return nil, err
	}
	route, _ := guard.OfRoute(obj)
	return &route, nil
}

// routeParent is what routes attach to, as it is read; nil for what is not there, and for a ListenerSet that no Gateway lets attach.
func (s *holderReading) routeParent(ctx context.Context, key guard.ParentKey) (*guard.Parent, error) {
	if key.Kind == guard.Gateway {
		gateway := &gatewayv1.Gateway{}
		found, err := s.readLate(ctx, key.NamespacedName, gateway)
		if err != nil || !found {
			return nil, err
		}
		return guard.ParentOfGateway(gateway), nil
	}
	set := &gatewayv1.ListenerSet{}
	found, err := s.readLate(ctx, key.NamespacedName, set)
	if err != nil || !found {
		return nil, err
	}
	if gateway, err := s.attachedTo(ctx, set); err != nil || gateway == nil {
		return nil, err
	}
	return guard.ParentOfListenerSet(set, ""), nil
}

// onRouteParent looks at the claims of the routes on listeners that a Gateway or a ListenerSet no longer has as it had them.
func (r *claimReconciler) onRouteParent() handler.TypedEventHandler[client.Object, claimRequest] {
	changed := func(before, after client.Object) bool {
		return !equality.Semantic.DeepEqual(listenersOf(before), listenersOf(after))
	}
	return onLost(changed, func(ctx context.Context, obj client.Object, q claimQueue) {
		for _, listener := range listenersOf(obj) {
			section := claim.Section{Kind: kindOf(obj), Namespace: obj.GetNamespace(), Name: obj.GetName(), Listener: string(listener.Name)}
			claims, err := r.View.Claims.OnSection(ctx, section)
			if err != nil {
				continue // read anew when they have been read
			}
			for _, c := range claims {
				enqueueClaim(q, c)
			}
		}
	})
}

func listenersOf(obj client.Object) []gatewayv1.Listener {
	switch o := obj.(type) {
	case *gatewayv1.Gateway:
		return o.Spec.Listeners
	case *gatewayv1.ListenerSet:
		return guard.ParentOfListenerSet(o, "").Listeners
	default:
		return nil
	}
}

func kindOf(obj client.Object) string {
	if _, is := obj.(*gatewayv1.Gateway); is {
		return string(guard.Gateway)
	}
	return string(guard.ListenerSet)
}

// ofRoute is a route of a guarded kind as holder.
func ofRoute(kind client.Object) holderOf {
	route, _ := guard.OfRoute(kind)
	return func(namespace, name string) claim.Holder {
		return claim.RouteHolder(string(route.Kind), namespace, name)
	}
}
