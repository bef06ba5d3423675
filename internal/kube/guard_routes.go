package kube

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/guard"
)

// indexParent finds routes by what they attach to.
const indexParent = "parent"

// routeKinds are the kinds of routes of which a listener serves one.
var routeKinds = []routeKind{
	{guard.TCPRoute, &gatewayv1.TCPRoute{}, func() client.ObjectList { return &gatewayv1.TCPRouteList{} }},
	{guard.UDPRoute, &gatewayv1.UDPRoute{}, func() client.ObjectList { return &gatewayv1.UDPRouteList{} }},
	{guard.TLSRoute, &gatewayv1.TLSRoute{}, func() client.ObjectList { return &gatewayv1.TLSRouteList{} }},
}

// GuardedRoutes are empty objects of the kinds of routes that are guarded.
func (g *Gateways) GuardedRoutes() (objects []client.Object) {
	for _, k := range routeKinds {
		if g.Guarded.Guards(k.kind) {
			objects = append(objects, k.object)
		}
	}
	return objects
}

// guardedKinds are empty objects of all kinds of the Gateway API by which guarded ones are decided.
func (g *Gateways) guardedKinds() []client.Object {
	kinds := slices.DeleteFunc(slices.Clone(hostRoutes), func(k routeKind) bool { return !g.Guarded.Guards(k.kind) })
	if len(kinds) == 0 && !g.Guarded.Guards(guard.Listeners()...) {
		return nil
	}
	objects := []client.Object{&gatewayv1.Gateway{}, &gatewayv1.ListenerSet{}}
	for _, k := range kinds {
		objects = append(objects, k.object)
	}
	return objects
}

// prepareRoutes makes sure that the routes of a kind are indexed.
func (g *Gateways) prepareRoutes(ctx context.Context, kind client.Object) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := fmt.Sprintf("%s of %T", indexParent, kind)
	if g.indexed[name] {
		return nil
	}
	byParent := func(obj client.Object) (keys []string) {
		route, _ := guard.OfRoute(obj)
		for _, ref := range route.Parents {
			key := route.ParentOf(ref)
			keys = append(keys, indexedParent(key), indexedSection(key, string(ptr.Deref(ref.SectionName, ""))))
		}
		slices.Sort(keys)
		return slices.Compact(keys)
	}
	byHost := hostKeys(exposure.Defaults{})
	if err := addIndexes(ctx, g.indexer, index{kind, indexParent, byParent}, index{kind, indexHost, byHost}); err != nil {
		return err
	}
	g.indexed[name] = true
	return nil
}

func indexedParent(key guard.ParentKey) string { return string(key.Kind) + " " + key.String() }

// indexedSection is for those that name a listener there, or, with "", none in particular.
func indexedSection(key guard.ParentKey, listener string) string {
	return indexedParent(key) + " on " + listener
}

// Parent is what routes attach to, as the cache has it; nil for what is not there, and for a ListenerSet that no Gateway lets attach.
func (g *Gateways) Parent(ctx context.Context, key guard.ParentKey) (*guard.Parent, error) {
	if key.Kind == guard.Gateway {
		gateway, err := g.Gateway(ctx, key.NamespacedName)
		if err != nil || gateway == nil {
			return nil, err
		}
		return guard.ParentOfGateway(gateway), nil
	}
	set := &gatewayv1.ListenerSet{}
	if found, err := g.get(ctx, key.NamespacedName, set); err != nil || !found {
		return nil, err
	}
	return g.parentOfSet(ctx, set)
}

func (g *Gateways) parentOfSet(ctx context.Context, set *gatewayv1.ListenerSet) (*guard.Parent, error) {
	own, err := g.IsOwn(ctx, set)
	switch {
	case err != nil:
		return nil, err
	case own:
		return guard.ParentOfListenerSet(set, set.Labels[v1beta1.LabelClass]), nil
	}
	if gateway, err := g.AttachedTo(ctx, set); err != nil || gateway == nil {
		return nil, err
	}
	return guard.ParentOfListenerSet(set, ""), nil
}

// parentNow is the same past the cache, but for the Gateway of a ListenerSet.
func (g *Gateways) parentNow(ctx context.Context, key guard.ParentKey) (*guard.Parent, error) {
	if !isName(key.Name) || !isName(key.Namespace) {
		return nil, nil
	}
	if key.Kind == guard.Gateway {
		gateway, err := readInstalled[gatewayv1.Gateway](ctx, g.objects.tenants, key.NamespacedName)
		if err != nil || gateway == nil {
			return nil, err
		}
		return guard.ParentOfGateway(gateway), nil
	}
	set, err := readSet(ctx, g.objects.tenants, key.NamespacedName)
	if err != nil || set == nil {
		return nil, err
	}
	return g.parentOfSet(ctx, set)
}

// readSet reads a ListenerSet by a reader, nil when there is none, and keeps of it what the cache does: of what only one of the two had, a
// claim would be asked for and released without end.
func readSet(ctx context.Context, reader client.Reader, key types.NamespacedName) (*gatewayv1.ListenerSet, error) {
	set, err := readInstalled[gatewayv1.ListenerSet](ctx, reader, key)
	if err != nil || set == nil {
		return nil, err
	}
	slimListenerSet(set)
	return set, nil
}

