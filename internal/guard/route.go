package guard

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// MostParents is how many parents of a route are looked at: all that the API lets it have.
const MostParents = 32

// MostRoutePoints is how many listeners, and host names there, a route may ask for at a time, and of how many host names of a stored one
// is taken notice. The API lets a TLSRoute have 1,024 names, at each listener.
const MostRoutePoints = 128

// Route is a route of the Gateway API.
type Route struct {
	claim.Claimant
	Kind    Kind
	Created time.Time
	Parents []gatewayv1.ParentReference
	// Hosts are the names that a TLSRoute, an HTTPRoute or a GRPCRoute is for, none for all.
	Hosts []gatewayv1.Hostname
	// Heir is to whom the route hands over what it has, the zero name for nobody.
	Heir types.NamespacedName
	// Deleting says that the route is being deleted.
	Deleting bool
}

// OfRoute is a route of one of the kinds Routes, or an HTTPRoute or a GRPCRoute, of which a listener serves any number; ok is false for
// anything else.
func OfRoute(obj metav1.Object) (r Route, ok bool) {
	switch o := obj.(type) {
	case *gatewayv1.TCPRoute:
		r.Kind, r.Parents = TCPRoute, o.Spec.ParentRefs
	case *gatewayv1.UDPRoute:
		r.Kind, r.Parents = UDPRoute, o.Spec.ParentRefs
	case *gatewayv1.TLSRoute:
		r.Kind, r.Parents, r.Hosts = TLSRoute, o.Spec.ParentRefs, o.Spec.Hostnames
	case *gatewayv1.HTTPRoute:
		r.Kind, r.Parents, r.Hosts = HTTPRoute, o.Spec.ParentRefs, o.Spec.Hostnames
	case *gatewayv1.GRPCRoute:
		r.Kind, r.Parents, r.Hosts = GRPCRoute, o.Spec.ParentRefs, o.Spec.Hostnames
	default:
		return r, false
	}
	r.Parents, r.Created = r.Parents[:min(len(r.Parents), MostParents)], obj.GetCreationTimestamp().Time
	r.Claimant = claim.Claimant{
		Holder: claim.RouteHolder(string(r.Kind), obj.GetNamespace(), obj.GetName()), UID: obj.GetUID(), Generation: obj.GetGeneration(),
	}
	r.Heir, _ = claim.NamedHeir(obj)
	r.Deleting = obj.GetDeletionTimestamp() != nil
	return r, true
}

// ParentOf is what one of a route's references names, zero for what is guarded by nobody.
func (r Route) ParentOf(ref gatewayv1.ParentReference) ParentKey {
	kind := Kind(ptr.Deref(ref.Kind, gatewayv1.Kind(Gateway)))
	if ptr.Deref(ref.Group, gatewayv1.GroupName) != gatewayv1.GroupName || !slices.Contains(Listeners(), kind) {
		return ParentKey{}
	}
	namespace := string(ptr.Deref(ref.Namespace, gatewayv1.Namespace(r.Namespace)))
	return ParentKey{kind, types.NamespacedName{Namespace: namespace, Name: string(ref.Name)}}
}

