package findings

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

// on are the parents of a route: a listener of the Gateway edge/gw.
func on(section string) gatewayv1.CommonRouteSpec {
	return gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{{
		Namespace: ptr.To(gatewayv1.Namespace("edge")), Name: "gw", SectionName: ptr.To(gatewayv1.SectionName(section)),
	}}}
}

func tcpRoute(key string, hours int, section string) *gatewayv1.TCPRoute {
	return &gatewayv1.TCPRoute{ObjectMeta: meta(key, hours), Spec: gatewayv1.TCPRouteSpec{CommonRouteSpec: on(section)}}
}

func httpRoute(key, section string, hosts ...gatewayv1.Hostname) *gatewayv1.HTTPRoute {
	return &gatewayv1.HTTPRoute{ObjectMeta: meta(key, 0), Spec: gatewayv1.HTTPRouteSpec{CommonRouteSpec: on(section), Hostnames: hosts}}
}

func tlsRoute(key string, hours int, hosts ...gatewayv1.Hostname) *gatewayv1.TLSRoute {
	return &gatewayv1.TLSRoute{ObjectMeta: meta(key, hours), Spec: gatewayv1.TLSRouteSpec{CommonRouteSpec: on("tls"), Hostnames: hosts}}
}

// mesh is a route that a mesh serves, for a Service.
func mesh(key string) *gatewayv1.HTTPRoute {
	r := httpRoute(key, "web")
	r.Spec.ParentRefs[0].Kind, r.Spec.ParentRefs[0].Group = ptr.To(gatewayv1.Kind("Service")), ptr.To(gatewayv1.Group(""))
	return r
}

// routed is the Gateway edge/gw with routes.
func routed(routes ...metav1.Object) snapshot.Snapshot {
	return snapshot.Snapshot{Routes: routes, Gateways: []*gatewayv1.Gateway{gateway("edge/gw", 0,
		listener("sql", 5432, protoTCP, ""), listener("web", 80, protoHTTP, ""), listener("tls", 443, gatewayv1.TLSProtocolType, "*.example.com"),
		listener("hosts", 8080, protoHTTP, "*.example.com"), listener("mesh", 15008, "HBONE", ""),
	)}}
}

var routeRows = map[string]row{
	"routes that serve": {
		in: routed(tcpRoute("a/x", 0, "sql"), httpRoute("a/x", "web"), httpRoute("a/y", "web"), tlsRoute("a/x", 0, "a.example.com"),
			tlsRoute("a/y", 0, "b.example.com"), mesh("a/z")),
	},
	"a second route on a listener": {
		in:   routed(tcpRoute("a/x", 1, "sql"), tcpRoute("b/x", 0, "sql")),
		want: []string{"RouteNeverServes listener sql: TCPRoute b/x and TCPRoute a/x, TCPRoute b/x"},
	},
	"a second route for a host name": {
		in:   routed(tlsRoute("a/x", 0, "a.example.com"), tlsRoute("b/x", 1, "a.example.com", "b.example.com")),
		want: []string{"RouteNeverServes a.example.com on listener tls: TLSRoute a/x and TLSRoute b/x, TLSRoute a/x"},
	},
	"routes that are on no listener": {
		in: routed(tcpRoute("a/wrong-kind", 0, "web"), httpRoute("a/wrong-name", "no-such"), tlsRoute("a/wrong-host", 0, "a.example.org")),
		want: []string{
			"RouteNeverServes HTTPRoute a/wrong-name: HTTPRoute a/wrong-name", "RouteNeverServes TCPRoute a/wrong-kind: TCPRoute a/wrong-kind",
			"RouteNeverServes TLSRoute a/wrong-host: TLSRoute a/wrong-host",
		},
	},
	"routes of HTTP and host names": {
		in: routed(httpRoute("a/all", "hosts"), httpRoute("a/one", "hosts", "a.example.org", "a.b.example.com"), httpRoute("a/web", "web", "a.example.org"),
			httpRoute("a/wrong-host", "hosts", "example.com", "a.example.org")),
		want: []string{"RouteNeverServes HTTPRoute a/wrong-host: HTTPRoute a/wrong-host"},
	},
	"listeners of a protocol that nobody knows": {
		in: routed(httpRoute("a/x", "mesh"), tcpRoute("a/y", 0, "mesh")),
	},
	"a route of a Gateway that is not there": {
		in:   snapshot.Snapshot{Routes: []metav1.Object{tcpRoute("a/x", 0, "sql")}},
		want: []string{"RouteNeverServes TCPRoute a/x: TCPRoute a/x"},
		says: "no listener of Gateway edge/gw lets it attach",
	},
}
