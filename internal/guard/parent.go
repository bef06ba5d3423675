package guard

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// ParentKey names what routes attach to: a Gateway or a ListenerSet. It is comparable; the zero value is neither.
type ParentKey struct {
	Kind Kind
	types.NamespacedName
}

// Parent is a Gateway or a ListenerSet with the listeners that routes attach to, for one look: it remembers which namespaces may.
type Parent struct {
	ParentKey
	Listeners []gatewayv1.Listener
	// On is the Gateway itself, or that of a ListenerSet.
	On types.NamespacedName
	// Class is the StreamIngressClass for which Portcullis has made a ListenerSet, empty for those of others.
	Class string
	// allowed says of namespaces whether a listener lets their routes attach. Thousands of routes of a few may name the parent.
	allowed map[allowance]bool
}

type allowance struct {
	listener  gatewayv1.SectionName
	namespace string
}

// ParentOfGateway is a Gateway with its own listeners.
func ParentOfGateway(g *gatewayv1.Gateway) *Parent {
	key := ParentKey{Gateway, types.NamespacedName{Namespace: g.Namespace, Name: g.Name}}
	return &Parent{ParentKey: key, Listeners: g.Spec.Listeners, On: key.NamespacedName, allowed: map[allowance]bool{}}
}

// ParentOfListenerSet is a ListenerSet, of a class if Portcullis has made it for that.
func ParentOfListenerSet(set *gatewayv1.ListenerSet, class string) *Parent {
	key := ParentKey{ListenerSet, types.NamespacedName{Namespace: set.Namespace, Name: set.Name}}
	on := types.NamespacedName{
		Namespace: string(ptr.Deref(set.Spec.ParentRef.Namespace, gatewayv1.Namespace(set.Namespace))), Name: string(set.Spec.ParentRef.Name),
	}
	p := &Parent{ParentKey: key, On: on, Class: class, allowed: map[allowance]bool{}}
	for _, l := range set.Spec.Listeners {
		p.Listeners = append(p.Listeners, gatewayv1.Listener(l))
	}
	return p
}

// HostsOf are the host names of the listeners of a Gateway or a ListenerSet, each as often as it is there.
func HostsOf(parent metav1.Object) (hosts []string) {
	var listeners []gatewayv1.Listener
	switch o := parent.(type) {
	case *gatewayv1.Gateway:
		listeners = o.Spec.Listeners
	case *gatewayv1.ListenerSet:
		listeners = ParentOfListenerSet(o, "").Listeners
	}
	for _, l := range listeners {
		if host := ptr.Deref(l.Hostname, ""); host != "" {
			hosts = append(hosts, string(host))
		}
	}
	return hosts
}

// Allows says whether a listener of the parent lets a route attach. has are the labels of the route's namespace.
func (p *Parent) Allows(l gatewayv1.Listener, r Route, has labels.Set) bool {
	if !fits(r.Kind, l.Protocol) {
		return false
	}
	allowed := ptr.Deref(l.AllowedRoutes, gatewayv1.AllowedRoutes{})
	if len(allowed.Kinds) > 0 && !slices.ContainsFunc(allowed.Kinds, func(k gatewayv1.RouteGroupKind) bool {
		return ptr.Deref(k.Group, gatewayv1.GroupName) == gatewayv1.GroupName && Kind(k.Kind) == r.Kind
	}) {
		return false
	}
	key := allowance{l.Name, r.Namespace}
	allows, known := p.allowed[key]
	if !known {
		allows = p.allowsFrom(ptr.Deref(allowed.Namespaces, gatewayv1.RouteNamespaces{}), r.Namespace, has)
		p.allowed[key] = allows
	}
	return allows
}

// fits says whether routes of a kind can be on listeners of a protocol. A TCPRoute may be on one that terminates TLS.
func fits(kind Kind, protocol gatewayv1.ProtocolType) bool {
	switch protocol {
	case gatewayv1.TCPProtocolType:
		return kind == TCPRoute
	case gatewayv1.UDPProtocolType:
		return kind == UDPRoute
	case gatewayv1.TLSProtocolType:
		return kind == TLSRoute || kind == TCPRoute
	case gatewayv1.HTTPProtocolType, gatewayv1.HTTPSProtocolType:
		return kind == HTTPRoute || kind == GRPCRoute
	default:
		return false
	}
}

func (p *Parent) allowsFrom(namespaces gatewayv1.RouteNamespaces, namespace string, has labels.Set) bool {
	switch ptr.Deref(namespaces.From, gatewayv1.NamespacesFromSame) {
	case gatewayv1.NamespacesFromAll:
		return true
	case gatewayv1.NamespacesFromSame:
		return namespace == p.Namespace
	case gatewayv1.NamespacesFromSelector:
		selector, err := metav1.LabelSelectorAsSelector(namespaces.Selector)
		return err == nil && selector.Matches(has)
	default:
		return false
	}
}
