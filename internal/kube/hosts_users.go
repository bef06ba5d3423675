package kube

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/hostname"
)

const (
	// indexHost finds objects by the host names that they say, wildcards as such, and routes that say none by inherits.
	indexHost = "host"
	// inherits is not a host name.
	inherits = "*"
)

// routeKind is a kind of routes.
type routeKind struct {
	kind   guard.Kind
	object client.Object
	list   func() client.ObjectList
}

// hostRoutes are the kinds of routes that use host names, or may give some to external-dns.
var hostRoutes = append([]routeKind{
	{guard.HTTPRoute, &gatewayv1.HTTPRoute{}, func() client.ObjectList { return &gatewayv1.HTTPRouteList{} }},
	{guard.GRPCRoute, &gatewayv1.GRPCRoute{}, func() client.ObjectList { return &gatewayv1.GRPCRouteList{} }},
}, routeKinds...)

// hostKinds are the kinds that are always read.
var hostKinds = []routeKind{
	{"Service", &corev1.Service{}, func() client.ObjectList { return &corev1.ServiceList{} }},
	{guard.Ingress, &networkingv1.Ingress{}, func() client.ObjectList { return &networkingv1.IngressList{} }},
}

// wildcard is what is behind the *. of a host name.
func wildcard(host string) (suffix string, wild bool) { return strings.CutPrefix(host, "*.") }

// hostKeys are those under which indexHost finds an object.
func hostKeys(defaults exposure.Defaults) client.IndexerFunc {
	return func(obj client.Object) (keys []string) {
		user, _ := hostname.Of(obj, defaults)
		for _, n := range user.Names {
			if n.Host != "" {
				keys = append(keys, n.Host)
			}
		}
		if user.SaysNone() {
			keys = append(keys, inherits)
		}
		slices.Sort(keys)
		return slices.Compact(keys)
	}
}

// keysOfRoutes are those under which indexHost finds the routes that may be for any of some host names: by the name itself, by a wildcard
// above it, where a listener has it, and those that say none.
func keysOfRoutes(hosts []string) []string {
	keys := sets.New(hosts...).Insert(inherits)
	for _, host := range hosts {
		for _, suffix := range claim.Suffixes(host) {
			keys.Insert("*." + suffix)
		}
	}
	return sets.List(keys)
}

// Names is an object with the host names that are judged in it, with those that a route takes over from listeners. read reads what a route
// attaches to.
func (h *Hosts) Names(ctx context.Context, obj metav1.Object, read readParent) (hostname.User, error) {
	return h.names(ctx, obj, h.objects.NamespaceLabels, read)
}

func (h *Hosts) names(ctx context.Context, obj metav1.Object, labelsOf readLabels, read readParent) (hostname.User, error) {
	user, _ := hostname.Of(obj, h.http.Defaults)
	kind := guard.Kind(user.Kind)
	if h.Judges(kind) && user.Inherits(kind) {
		route, _ := guard.OfRoute(obj)
		has, err := labelsOf(ctx, user.Namespace)
		if err != nil {
			return user, err
		}
		hosts, err := inherited(ctx, route, has, read)
		if err != nil {
			return user, err
		}
		user.Inherit(kind, hosts)
	}
	user.Names = slices.DeleteFunc(user.Names, func(n hostname.Name) bool { return !h.Judges(n.Kind) })
	return user, nil
}

// inherited are the host names of the listeners that a route attaches to.
func inherited(ctx context.Context, route guard.Route, has labels.Set, read readParent) (hosts []guard.InheritedHost, err error) {
	parents, err := parentsOf(ctx, route, read)
	for _, parent := range parents {
		hosts = append(hosts, route.Inherited(parent, has)...)
	}
	return hosts, err
}