// ParentKeys are those of all references of a route, each once.
func (r Route) ParentKeys() (keys []ParentKey) {
	for _, ref := range r.Parents {
		if key := r.ParentOf(ref); key != (ParentKey{}) && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// Place is what a route has of a listener.
type Place struct {
	// At is the point, zero on a listener of a stream.
	At claim.Coordinate
	// Stream is the port of the stream whose listener it is, zero on those of others. Its route has the name v1beta1.StreamServiceName.
	Stream claim.Coordinate
	// Path is the field of the route that asks for it.
	Path *field.Path
}

// Places are what a route has of a parent. has are the labels of the route's namespace.
func (r Route) Places(p *Parent, has labels.Set) (places []Place) {
	seen := map[Place]bool{}
	for l, i := range r.attached(p, has) {
		for _, place := range r.placesAt(p, l, field.NewPath("spec", "parentRefs").Index(i)) {
			if key := (Place{At: place.At, Stream: place.Stream}); !seen[key] {
				seen[key] = true
				places = append(places, place)
			}
		}
	}
	return places
}

// attached are the listeners of a parent that a route names and that let it attach, each with which of its references names it.
func (r Route) attached(p *Parent, has labels.Set) iter.Seq2[gatewayv1.Listener, int] {
	return func(yield func(gatewayv1.Listener, int) bool) {
		for i, ref := range r.Parents {
			if r.ParentOf(ref) != p.ParentKey {
				continue
			}
			for _, l := range p.Listeners {
				if names(ref, l) && p.Allows(l, r, has) && !yield(l, i) {
					return
				}
			}
		}
	}
}

// InheritedHost is a host name of a listener that a route attaches to.
type InheritedHost struct {
	Name string
	// Path is the field of the route that attaches it there.
	Path *field.Path
}

// Inherited are the host names of the listeners of a parent that a route attaches to. has are the labels of the route's namespace.
func (r Route) Inherited(p *Parent, has labels.Set) (hosts []InheritedHost) {
	for l, i := range r.attached(p, has) {
		if host := ptr.Deref(l.Hostname, ""); host != "" {
			hosts = append(hosts, InheritedHost{string(host), field.NewPath("spec", "parentRefs").Index(i)})
		}
	}
	return hosts
}

// placesAt are those at one listener.
func (r Route) placesAt(p *Parent, l gatewayv1.Listener, path *field.Path) (places []Place) {
	protocol := r.protocol()
	if p.Class != "" {
		return []Place{{Stream: claim.Stream(p.Class, protocol, l.Port), Path: path}}
	}
	of := claim.Section{Kind: string(p.Kind), Namespace: p.Namespace, Name: p.Name, Listener: string(l.Name)}
	if r.Kind != TLSRoute {
		places = append(places, Place{At: claim.Route(of, protocol), Path: path})
	}
	for host, i := range r.hostsAt(l) {
		if i >= 0 {
			path = field.NewPath("spec", "hostnames").Index(i)
		}
		places = append(places, Place{At: claim.HostRoute(of, host), Path: path})
	}
	// What no listener can be, or no host, the API server does not store.
	return slices.DeleteFunc(places, func(p Place) bool { return p.At.IsZero() })
}

// Names are under which names a route has a listener: its host names there, or, where these are not told apart, one empty name.
func (r Route) Names(l gatewayv1.Listener) (names []string) {
	if r.Kind != TLSRoute {
		return []string{""}
	}
	for host := range r.hostsAt(l) {
		names = append(names, host)
	}
	return names
}

// hostsAt are the names for which a route is at a listener, and which of its host names each is, -1 where it has none: a TLSRoute is then
// for AllHosts where the listener has none either, others are for no name.
func (r Route) hostsAt(l gatewayv1.Listener) iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		listens := string(ptr.Deref(l.Hostname, ""))
		switch {
		case len(r.Hosts) > 0:
		case r.Kind == TLSRoute:
			yield(cmp.Or(listens, claim.AllHosts), -1)
		case hasPaths(r.Kind) && listens != "":
			yield(listens, -1)
		}
		for i, host := range r.Hosts {
			if both := intersect(listens, string(host)); both != "" && !yield(both, i) {
				return
			}
		}
	}
}

// HostsAt are the names for which a listener serves a route that says some itself, or none for all: an empty one where neither says any,
// and none where they have none in common.
func HostsAt(l gatewayv1.Listener, hosts []gatewayv1.Hostname) (at []string) {
	listens := string(ptr.Deref(l.Hostname, ""))
	if len(hosts) == 0 {
		return []string{listens}
	}
	for _, host := range hosts {
		if both := intersect(listens, string(host)); both != "" && !slices.Contains(at, both) {
			at = append(at, both)
		}
	}
	return at
}

// protocol is that of the network by which a route is reached.
func (r Route) protocol() v1beta1.Protocol {
	if r.Kind == UDPRoute {
		return v1beta1.UDP
	}
	return v1beta1.TCP
}

// IsOn says whether a route names a listener of a parent, that one or all of its port, or just all.
func (r Route) IsOn(p ParentKey, l gatewayv1.Listener) bool {
	return slices.ContainsFunc(r.Parents, func(ref gatewayv1.ParentReference) bool { return r.ParentOf(ref) == p && names(ref, l) })
}

func names(ref gatewayv1.ParentReference, l gatewayv1.Listener) bool {
	return (ref.SectionName == nil || *ref.SectionName == l.Name) && (ref.Port == nil || *ref.Port == l.Port)
}

// intersect is the more specific of two host names of which one stands for the other, too, empty where there is none; an empty one stands
// for all. By the Gateway API, *.example.com stands for a.b.example.com as well, and not for example.com.
func intersect(a, b string) string {
	covers := func(wide, narrow string) bool {
		suffix, wild := strings.CutPrefix(wide, "*")
		return wide == "" || wide == narrow || wild && strings.HasSuffix(strings.TrimPrefix(narrow, "*"), suffix) && len(narrow) > len(suffix)
	}
	switch {
	case covers(a, b):
		return b
	case covers(b, a):
		return a
	default:
		return ""
	}
}

// CompareRoutes compares routes on one listener by whom an implementation of the Gateway API serves: the older one, then by name.
func CompareRoutes(a, b Route) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Key().String(), b.Key().String()), cmp.Compare(a.Kind, b.Kind))
}
