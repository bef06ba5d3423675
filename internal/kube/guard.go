package kube

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// IndexListens finds ListenerSets by the points of their listeners, on the Gateway that they name.
const IndexListens = "listens"

// listensAt are the keys of a ListenerSet in IndexListens.
func listensAt(set *gatewayv1.ListenerSet) (points []string) {
	of := GatewayOf(set)
	for _, l := range guard.OfListenerSet(set, of).Listeners {
		for _, at := range l.Points(of) {
			points = append(points, at.String())
		}
	}
	return points
}

// All are all Gateways, none while they are not installed or yet to be read.
func (g *Gateways) All(ctx context.Context) ([]gatewayv1.Gateway, error) {
	if known, err := g.isKnown(ctx, &gatewayv1.Gateway{}); !known || err != nil {
		if IsUnread(err) {
			err = nil
		}
		return nil, err
	}
	var list gatewayv1.GatewayList
	err := g.objects.Reader.List(ctx, &list)
	return list.Items, err
}

// holder reads one of the Gateway API.
func (g *Gateways) holder(ctx context.Context, of claim.Holder) (client.Object, error) {
	var obj client.Object = &gatewayv1.ListenerSet{}
	if guard.Kind(of.Kind) == guard.Gateway {
		obj = &gatewayv1.Gateway{}
	}
	for _, route := range hostRoutes {
		if string(route.kind) == of.Kind {
			obj = emptyOf(route.object)
		}
	}
	found, err := g.get(ctx, of.Key(), obj)
	if err != nil || !found {
		return nil, err
	}
	return obj, nil
}

// Request is what an object asks for that has listeners on a Gateway.
func (g *Gateways) Request(ctx context.Context, o guard.Opener, on *gatewayv1.Gateway, before []guard.Listener) (*guard.Request, error) {
	scopes, classes, err := g.Reach(ctx, on)
	return &guard.Request{Opener: o, Before: before, Scopes: scopes, Classes: classes}, err
}

// Reach is where the listeners of a Gateway have to be alone, and the classes whose streams are there, too.
func (g *Gateways) Reach(
	ctx context.Context, gateway *gatewayv1.Gateway,
) (scopes []types.NamespacedName, classes []*v1beta1.StreamIngressClass, err error) {
	var others []gatewayv1.Gateway
	if addresses := stream.GatewayAddresses(gateway); len(addresses) > 0 {
		if others, err = g.All(ctx); err != nil {
			return nil, nil, err
		}
	}
	all, err := g.objects.Classes(ctx)
	scopes = guard.Scopes(gateway, others)
	return scopes, guard.Classes(all, scopes, stream.GatewayAddresses(gateway)), err
}

// Openers are all who have listeners on a Gateway, in the order in which an implementation serves them. Those that Portcullis has made for
// a class are not among them: their ports are their streams'.
func (g *Gateways) Openers(ctx context.Context, gateway *gatewayv1.Gateway) ([]guard.Opener, error) {
	openers, err := g.attached(ctx, gateway, client.MatchingFields{IndexAttached: client.ObjectKeyFromObject(gateway).String()})
	openers = append(openers, guard.OfGateway(gateway))
	slices.SortFunc(openers, guard.CompareOpeners)
	return openers, err
}

// attached are the openers among the ListenerSets that an index has under a key: those that the Gateway lets attach, but for those that
// Portcullis has made.
func (g *Gateways) attached(ctx context.Context, gateway *gatewayv1.Gateway, by client.MatchingFields) ([]guard.Opener, error) {
	if known, err := g.prepared(ctx); !known || err != nil {
		return nil, err
	}
	var list gatewayv1.ListenerSetList
	if err := g.objects.Reader.List(ctx, &list, by); err != nil {
		return nil, err
	}
	var openers []guard.Opener
	for i := range list.Items {
		set := &list.Items[i]
		opens, err := g.opens(ctx, gateway, set)
		if err != nil {
			return nil, err
		}
		if opens {
			openers = append(openers, guard.OfListenerSet(set, client.ObjectKeyFromObject(gateway)))
		}
	}
	return openers, nil
}

// opens says whether a Gateway lets a ListenerSet attach that names it, and that Portcullis has not made.
func (g *Gateways) opens(ctx context.Context, gateway *gatewayv1.Gateway, set *gatewayv1.ListenerSet) (bool, error) {
	if own, err := g.IsOwn(ctx, set); err != nil || own {
		return false, err
	}
	return g.Attaches(ctx, gateway, set)
}