// ParentsNow reads what a route attaches to at admission: what the cache does not have is looked for past it, as any may have been made a
// moment ago, but for no more than mostLooks.
func (h *Hosts) ParentsNow() func(context.Context, guard.ParentKey) (*guard.Parent, error) {
	looks := 0
	return func(ctx context.Context, key guard.ParentKey) (*guard.Parent, error) {
		parent, err := h.gateways.Parent(ctx, key)
		if err != nil || parent != nil || looks == mostLooks {
			return parent, err
		}
		looks++
		return h.gateways.parentNow(ctx, key)
	}
}

// IsSameRoute says whether two versions of a route, as the cache has them, attach to the same, by the same host names, and serve the same
// paths there: most changes are of something else, weights for instance.
func IsSameRoute(before, after client.Object) bool {
	switch {
	case before.GetUID() != after.GetUID(): // of one that was deleted and made anew, each life is looked at
		return false
	case before.GetGeneration() == after.GetGeneration():
		return true
	}
	switch was := before.(type) {
	case *gatewayv1.HTTPRoute:
		is, same := after.(*gatewayv1.HTTPRoute)
		return same && equality.Semantic.DeepEqual(was.Spec, is.Spec)
	case *gatewayv1.GRPCRoute:
		is, same := after.(*gatewayv1.GRPCRoute)
		return same && equality.Semantic.DeepEqual(was.Spec, is.Spec)
	case *gatewayv1.TLSRoute:
		is, same := after.(*gatewayv1.TLSRoute)
		return same && equality.Semantic.DeepEqual(was.Spec, is.Spec)
	default:
		return false
	}
}

// Beneath are the host names of the listeners of a Gateway, with those of the ListenerSets that name it, or of a ListenerSet: routes take
// them over while these attach.
func (h *Hosts) Beneath(ctx context.Context, parent client.Object) []string {
	if _, is := parent.(*gatewayv1.Gateway); !is {
		return guard.HostsOf(parent)
	}
	return append(guard.HostsOf(parent), h.ofSets(ctx, client.MatchingFields{IndexAttached: client.ObjectKeyFromObject(parent).String()})...)
}

// OfSetsIn are the host names of the ListenerSets of a namespace, which Gateways may let attach by its labels.
func (h *Hosts) OfSetsIn(ctx context.Context, namespace string) []string {
	return h.ofSets(ctx, client.InNamespace(namespace))
}

// ofSets are the host names of some ListenerSets: none where neither paths of routes are guarded nor a policy gives names to namespaces,
// nor while ListenerSets are yet to be read: all is looked at when that changes.
func (h *Hosts) ofSets(ctx context.Context, selected client.ListOption) (hosts []string) {
	var list gatewayv1.ListenerSetList
	if len(h.routes()) == 0 || !h.Policies().Owns() && !h.GuardsPaths() {
		return nil
	}
	if known, err := h.gateways.prepared(ctx); !known || err != nil || h.objects.Reader.List(ctx, &list, selected) != nil {
		return nil
	}
	for i := range list.Items {
		hosts = append(hosts, guard.HostsOf(&list.Items[i])...)
	}
	return hosts
}

// Using are the objects that use a host name, as far as it is judged in them.
func (h *Hosts) Using(ctx context.Context, host string) ([]hostname.User, error) {
	return h.using(ctx, host, "")
}

// UsedIn says whether anything in a namespace uses a host name that is judged there, or an Ingress serves it, judged or not.
func (h *Hosts) UsedIn(ctx context.Context, namespace, host string) (bool, error) {
	users, err := h.using(ctx, host, namespace)
	if err != nil || len(users) > 0 {
		return len(users) > 0, err
	}
	var list networkingv1.IngressList
	err = h.objects.Reader.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{indexHost: host}, client.Limit(1))
	return len(list.Items) > 0, err
}

func (h *Hosts) using(ctx context.Context, host, namespace string) (users []hostname.User, err error) {
	err = h.each(ctx, h.users(), namespace, []string{host}, func(obj client.Object) error {
		user, err := h.Names(ctx, obj, h.gateways.Parent)
		if err == nil && user.Uses(host) {
			users = append(users, h.stated(ctx, user))
		}
		return err
	})
	return users, err
}

