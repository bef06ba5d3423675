package stream

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// The kinds of the Gateway API that carry streams.
const (
	KindListenerSet = "ListenerSet"
	KindTCPRoute    = "TCPRoute"
	KindUDPRoute    = "UDPRoute"
)

// RouteKind is the kind of the routes of a protocol.
func RouteKind(protocol v1beta1.Protocol) string {
	if protocol == v1beta1.UDP {
		return KindUDPRoute
	}
	return KindTCPRoute
}

// entryOf is a listener in its ListenerSet: open for routes of one kind, of one namespace. That is told by the label which each
// namespace has from the API server, and which nobody can change.
func entryOf(l Listener) gatewayv1.ListenerEntry {
	return gatewayv1.ListenerEntry{
		Name: gatewayv1.SectionName(l.Name()), Port: l.Port.Port, Protocol: gatewayv1.ProtocolType(l.Port.Protocol),
		AllowedRoutes: &gatewayv1.AllowedRoutes{
			Namespaces: &gatewayv1.RouteNamespaces{
				From:     ptr.To(gatewayv1.NamespacesFromSelector),
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: l.Namespace}},
			},
			Kinds: []gatewayv1.RouteGroupKind{{
				Group: ptr.To(gatewayv1.Group(gatewayv1.GroupName)), Kind: gatewayv1.Kind(RouteKind(l.Port.Protocol)),
			}},
		},
	}
}

// ListenerSetSpec is what a ListenerSet of a Gateway says that has some listeners.
func ListenerSetSpec(gateway v1beta1.ObjectReference, listeners []Listener) gatewayv1.ListenerSetSpec {
	spec := gatewayv1.ListenerSetSpec{ParentRef: gatewayv1.ParentGatewayReference{
		Group: ptr.To(gatewayv1.Group(gatewayv1.GroupName)), Kind: ptr.To(gatewayv1.Kind("Gateway")),
		Namespace: ptr.To(gatewayv1.Namespace(gateway.Namespace)), Name: gatewayv1.ObjectName(gateway.Name),
	}}
	for _, l := range listeners {
		spec.Listeners = append(spec.Listeners, entryOf(l))
	}
	return spec
}

// StoredSetOf reads a ListenerSet that is of a Gateway by what it says.
func StoredSetOf(set *gatewayv1.ListenerSet, gateway v1beta1.ObjectReference) StoredSet {
	stored := StoredSet{Name: set.Name, Created: set.CreationTimestamp.Time}
	for i := range set.Spec.Listeners {
		if l, ok := listenerOf(&set.Spec.Listeners[i]); ok {
			stored.Listeners = append(stored.Listeners, l)
		} else {
			stored.Foreign = true
		}
	}
	stored.Foreign = stored.Foreign ||
		!equality.Semantic.DeepEqual(set.Spec.ParentRef, ListenerSetSpec(gateway, nil).ParentRef)
	return stored
}

// listenerOf reads a listener; ok is false for one that is none of ours, or not as it was written. It compares by hand, as there are
// thousands of them in each look at a class.
func listenerOf(entry *gatewayv1.ListenerEntry) (l Listener, ok bool) {
	allowed := entry.AllowedRoutes
	if entry.Hostname != nil || entry.TLS != nil || allowed == nil || allowed.Namespaces == nil || allowed.Namespaces.Selector == nil {
		return Listener{}, false
	}
	from := allowed.Namespaces.Selector
	l = Listener{
		Port:      PortKey{Protocol: v1beta1.Protocol(entry.Protocol), Port: entry.Port},
		Namespace: from.MatchLabels[corev1.LabelMetadataName],
	}
	return l, string(entry.Name) == l.Name() && l.Namespace != "" && len(from.MatchLabels) == 1 && len(from.MatchExpressions) == 0 &&
		ptr.Deref(allowed.Namespaces.From, "") == gatewayv1.NamespacesFromSelector &&
		len(allowed.Kinds) == 1 && string(allowed.Kinds[0].Kind) == RouteKind(l.Port.Protocol) &&
		ptr.Deref(allowed.Kinds[0].Group, gatewayv1.GroupName) == gatewayv1.GroupName
}

