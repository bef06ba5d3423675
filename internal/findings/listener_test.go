package findings

import (
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

func listener(name string, port int32, protocol gatewayv1.ProtocolType, host string) gatewayv1.Listener {
	l := gatewayv1.Listener{Name: gatewayv1.SectionName(name), Port: port, Protocol: protocol}
	if host != "" {
		l.Hostname = ptr.To(gatewayv1.Hostname(host))
	}
	l.AllowedRoutes = &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: ptr.To(gatewayv1.NamespacesFromAll)}}
	return l
}

// gateway is one that lets all attach.
func gateway(key string, hours int, listeners ...gatewayv1.Listener) *gatewayv1.Gateway {
	g := &gatewayv1.Gateway{ObjectMeta: meta(key, hours), Spec: gatewayv1.GatewaySpec{Listeners: listeners}}
	g.Spec.AllowedListeners = &gatewayv1.AllowedListeners{Namespaces: &gatewayv1.ListenerNamespaces{From: ptr.To(gatewayv1.NamespacesFromAll)}}
	return g
}

func having(g *gatewayv1.Gateway, ip string) *gatewayv1.Gateway {
	g.Status.Addresses = []gatewayv1.GatewayStatusAddress{{Value: ip}}
	return g
}

// listenerSet is one of the Gateway edge/gw.
func listenerSet(key string, hours int, listeners ...gatewayv1.Listener) *gatewayv1.ListenerSet {
	set := &gatewayv1.ListenerSet{ObjectMeta: meta(key, hours)}
	set.Spec.ParentRef = gatewayv1.ParentGatewayReference{Namespace: ptr.To(gatewayv1.Namespace("edge")), Name: "gw"}
	for _, l := range listeners {
		set.Spec.Listeners = append(set.Spec.Listeners, gatewayv1.ListenerEntry(l))
	}
	return set
}

const (
	protoTCP  = gatewayv1.TCPProtocolType
	protoHTTP = gatewayv1.HTTPProtocolType
)

var listenerRows = map[string]row{
	"listeners beside each other": {
		in: snapshot.Snapshot{
			Gateways: []*gatewayv1.Gateway{gateway("edge/gw", 0, listener("a", 80, protoHTTP, "a.example.com"))},
			ListenerSets: []*gatewayv1.ListenerSet{
				listenerSet("a/set", 1, listener("b", 80, protoHTTP, "b.example.com")), listenerSet("b/set", 1, listener("b", 5432, protoTCP, "")),
			},
		},
	},
	"the older ListenerSet is served": {
		in: snapshot.Snapshot{
			Gateways: []*gatewayv1.Gateway{gateway("edge/gw", 9)},
			ListenerSets: []*gatewayv1.ListenerSet{
				listenerSet("a/set", 2, listener("x", 5432, protoTCP, "")), listenerSet("b/set", 1, listener("x", 5432, protoTCP, "")),
			},
		},
		want: []string{"ListenerConflict TCP/5432: ListenerSet b/set and ListenerSet a/set, ListenerSet b/set"}, level: Error,
	},
	"the Gateway itself is served": {
		in: snapshot.Snapshot{
			Gateways:     []*gatewayv1.Gateway{gateway("edge/gw", 9, listener("x", 80, protoHTTP, "a.example.com"))},
			ListenerSets: []*gatewayv1.ListenerSet{listenerSet("a/set", 2, listener("x", 80, protoHTTP, "a.example.com"))},
		},
		want: []string{"ListenerConflict a.example.com at TCP/80: Gateway edge/gw and ListenerSet a/set, Gateway edge/gw"},
	},
	"a whole port, and a host name there": {
		in: snapshot.Snapshot{
			Gateways:     []*gatewayv1.Gateway{gateway("edge/gw", 0, listener("x", 80, protoHTTP, "a.example.com"))},
			ListenerSets: []*gatewayv1.ListenerSet{listenerSet("a/set", 2, listener("x", 80, protoTCP, ""))},
		},
		want: []string{"ListenerConflict TCP/80: Gateway edge/gw and ListenerSet a/set, Gateway edge/gw"},
	},
	"Gateways that share an address": {
		in: snapshot.Snapshot{Gateways: []*gatewayv1.Gateway{
			having(gateway("b/gw", 0, listener("x", 5432, protoTCP, "")), "192.0.2.1"), having(gateway("a/gw", 1, listener("x", 5432, protoTCP, "")), "192.0.2.1"),
			having(gateway("c/gw", 1, listener("x", 5432, protoTCP, "")), "192.0.2.2"),
		}},
		want: []string{"ListenerConflict TCP/5432: Gateway b/gw and Gateway a/gw, undetermined"}, level: Warning,
		says: "Gateways b/gw and a/gw list the same address",
	},
	"Gateways that share an address, and a host name there": {
		in: snapshot.Snapshot{
			Gateways: []*gatewayv1.Gateway{
				having(gateway("b/gw", 0, listener("x", 443, gatewayv1.HTTPSProtocolType, "a.example.com")), "192.0.2.1"), having(gateway("edge/gw", 1), "192.0.2.1"),
			},
			ListenerSets: []*gatewayv1.ListenerSet{listenerSet("a/set", 2, listener("x", 443, gatewayv1.TLSProtocolType, "a.example.com"))},
		},
		want: []string{"ListenerConflict a.example.com at TCP/443: Gateway b/gw and ListenerSet a/set, undetermined"}, level: Note,
	},
	"Gateways that share an address, and a port of HTTP and of TCP": {
		in: snapshot.Snapshot{Gateways: []*gatewayv1.Gateway{
			having(gateway("b/gw", 0, listener("x", 80, protoTCP, "")), "192.0.2.1"), having(gateway("a/gw", 1, listener("x", 80, protoHTTP, "")), "192.0.2.1"),
		}},
		want: []string{"ListenerConflict TCP/80: Gateway b/gw and Gateway a/gw, undetermined"}, level: Warning,
	},
	"one Gateway against itself": {
		in: snapshot.Snapshot{Gateways: []*gatewayv1.Gateway{
			gateway("edge/gw", 0, listener("x", 80, protoTCP, ""), listener("y", 80, protoHTTP, "a.example.com")),
		}},
		want: []string{"ListenerConflict TCP/80: Gateway edge/gw, undetermined", "ListenerConflict a.example.com at TCP/80: Gateway edge/gw, undetermined"},
	},
	"a ListenerSet that may not attach": {
		in: func() snapshot.Snapshot {
			g := gateway("edge/gw", 0, listener("x", 5432, protoTCP, ""))
			g.Spec.AllowedListeners = nil
			return snapshot.Snapshot{
				Gateways: []*gatewayv1.Gateway{g}, ListenerSets: []*gatewayv1.ListenerSet{listenerSet("a/set", 2, listener("x", 5432, protoTCP, ""))},
			}
		}(),
	},
}