// Judged are the host names that are judged in objects of a namespace, or of all for "".
func (h *Hosts) Judged(ctx context.Context, namespace string) (hosts []string, err error) {
	return h.judgedIn(ctx, h.users(), namespace)
}

// WithPaths are those that are judged in routes whose paths are guarded.
func (h *Hosts) WithPaths(ctx context.Context, namespace string) (hosts []string, err error) {
	return h.judgedIn(ctx, h.pathKinds(), namespace)
}

func (h *Hosts) judgedIn(ctx context.Context, kinds []routeKind, namespace string) (hosts []string, err error) {
	err = h.each(ctx, kinds, namespace, nil, func(obj client.Object) error {
		user, err := h.Names(ctx, obj, h.gateways.Parent)
		for _, n := range user.Names {
			hosts = append(hosts, n.Host)
		}
		return err
	})
	slices.Sort(hosts)
	return slices.Compact(hosts), err
}

// users are the kinds of objects that use host names which are judged.
func (h *Hosts) users() []routeKind { return append(slices.Clip(hostKinds), h.routes()...) }

// each calls a function with the objects of some kinds in a namespace, or in all for "", that say any of some host names, or are routes
// that may be for one, or with all of them without names.
func (h *Hosts) each(ctx context.Context, kinds []routeKind, namespace string, hosts []string, do func(client.Object) error) error {
	ofRoutes := keysOfRoutes(hosts)
	for _, k := range kinds {
		do, keys := do, hosts
		if len(hosts) > 0 && !isCore(k) {
			keys = ofRoutes
		}
		if len(keys) > 1 { // who says a name may have others, or inherit some
			do = eachOnce(do)
		}
		if !isCore(k) {
			known, err := h.prepared(ctx, k.object)
			if err != nil {
				return err
			}
			if !known {
				continue
			}
		}
		options := []client.ListOption{client.InNamespace(namespace)}
		if len(keys) == 0 {
			if err := h.eachIn(ctx, k, options, do); err != nil {
				return err
			}
		}
		for _, key := range keys {
			if err := h.eachIn(ctx, k, append(options, client.MatchingFields{indexHost: key}), do); err != nil {
				return err
			}
		}
	}
	return nil
}

// eachOnce calls a function with each object once.
func eachOnce(do func(client.Object) error) func(client.Object) error {
	seen := map[types.UID]bool{}
	return func(obj client.Object) error {
		if seen[obj.GetUID()] {
			return nil
		}
		seen[obj.GetUID()] = true
		return do(obj)
	}
}

// prepared says whether a kind of routes is installed, and makes sure that it is indexed. That it is not is asked again a moment later.
func (h *Hosts) prepared(ctx context.Context, kind client.Object) (known bool, err error) {
	if known, err = h.gateways.isInstalled(ctx, kind); err != nil || !known {
		return known, err
	}
	return true, h.gateways.prepareRoutes(ctx, kind)
}

func (h *Hosts) eachIn(ctx context.Context, k routeKind, options []client.ListOption, do func(client.Object) error) error {
	list := k.list()
	if err := h.objects.Reader.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return err
	}
	return meta.EachListItem(list, func(obj runtime.Object) error { return do(obj.(client.Object)) })
}

// isCore says whether a kind is one that is always read.
func isCore(k routeKind) bool {
	return slices.ContainsFunc(hostKinds, func(c routeKind) bool { return c.kind == k.kind })
}

// routes are the kinds of routes that are guarded.
func (h *Hosts) routes() []routeKind {
	return slices.DeleteFunc(slices.Clone(hostRoutes), func(k routeKind) bool { return !h.Guarded.Guards(k.kind) })
}

// GuardedRoutes are empty objects of the kinds of routes that are guarded.
func (h *Hosts) GuardedRoutes() (objects []client.Object) {
	for _, k := range h.routes() {
		objects = append(objects, k.object)
	}
	return objects
}
