package kube

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// routeOf is an empty route of a protocol.
func routeOf(protocol v1beta1.Protocol) client.Object {
	if protocol == v1beta1.UDP {
		return &gatewayv1.UDPRoute{}
	}
	return &gatewayv1.TCPRoute{}
}

// Route reads the route of a protocol that has a name, nil for none.
func (g *Gateways) Route(ctx context.Context, protocol v1beta1.Protocol, key types.NamespacedName) (client.Object, error) {
	route := routeOf(protocol)
	if found, err := g.get(ctx, key, route); !found || err != nil {
		return nil, err
	}
	return route, nil
}

// Routes lists the routes that Portcullis has made.
func (g *Gateways) Routes(ctx context.Context) (routes []stream.RouteObject, err error) {
	for _, list := range []client.ObjectList{&gatewayv1.TCPRouteList{}, &gatewayv1.UDPRouteList{}} {
		kind := routeOf(v1beta1.TCP)
		if _, udp := list.(*gatewayv1.UDPRouteList); udp {
			kind = routeOf(v1beta1.UDP)
		}
		if known, err := g.isKnown(ctx, kind); !known || err != nil {
			return routes, err
		}
		if err := g.objects.Reader.List(ctx, list); err != nil {
			return nil, err
		}
		if err := meta.EachListItem(list, func(obj runtime.Object) error {
			if route := obj.(stream.RouteObject); IsRoute(route.(client.Object)) {
				routes = append(routes, route)
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return routes, nil
}

// HasRoute says whether a port has a route of ours in one of some namespaces, by a reader. One that is being deleted does not count: a
// tenant can keep it by a finalizer, and what closes the port then is that its listener goes.
func (g *Gateways) HasRoute(ctx context.Context, reader client.Reader, at claim.Coordinate, namespaces []string) (bool, error) {
	if len(namespaces) == 0 {
		return false, nil
	}
	if known, err := g.isKnown(ctx, routeOf(at.Protocol())); !known || err != nil {
		return false, err
	}
	for _, ns := range namespaces {
		route := routeOf(at.Protocol())
		err := reader.Get(ctx, RouteKey(at, ns), route)
		if client.IgnoreNotFound(err) != nil {
			return false, err
		}
		if err == nil && IsRoute(route) && route.GetDeletionTimestamp() == nil {
			return true, nil
		}
	}
	return false, nil
}

// RouteKey is the name of the route of a port in a namespace.
func RouteKey(at claim.Coordinate, namespace string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: v1beta1.StreamServiceName(at.Class(), at.Protocol(), at.Port())}
}

// IsRoute says whether a route of the name of a port is one that Portcullis has made, whatever became of its labels.
func IsRoute(route client.Object) bool { return Written(route) }

// PortOfRoute is the port of a class that a route is for, as its label and name say; ok is false if Portcullis has not made it.
func PortOfRoute(route client.Object) (at claim.Coordinate, ok bool) {
	class := route.GetLabels()[v1beta1.LabelClass]
	port, ok := portNamed(route.GetName())
	if class == "" || !ok || !IsRoute(route) {
		return at, false
	}
	at = claim.Stream(class, port.Protocol, port.Port)
	return at, !at.IsZero() && RouteKey(at, "").Name == route.GetName()
}

// RoutedBy is the claim on the port that a route is for, nil if that is none's: the claim says in which namespaces its routes are, and no
// route says so of itself, as anybody can make one look like it.
func (v *View) RoutedBy(ctx context.Context, route client.Object) (*v1beta1.EdgeClaim, error) {
	at, ok := PortOfRoute(route)
	if !ok {
		return nil, nil
	}
	c, err := v.Claim(ctx, at.Name())
	if err != nil || c == nil || !slices.Contains(c.Spec.RouteNamespaces, route.GetNamespace()) {
		return nil, err
	}
	return c, nil
}