// ListenerIn is the listener of a port in a ListenerSet of ours; ok is false if it has none, or one that is not as it was written.
func ListenerIn(set *gatewayv1.ListenerSet, port PortKey) (l Listener, ok bool) {
	for i := range set.Spec.Listeners {
		if l, ok := listenerOf(&set.Spec.Listeners[i]); ok && l.Port == port {
			return l, true
		}
	}
	return Listener{}, false
}

// SlimEntry leaves of a listener that is not as Portcullis writes it which port and which host name it has, and which routes it lets
// attach: tenants can make theirs large.
func SlimEntry(entry *gatewayv1.ListenerEntry) {
	if _, ok := listenerOf(entry); ok {
		return
	}
	*entry = gatewayv1.ListenerEntry{
		Name: entry.Name, Port: entry.Port, Protocol: entry.Protocol, Hostname: entry.Hostname, AllowedRoutes: entry.AllowedRoutes,
	}
	if allowed := entry.AllowedRoutes; allowed != nil && allowed.Namespaces != nil && allowed.Namespaces.Selector.Size() > maxSelector {
		nobody := &gatewayv1.RouteNamespaces{From: ptr.To(gatewayv1.NamespacesFromNone)}
		entry.AllowedRoutes = &gatewayv1.AllowedRoutes{Kinds: allowed.Kinds, Namespaces: nobody}
	}
}

// maxSelector is how large a selector of namespaces is kept, in bytes: a listener with a larger one is as if it let no route attach,
// wherever it is read.
const maxSelector = 256

// Route is a TCPRoute or UDPRoute of a port. It is comparable.
type Route struct {
	Port PortKey
	// Key is the name of the route: it is in the namespace of the Service that it leads to.
	Key types.NamespacedName
	// Set is the ListenerSet that has the listener of the port.
	Set types.NamespacedName
	// Service and ServicePort are where it leads to.
	Service     string
	ServicePort int32
	// IsOpen says that the listener is open to the routes of its namespace by now.
	IsOpen bool
}

// RouteObject is a TCPRoute or a UDPRoute.
type RouteObject interface {
	metav1.Object
	runtime.Object
}

// Object is the route as it is written.
func (r Route) Object() RouteObject {
	meta := metav1.ObjectMeta{Namespace: r.Key.Namespace, Name: r.Key.Name}
	common := gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{r.parent()}}
	backends := []gatewayv1.BackendRef{{
		BackendObjectReference: gatewayv1.BackendObjectReference{
			Group: ptr.To(gatewayv1.Group("")), Kind: ptr.To(gatewayv1.Kind("Service")),
			Name: gatewayv1.ObjectName(r.Service), Port: ptr.To(r.ServicePort),
		},
		Weight: ptr.To(int32(1)),
	}}
	if r.Port.Protocol == v1beta1.UDP {
		return &gatewayv1.UDPRoute{
			TypeMeta: metav1.TypeMeta{APIVersion: gatewayv1.GroupVersion.String(), Kind: KindUDPRoute}, ObjectMeta: meta,
			Spec: gatewayv1.UDPRouteSpec{CommonRouteSpec: common, Rules: []gatewayv1.UDPRouteRule{{BackendRefs: backends}}},
		}
	}
	return &gatewayv1.TCPRoute{
		TypeMeta: metav1.TypeMeta{APIVersion: gatewayv1.GroupVersion.String(), Kind: KindTCPRoute}, ObjectMeta: meta,
		Spec: gatewayv1.TCPRouteSpec{CommonRouteSpec: common, Rules: []gatewayv1.TCPRouteRule{{BackendRefs: backends}}},
	}
}

// parent names the listener that the route attaches to.
func (r Route) parent() gatewayv1.ParentReference {
	return gatewayv1.ParentReference{
		Group: ptr.To(gatewayv1.Group(gatewayv1.GroupName)), Kind: ptr.To(gatewayv1.Kind(KindListenerSet)),
		Namespace: ptr.To(gatewayv1.Namespace(r.Set.Namespace)), Name: gatewayv1.ObjectName(r.Set.Name),
		SectionName: ptr.To(gatewayv1.SectionName(r.Port.Name())),
	}
}

