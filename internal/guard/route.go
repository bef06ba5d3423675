package guard

import (
	"cmp"
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

// Route is a TCPRoute, a UDPRoute or a TLSRoute.
type Route struct {
	claim.Claimant
	Kind    Kind
	Created time.Time
	Parents []gatewayv1.ParentReference
	// Hosts are the names that a TLSRoute is for, none for all.
	Hosts []gatewayv1.Hostname
}

// OfRoute is a route of one of the kinds Routes; ok is false for anything else.
func OfRoute(obj metav1.Object) (r Route, ok bool) {
	switch o := obj.(type) {
	case *gatewayv1.TCPRoute:
		r.Kind, r.Parents = TCPRoute, o.Spec.ParentRefs
	case *gatewayv1.UDPRoute:
		r.Kind, r.Parents = UDPRoute, o.Spec.ParentRefs
	case *gatewayv1.TLSRoute:
		r.Kind, r.Parents, r.Hosts = TLSRoute, o.Spec.ParentRefs, o.Spec.Hostnames
	default:
		return r, false
	}
	r.Parents, r.Created = r.Parents[:min(len(r.Parents), MostParents)], obj.GetCreationTimestamp().Time
	r.Claimant = claim.Claimant{
		Holder: claim.RouteHolder(string(r.Kind), obj.GetNamespace(), obj.GetName()), UID: obj.GetUID(), Generation: obj.GetGeneration(),
	}
	return r, true
}

// ParentKey names what routes attach to: a Gateway or a ListenerSet. It is comparable; the zero value is neither.
type ParentKey struct {
	Kind Kind
	types.NamespacedName
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

// Parent is a Gateway or a ListenerSet with the listeners that routes attach to.
type Parent struct {
	ParentKey
	Listeners []gatewayv1.Listener
	// Class is the StreamIngressClass for which Portcullis has made a ListenerSet, empty for those of others.
	Class string
}

// ParentOfGateway is a Gateway with its own listeners.
func ParentOfGateway(g *gatewayv1.Gateway) *Parent {
	key := ParentKey{Gateway, types.NamespacedName{Namespace: g.Namespace, Name: g.Name}}
	return &Parent{ParentKey: key, Listeners: g.Spec.Listeners}
}

// ParentOfListenerSet is a ListenerSet, of a class if Portcullis has made it for that.
func ParentOfListenerSet(set *gatewayv1.ListenerSet, class string) *Parent {
	p := &Parent{ParentKey: ParentKey{ListenerSet, types.NamespacedName{Namespace: set.Namespace, Name: set.Name}}, Class: class}
	for _, l := range set.Spec.Listeners {
		p.Listeners = append(p.Listeners, gatewayv1.Listener(l))
	}
	return p
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
	for i, ref := range r.Parents {
		if r.ParentOf(ref) != p.ParentKey {
			continue
		}
		path := field.NewPath("spec", "parentRefs").Index(i)
		for _, l := range p.Listeners {
			if ref.SectionName != nil && *ref.SectionName != l.Name || ref.Port != nil && *ref.Port != l.Port || !r.attaches(p, l, has) {
				continue
			}
			for _, place := range r.placesAt(p, l, path) {
				if !slices.ContainsFunc(places, func(other Place) bool { return other.At == place.At && other.Stream == place.Stream }) {
					places = append(places, place)
				}
			}
		}
	}
	return places
}

// placesAt are those at one listener.
func (r Route) placesAt(p *Parent, l gatewayv1.Listener, path *field.Path) (places []Place) {
	protocol := v1beta1.TCP
	if r.Kind == UDPRoute {
		protocol = v1beta1.UDP
	}
	if p.Class != "" {
		return []Place{{Stream: claim.Stream(p.Class, protocol, l.Port), Path: path}}
	}
	of := claim.Section{Kind: string(p.Kind), Namespace: p.Namespace, Name: p.Name, Listener: string(l.Name)}
	if r.Kind != TLSRoute {
		return keepValid([]Place{{At: claim.Route(of, protocol), Path: path}})
	}
	listens := string(ptr.Deref(l.Hostname, ""))
	if len(r.Hosts) == 0 {
		return keepValid([]Place{{At: claim.HostRoute(of, cmp.Or(listens, claim.AllHosts)), Path: path}})
	}
	for i, host := range r.Hosts {
		if both := intersect(listens, string(host)); both != "" {
			places = append(places, Place{At: claim.HostRoute(of, both), Path: field.NewPath("spec", "hostnames").Index(i)})
		}
	}
	return keepValid(places)
}

// keepValid leaves out what no listener can be, or no host: the API server stores neither.
func keepValid(places []Place) []Place {
	return slices.DeleteFunc(places, func(p Place) bool { return p.At.IsZero() })
}

// attaches says whether a listener lets a route attach.
func (r Route) attaches(p *Parent, l gatewayv1.Listener, has labels.Set) bool {
	fits := map[Kind][]gatewayv1.ProtocolType{
		TCPRoute: {gatewayv1.TCPProtocolType, gatewayv1.TLSProtocolType},
		UDPRoute: {gatewayv1.UDPProtocolType},
		TLSRoute: {gatewayv1.TLSProtocolType},
	}
	if !slices.Contains(fits[r.Kind], l.Protocol) {
		return false
	}
	allowed := ptr.Deref(l.AllowedRoutes, gatewayv1.AllowedRoutes{})
	if len(allowed.Kinds) > 0 && !slices.ContainsFunc(allowed.Kinds, func(k gatewayv1.RouteGroupKind) bool {
		return ptr.Deref(k.Group, gatewayv1.GroupName) == gatewayv1.GroupName && Kind(k.Kind) == r.Kind
	}) {
		return false
	}
	namespaces := ptr.Deref(allowed.Namespaces, gatewayv1.RouteNamespaces{})
	switch ptr.Deref(namespaces.From, gatewayv1.NamespacesFromSame) {
	case gatewayv1.NamespacesFromAll:
		return true
	case gatewayv1.NamespacesFromSame:
		return r.Namespace == p.Namespace
	case gatewayv1.NamespacesFromSelector:
		selector, err := metav1.LabelSelectorAsSelector(namespaces.Selector)
		return err == nil && selector.Matches(has)
	default:
		return false
	}
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