// readInstalled reads one object by a reader, nil when there is none, or the API server does not know its kind.
func readInstalled[T any, P interface {
	*T
	client.Object
}](ctx context.Context, reader client.Reader, key types.NamespacedName) (P, error) {
	obj, err := readBy[T, P](ctx, reader, key)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	return obj, err
}

// PlacesNow are what a route has of the listeners that are there, at admission. has are the labels of its namespace. A parent of which the
// cache shows nothing for the route is looked for past it, as any may have been made, or changed, a moment ago.
func (g *Gateways) PlacesNow(ctx context.Context, r guard.Route, has labels.Set) (places []guard.Place, err error) {
	looks := 0
	return PlacesBy(ctx, r, has, func(ctx context.Context, key guard.ParentKey) (*guard.Parent, error) {
		parent, err := g.Parent(ctx, key)
		if err != nil || parent != nil && len(r.Places(parent, has)) > 0 || looks == mostLooks {
			return parent, err
		}
		looks++
		return g.parentNow(ctx, key)
	})
}

// mostLooks is how many parents are looked for past the cache for one route, which may name 32 that don't exist: requests share such looks.
// What is let in because of that is entered, or told, once the cache shows the parent.
const mostLooks = 4

// PlacesBy are those at the parents as they are read.
func PlacesBy(ctx context.Context, r guard.Route, has labels.Set, read readParent) (places []guard.Place, err error) {
	parents, err := parentsOf(ctx, r, read)
	for _, parent := range parents {
		places = append(places, r.Places(parent, has)...)
	}
	return places, err
}

// RoutesTo are the guarded routes that name a parent, in the order in which an implementation serves them.
func (g *Gateways) RoutesTo(ctx context.Context, key guard.ParentKey) ([]guard.Route, error) {
	routes, err := g.routes(ctx, client.MatchingFields{indexParent: indexedParent(key)})
	slices.SortFunc(routes, guard.CompareRoutes)
	return routes, err
}

// GuardedIn are the guarded routes of a namespace, or of all for "".
func (g *Gateways) GuardedIn(ctx context.Context, namespace string) ([]guard.Route, error) {
	return g.routes(ctx, client.InNamespace(namespace))
}

// routes are the guarded routes that an option selects, as far as their kinds are installed.
func (g *Gateways) routes(ctx context.Context, option client.ListOption) (routes []guard.Route, err error) {
	for _, k := range routeKinds {
		if !g.Guarded.Guards(k.kind) {
			continue
		}
		known, err := g.isKnown(ctx, k.object)
		if err == nil && known {
			err = g.prepareRoutes(ctx, k.object)
		}
		if err != nil {
			return nil, err
		}
		if !known {
			continue
		}
		list := k.list()
		if err := g.objects.Reader.List(ctx, list, option); err != nil {
			return nil, err
		}
		if err := meta.EachListItem(list, func(obj runtime.Object) error {
			if route, ok := guard.OfRoute(obj.(metav1.Object)); ok {
				routes = append(routes, route)
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return routes, nil
}

// onSection are the guarded routes on a listener, by protocol and, where it tells them apart, by host name.
type onSection map[sharing][]guard.Route

type sharing struct {
	protocol v1beta1.Protocol
	host     string
}

// onSection finds the routes on a listener.
func (g *Gateways) onSection(ctx context.Context, of claim.Section) (onSection, error) {
	key := parentKey(of)
	parent, err := g.Parent(ctx, key)
	if err != nil || parent == nil {
		return nil, err
	}
	i := slices.IndexFunc(parent.Listeners, func(l gatewayv1.Listener) bool { return string(l.Name) == of.Listener })
	if i < 0 {
		return nil, nil
	}
	listener := parent.Listeners[i]
	on := onSection{}
	for _, index := range []string{indexedSection(key, of.Listener), indexedSection(key, "")} {
		routes, err := g.routes(ctx, client.MatchingFields{indexParent: index})
		if err != nil {
			return nil, err
		}
		for _, r := range routes {
			has, err := g.objects.NamespaceLabels(ctx, r.Namespace)
			if err != nil {
				return nil, err
			}
			if !parent.Allows(listener, r, has) || !r.IsOn(key, listener) {
				continue
			}
			for _, name := range r.Names(listener) {
				shared := sharing{protocolOf(r.Kind), name}
				on[shared] = append(on[shared], r)
			}
		}
	}
	return on, nil
}

// protocolOf is that of the points of a kind of routes.
func protocolOf(kind guard.Kind) v1beta1.Protocol {
	switch kind {
	case guard.UDPRoute:
		return v1beta1.UDP
	case guard.TLSRoute:
		return claim.TLSListener
	default:
		return v1beta1.TCP
	}
}

// parentKey names the object of a listener.
func parentKey(of claim.Section) guard.ParentKey {
	return guard.ParentKey{Kind: guard.Kind(of.Kind), NamespacedName: types.NamespacedName{Namespace: of.Namespace, Name: of.Name}}
}

var _ guard.RouteFacts = &Facts{}

// RoutesAt are the routes that are stored on a listener, or for a host name there.
func (f *Facts) RoutesAt(at claim.Coordinate) []guard.Route {
	return f.routes.of(f, at.Section(), f.ask.guard.onSection)[sharing{at.Protocol(), at.RouteHost()}]
}