// IsWritten says whether a stored route says what this one does.
func (r Route) IsWritten(stored RouteObject) bool {
	is, _, _ := partsOf(stored)
	wanted, _, _ := partsOf(r.Object())
	return equality.Semantic.DeepEqual(is, wanted)
}

// partsOf are what a stored route says, what it attaches to, and what controllers say in its status.
func partsOf(stored RouteObject) (spec any, parents []gatewayv1.ParentReference, said []gatewayv1.RouteParentStatus) {
	switch r := stored.(type) {
	case *gatewayv1.TCPRoute:
		return r.Spec, r.Spec.ParentRefs, r.Status.Parents
	case *gatewayv1.UDPRoute:
		return r.Spec, r.Spec.ParentRefs, r.Status.Parents
	default:
		return nil, nil, nil
	}
}

// LeadsFrom says whether a stored route leads from the listener of a port in a ListenerSet.
func LeadsFrom(stored RouteObject, set types.NamespacedName, port PortKey) bool {
	wanted := Route{Port: port, Set: set}.parent()
	_, parents, _ := partsOf(stored)
	return slices.ContainsFunc(parents, func(p gatewayv1.ParentReference) bool { return isParent(p, wanted) })
}

// SetsOf are the ListenerSets that a route leads from.
func SetsOf(stored RouteObject) (sets []types.NamespacedName) {
	_, parents, _ := partsOf(stored)
	for _, p := range parents {
		if ptr.Deref(p.Kind, "") == KindListenerSet {
			namespace := ptr.Deref(p.Namespace, gatewayv1.Namespace(stored.GetNamespace()))
			sets = append(sets, types.NamespacedName{Namespace: string(namespace), Name: string(p.Name)})
		}
	}
	return sets
}

// Over is a stored route that says what this one does.
func (r Route) Over(stored RouteObject) RouteObject {
	next := stored.DeepCopyObject().(RouteObject)
	switch wanted := r.Object().(type) {
	case *gatewayv1.UDPRoute:
		next.(*gatewayv1.UDPRoute).Spec = wanted.Spec
	case *gatewayv1.TCPRoute:
		next.(*gatewayv1.TCPRoute).Spec = wanted.Spec
	}
	return next
}

// ParentOf is what a controller says in the status of a route of the listener of a port, nil for nothing.
func ParentOf(
	route RouteObject, set types.NamespacedName, port PortKey, controller gatewayv1.GatewayController,
) *gatewayv1.RouteParentStatus {
	parents := SaidOf(route)
	wanted := Route{Port: port, Set: set}.parent()
	i := slices.IndexFunc(parents, func(p gatewayv1.RouteParentStatus) bool {
		return p.ControllerName == controller && isParent(p.ParentRef, wanted)
	})
	if i < 0 {
		return nil
	}
	return &parents[i]
}

// SaidOf is what controllers say in the status of a route.
func SaidOf(route RouteObject) []gatewayv1.RouteParentStatus {
	_, _, said := partsOf(route)
	return said
}

// isParent says whether a reference names the listener that another one, of ours, does.
func isParent(ref, ours gatewayv1.ParentReference) bool {
	return ref.Name == ours.Name && ptr.Deref(ref.Namespace, "") == *ours.Namespace && ptr.Deref(ref.Kind, "") == *ours.Kind &&
		ptr.Deref(ref.SectionName, "") == *ours.SectionName
}

// PortsOf are the ports that a listener of any protocol takes: all but UDP are on TCP, and one of a protocol that the Gateway API does
// not know may be on either.
func PortsOf(port int32, protocol gatewayv1.ProtocolType) []PortKey {
	switch protocol {
	case gatewayv1.HTTPProtocolType, gatewayv1.HTTPSProtocolType, gatewayv1.TLSProtocolType, gatewayv1.TCPProtocolType:
		return []PortKey{{v1beta1.TCP, port}}
	case gatewayv1.UDPProtocolType:
		return []PortKey{{v1beta1.UDP, port}}
	default:
		return []PortKey{{v1beta1.TCP, port}, {v1beta1.UDP, port}}
	}
}