// IsOwn says whether a ListenerSet is one that Portcullis has made for a class that exists, where those of the class are.
func (g *Gateways) IsOwn(ctx context.Context, set *gatewayv1.ListenerSet) (bool, error) {
	if !IsListenerSet(set) {
		return false, nil
	}
	class, err := g.objects.Class(ctx, set.Labels[v1beta1.LabelClass])
	return err == nil && class != nil && IsHere(class, set) && GatewayOf(set) == keyOf(*class.Spec.Gateway), err
}

// IsOwnNow says the same at admission, where the class may have been made a moment ago.
func (g *Gateways) IsOwnNow(ctx context.Context, set *gatewayv1.ListenerSet) (bool, error) {
	if !IsListenerSet(set) || !isName(set.Labels[v1beta1.LabelClass]) {
		return false, nil
	}
	if own, err := g.IsOwn(ctx, set); err != nil || own {
		return own, err
	}
	class, err := readBy[v1beta1.StreamIngressClass](ctx, g.objects.tenants, types.NamespacedName{Name: set.Labels[v1beta1.LabelClass]})
	return err == nil && class != nil && IsHere(class, set) && GatewayOf(set) == keyOf(*class.Spec.Gateway), err
}

// Gateway is a Gateway, as the cache has it; nil for none.
func (g *Gateways) Gateway(ctx context.Context, key types.NamespacedName) (*gatewayv1.Gateway, error) {
	gateway := &gatewayv1.Gateway{}
	found, err := g.get(ctx, key, gateway)
	if err != nil || !found {
		return nil, err
	}
	return gateway, nil
}

// Letting is the Gateway of a key that lets the ListenerSets of a namespace attach, nil for none. One that the cache does not have, or that
// does not let them there, is looked for past it, and so are the labels of the namespace: any may have been made, or changed, a moment ago.
func (g *Gateways) Letting(ctx context.Context, key types.NamespacedName, namespace string, has labels.Set) (*gatewayv1.Gateway, error) {
	gateway, err := g.Gateway(ctx, key)
	if err != nil || key.Name == "" || !isName(key.Name) {
		return nil, err
	}
	if gateway != nil && stream.AllowsListeners(gateway, namespace, has) {
		return gateway, nil
	}
	if gateway, err = readBy[gatewayv1.Gateway](ctx, g.objects.tenants, key); err != nil || gateway == nil {
		return nil, err
	}
	ns := NamespaceObject()
	if err := g.objects.live.Get(ctx, types.NamespacedName{Name: namespace}, ns); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if !stream.AllowsListeners(gateway, namespace, ns.Labels) {
		return nil, nil
	}
	return gateway, nil
}

// Listens finds, past any cache, the claim of somebody who listens at a port of the Gateway of a class, or of one that has an address in
// common with it; nil for none, or where nobody is guarded.
func (g *Gateways) Listens(
	ctx context.Context, ledger *claim.Ledger, class *v1beta1.StreamIngressClass, at claim.Coordinate,
) (*v1beta1.EdgeClaim, error) {
	if class.Spec.Gateway == nil || !g.Guarded.Guards(guard.Listeners()...) {
		return nil, nil
	}
	scopes := []types.NamespacedName{keyOf(*class.Spec.Gateway)}
	gateway, err := g.Gateway(ctx, scopes[0])
	switch {
	case IsUnread(err): // the ledger is read past any cache
	case err != nil || gateway == nil:
		return nil, err
	default:
		if scopes, _, err = g.Reach(ctx, gateway); err != nil {
			return nil, err
		}
	}
	var listening *v1beta1.EdgeClaim
	for range looksAtListeners {
		if listening, err = g.listening(ctx, ledger, scopes, at); err != nil || listening == nil || !ledger.IsFresh(listening) {
			break
		}
		select {
		case <-ctx.Done():
			return listening, nil
		case <-time.After(looksApart):
		}
	}
	return listening, err
}

// A listener that was claimed a moment ago may be given back: who claims one looks for streams then, and gives way. So a stream looks a few
// times before it gives way itself, or often neither would have the port.
const (
	looksAtListeners = 5
	looksApart       = 20 * time.Millisecond
)

func (g *Gateways) listening(
	ctx context.Context, ledger *claim.Ledger, scopes []types.NamespacedName, at claim.Coordinate,
) (*v1beta1.EdgeClaim, error) {
	for _, scope := range scopes {
		for _, protocol := range guard.Protocols(at.Protocol()) {
			found, err := ledger.HeldAt(ctx, claim.Listener(scope, protocol, at.Port()), claim.Holder{}, "")
			if err != nil || found != nil {
				return found, err
			}
		}
	}
	return nil, nil
}

// HostClaims are the claims on host names at a port of a Gateway.
func (c *Claims) HostClaims(ctx context.Context, hosts claim.Coordinate) ([]*v1beta1.EdgeClaim, error) {
	return c.in(ctx, hosts.HostsScope())
}
