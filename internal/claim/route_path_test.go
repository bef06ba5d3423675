package claim

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

var infraEdge = types.NamespacedName{Namespace: "infra", Name: "edge"}

// TestRoutePaths has paths of Gateways: each is a point of its own, that nothing of Ingresses or listeners takes for one of theirs.
func TestRoutePaths(t *testing.T) {
	long := strings.Repeat(strings.Repeat("a", 49)+".", 5) + "bc" // 252 characters
	seen := map[string]Coordinate{}
	for _, at := range []Coordinate{
		HTTP("example.com", "/").OnGateway(infraEdge), HTTP("example.com", "/a").OnGateway(infraEdge),
		HTTP("*.example.com", "/").OnGateway(infraEdge), HTTP(long+"d", "/"+strings.Repeat("x", 511)).OnGateway(infraEdge),
		HTTP("example.com", "/").OnGateway(types.NamespacedName{Namespace: "infra", Name: "inside"}),
		HTTP("example.com", "/").OnGateway(types.NamespacedName{Namespace: "edge", Name: "infra"}),
		HTTP("infra", "/login").OnGateway(infraEdge), HTTP("infra", "/edge infra/login").ServedBy("gateway"),
		HTTP("example.com", "/"), HTTP("example.com", "/").ServedBy("gateway"), HTTP("example.com", "/").ServedBy("gateway.infra.edge"),
		HostListener(infraEdge, HTTPListener, 80, "example.com"), Hostname("example.com"),
	} {
		if other, taken := seen[at.Name()]; taken || at.IsZero() {
			t.Errorf("%s and %s have the same name", other, at)
		}
		seen[at.Name()] = at
		if got, err := Of(New(at, Claimant{Holder: shopNames})); err != nil || got != at {
			t.Errorf("%s is read back as %s, %v", at, got, err)
		}
		if at.Host() != "example.com" || !at.IsRoutePath() {
			continue
		}
		if at.IsHTTP() || at.IsHost() || at.IsListener() || at.IsHosts() || at.IsHostname() || at.IsRoute() || at.IsStream() ||
			at.ListenerHost() != "" || at.IngressClass() != "" || at.ServedBy("nginx") != at {
			t.Errorf("%+v is taken for something else", at)
		}
		if at.Scope() != GatewayPathsScope(at.Gateway()) || at.Scope() != "http/gateway/"+at.Gateway().String() || ScopeFamily(at.Scope()) != HTTPScope ||
			at.Point() != "example.com"+at.Path() {
			t.Errorf("%+v is %s", at, at)
		}
		if wrong := validation.IsDNS1123Subdomain(at.Name()); len(wrong) > 0 || !strings.HasPrefix(at.Name(), "http.example.com.") {
			t.Errorf("%q is not the name of an object: %v", at.Name(), wrong)
		}
	}
	for _, none := range []Coordinate{
		Host("example.com").OnGateway(infraEdge), HTTP("example.com", "/").ServedBy("nginx").OnGateway(infraEdge), Hostname("example.com").OnGateway(infraEdge),
		HTTP("", "/").OnGateway(infraEdge), HTTP("example.com", "/").OnGateway(types.NamespacedName{}), HTTP("example.com", "/").OnGateway(types.NamespacedName{Namespace: "a/b", Name: "c"}),
		HTTP("example.com", "/").OnGateway(types.NamespacedName{Namespace: "infra", Name: "Edge"}),
	} {
		if !none.IsZero() || none.Name() != "" {
			t.Errorf("%+v is a path", none)
		}
	}
	if at := HTTP("example.com", "/").OnGateway(infraEdge); at.Sibling("/a") != HTTP("example.com", "/a").OnGateway(infraEdge) ||
		!at.Sibling("a").IsZero() || !HTTP("example.com", "/").Sibling("/a").IsZero() {
		t.Error("another path of the host is another one")
	}
	for field, forge := range map[string]func(at Coordinate) (scope, point string){
		"a point":         func(at Coordinate) (string, string) { return at.Scope(), "example.com/b" },
		"a host alone":    func(at Coordinate) (string, string) { return at.Scope(), "example.com" },
		"a Gateway":       func(at Coordinate) (string, string) { return "http/gateway/infra/inside", at.Point() },
		"no Gateway":      func(at Coordinate) (string, string) { return "http/gateway/infra", at.Point() },
		"more than one":   func(at Coordinate) (string, string) { return at.Scope() + "/edge", at.Point() },
		"the class of it": func(at Coordinate) (string, string) { return "http/gateway", at.Point() },
	} {
		forged := New(HTTP("example.com", "/a").OnGateway(infraEdge), Claimant{Holder: shopNames})
		forged.Spec.Scope, forged.Spec.Point = forge(HTTP("example.com", "/a").OnGateway(infraEdge))
		if at, err := Of(forged); err == nil {
			t.Errorf("a claim of another name is read by %s as %v", field, at)
		}
	}
}
