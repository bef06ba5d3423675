package claim

import (
	"net/netip"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestMayBeHandedTo covers which kinds of objects hand over which kinds of points: each kind of object only what is its own by its kind,
// whatever the other one is promised elsewhere.
func TestMayBeHandedTo(t *testing.T) {
	points := map[string]Coordinate{
		"port":      tcp(80),
		"path":      HTTP("shop.example.com", "/").ServedBy("public"),
		"host":      Host("shop.example.com"),
		"address":   Address(netip.MustParseAddr("192.0.2.7")),
		"shared":    AddressPort(netip.MustParseAddr("192.0.2.7"), "TCP", 80),
		"node port": NodePort("TCP", 80),
		"name":      Hostname("shop.example.com"),
		"listener":  Route(Section{Kind: "Gateway", Namespace: "infra", Name: "edge", Listener: "tcp"}, "TCP"),
		"TLS host":  HostRoute(Section{Kind: "Gateway", Namespace: "infra", Name: "edge", Listener: "tls"}, "shop.example.com"),
		"of routes": HTTP("shop.example.com", "/").OnGateway(types.NamespacedName{Namespace: "infra", Name: "edge"}),
	}
	holders := map[string]func(namespace, name string) Holder{
		"stream": StreamHolder, "Service": ServiceHolder, "Ingress": IngressHolder, "ConfigMap": ConfigMapHolder,
		"Gateway": GatewayHolder, "route": func(namespace, name string) Holder { return RouteHolder("TLSRoute", namespace, name) },
		"Namespace": func(namespace, _ string) Holder { return NamespaceHolder(namespace) },
	}
	handed := map[[2]string]bool{
		{"stream", "port"}: true, {"Ingress", "path"}: true, {"Ingress", "host"}: true,
		{"route", "listener"}: true, {"route", "TLS host"}: true, {"Namespace", "name"}: true, {"Namespace", "of routes"}: true,
		{"Service", "path"}: true, {"Service", "host"}: true, {"Service", "address"}: true, {"Service", "shared"}: true,
	}
	for point, at := range points {
		for from, giver := range holders {
			for to, heir := range holders {
				got := mayBeHandedTo(held(at, giver("shop", "old"), "g", 1, start), Claimant{Holder: heir("data", "new")})
				if want := from == to && handed[[2]string{from, point}]; got != want {
					t.Errorf("%s from %s to %s: %v", point, from, to, got)
				}
			}
		}
	}
}
