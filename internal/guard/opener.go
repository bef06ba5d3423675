package guard

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// Listener is one of a Gateway or of a ListenerSet.
type Listener struct {
	// Index is its place in spec.listeners.
	Index    int
	Port     int32
	Protocol gatewayv1.ProtocolType
	// Host is the name that it is for, claim.AllHosts where it names none.
	Host string
}

// Opener is an object that has listeners: a Gateway, or a ListenerSet that it lets attach.
type Opener struct {
	claim.Claimant
	Kind Kind
	// Of is the Gateway.
	Of        types.NamespacedName
	Created   time.Time
	Listeners []Listener
}

// OfGateway is a Gateway with its own listeners.
func OfGateway(g *gatewayv1.Gateway) Opener {
	o := Opener{
		Claimant: claim.Claimant{Holder: claim.GatewayHolder(g.Namespace, g.Name), UID: g.UID, Generation: g.Generation},
		Kind:     Gateway, Of: types.NamespacedName{Namespace: g.Namespace, Name: g.Name}, Created: g.CreationTimestamp.Time,
	}
	for i, l := range g.Spec.Listeners {
		o.add(i, l.Port, l.Protocol, l.Hostname)
	}
	return o
}

// OfListenerSet is a ListenerSet of a Gateway.
func OfListenerSet(set *gatewayv1.ListenerSet, of types.NamespacedName) Opener {
	o := Opener{
		Claimant: claim.Claimant{Holder: claim.ListenerSetHolder(set.Namespace, set.Name), UID: set.UID, Generation: set.Generation},
		Kind:     ListenerSet, Of: of, Created: set.CreationTimestamp.Time,
	}
	for i, l := range set.Spec.Listeners {
		o.add(i, l.Port, l.Protocol, l.Hostname)
	}
	return o
}

func (o *Opener) add(index int, port int32, protocol gatewayv1.ProtocolType, host *gatewayv1.Hostname) {
	name := cmp.Or(string(ptr.Deref(host, "")), claim.AllHosts)
	o.Listeners = append(o.Listeners, Listener{Index: index, Port: port, Protocol: protocol, Host: name})
}

// Stands says whether it has a listener at a point, or, where that stands for all that share a port by host name, at that port.
func (o Opener) Stands(at claim.Coordinate) bool {
	return slices.ContainsFunc(o.Listeners, func(l Listener) bool {
		return l.Port == at.Port() && slices.ContainsFunc(l.Points(at.Gateway()), func(has claim.Coordinate) bool {
			return has == at || at.IsHosts() && has.ListenerHost() != ""
		})
	})
}

// CompareOpeners compares those of one Gateway by whom an implementation of the Gateway API serves: the Gateway's own come first, then
// those of the older ListenerSet, then by name.
func CompareOpeners(a, b Opener) int {
	if a.Kind != b.Kind {
		return cmp.Compare(a.Kind, b.Kind) // a Gateway is before a ListenerSet
	}
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Key().String(), b.Key().String()))
}

// Points are those of a listener on a Gateway: a whole port, or the name that it has of one which is shared by host name. One of a protocol
// that the Gateway API does not know may be on TCP or on UDP. There are none for what no listener can be.
func (l Listener) Points(gateway types.NamespacedName) []claim.Coordinate {
	var points []claim.Coordinate
	switch l.Protocol {
	case gatewayv1.HTTPProtocolType:
		points = []claim.Coordinate{claim.HostListener(gateway, claim.HTTPListener, l.Port, l.Host)}
	case gatewayv1.HTTPSProtocolType, gatewayv1.TLSProtocolType:
		points = []claim.Coordinate{claim.HostListener(gateway, claim.TLSListener, l.Port, l.Host)}
	default:
		for _, port := range stream.PortsOf(l.Port, l.Protocol) {
			points = append(points, claim.Listener(gateway, port.Protocol, port.Port))
		}
	}
	return slices.DeleteFunc(points, claim.Coordinate.IsZero)
}

// path is the field that says where a listener is at odds with another: its host name, or its port.
func (l Listener) path(at claim.Coordinate) *field.Path {
	if at.ListenerHost() != "" && at.ListenerHost() != claim.AllHosts {
		return field.NewPath("spec", "listeners").Index(l.Index).Child("hostname")
	}
	return l.portPath()
}

// portPath is the field that says at which port a listener is.
func (l Listener) portPath() *field.Path {
	return field.NewPath("spec", "listeners").Index(l.Index).Child("port")
}

// Protocols are those of the listeners that can be at a port of the network.
func Protocols(protocol v1beta1.Protocol) []v1beta1.Protocol {
	if protocol == v1beta1.UDP {
		return []v1beta1.Protocol{v1beta1.UDP}
	}
	return []v1beta1.Protocol{v1beta1.TCP, claim.HTTPListener}
}

// port is the one of the network that a point takes.
func port(at claim.Coordinate) stream.PortKey {
	if at.Protocol() == v1beta1.UDP {
		return stream.PortKey{Protocol: v1beta1.UDP, Port: at.Port()}
	}
	return stream.PortKey{Protocol: v1beta1.TCP, Port: at.Port()}
}

// Scopes are the Gateways on which the listeners of one have to be alone: itself, and for each of its addresses the oldest one that lists
// it, too. So those that are served at one address meet in one place, however many they are.
func Scopes(gateway *gatewayv1.Gateway, others []gatewayv1.Gateway) []types.NamespacedName {
	key := func(g *gatewayv1.Gateway) types.NamespacedName {
		return types.NamespacedName{Namespace: g.Namespace, Name: g.Name}
	}
	scopes := []types.NamespacedName{key(gateway)}
	for _, ip := range stream.GatewayAddresses(gateway) {
		oldest := gateway
		for i := range others {
			if slices.Contains(stream.GatewayAddresses(&others[i]), ip) && isOlder(&others[i], oldest) {
				oldest = &others[i]
			}
		}
		if !slices.Contains(scopes, key(oldest)) {
			scopes = append(scopes, key(oldest))
		}
	}
	return scopes
}

func isOlder(a, b *gatewayv1.Gateway) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)) < 0
}

// Classes are those whose streams are on the listeners of one of some Gateways, or at one of their addresses.
func Classes(classes []v1beta1.StreamIngressClass, scopes []types.NamespacedName, addresses []string) (on []*v1beta1.StreamIngressClass) {
	for i := range classes {
		ref := classes[i].Spec.Gateway
		if ref == nil {
			continue
		}
		isShared := func(ip netip.Addr) bool { return slices.Contains(addresses, ip.String()) }
		named := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
		if slices.ContainsFunc(stream.ClassAddresses(&classes[i]), isShared) || slices.Contains(scopes, named) {
			on = append(on, &classes[i])
		}
	}
	return on
}
