package claim

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

var itsSection = Section{Kind: "Gateway", Namespace: "infra", Name: "edge", Listener: "sql"}

// TestRoute has points of listeners written and read back.
func TestRoute(t *testing.T) {
	set := Section{Kind: "ListenerSet", Namespace: "shop", Name: "web.v1", Listener: "tls.a"}
	longest := Section{
		Kind: "ListenerSet", Namespace: strings.Repeat("n", 63),
		Name: strings.Repeat("a", 253), Listener: strings.Repeat("b", 253),
	}
	for name, tc := range map[string]struct {
		at                 Coordinate
		scope, point, hint string
	}{
		"TCP":              {Route(itsSection, v1beta1.TCP), "route/gateway/infra/edge/sql", "TCP", "route.gateway.infra.edge.sql.tcp."},
		"UDP":              {Route(itsSection, v1beta1.UDP), "route/gateway/infra/edge/sql", "UDP", "route.gateway.infra.edge.sql.udp."},
		"a host":           {HostRoute(set, "a.example.com"), "route/listenerset/shop/web.v1/tls.a", "TLS/a.example.com", "route.listenerset.shop.web.v1.tls.a.tls.a.example.com."},
		"a wildcard":       {HostRoute(set, "*.example.com"), "route/listenerset/shop/web.v1/tls.a", "TLS/*.example.com", "route.listenerset.shop.web.v1.tls.a.tls.any.example.com."},
		"all hosts":        {HostRoute(set, AllHosts), "route/listenerset/shop/web.v1/tls.a", "TLS/*", "route.listenerset.shop.web.v1.tls.a.tls.any."},
		"the longest name": {HostRoute(longest, strings.TrimSuffix(strings.Repeat("c.", 126), ".")), "route/" + longest.String(), "TLS/c.", "route.listenerset.nnn"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.at.IsZero() || !tc.at.IsRoute() || tc.at.IsHTTP() || tc.at.IsListener() || tc.at.IsStream() {
				t.Fatalf("%#v is no route", tc.at)
			}
			if tc.at.Scope() != tc.scope || !strings.HasPrefix(tc.at.Point(), tc.point) || !strings.HasPrefix(tc.at.Name(), tc.hint) {
				t.Errorf("it is %q, %q, %q", tc.at.Scope(), tc.at.Point(), tc.at.Name())
			}
			if errs := validation.IsDNS1123Subdomain(tc.at.Name()); len(errs) > 0 || len(tc.at.Scope()) > 640 {
				t.Errorf("%q can't be the name of an object: %v", tc.at.Name(), errs)
			}
			c := New(tc.at, Claimant{Holder: RouteHolder("TCPRoute", "shop", "web")})
			if back, err := Of(c); err != nil || back != tc.at {
				t.Errorf("read back it is %v, %v", back, err)
			}
			if ScopeFamily(c.Spec.Scope) != RouteScope {
				t.Errorf("its family is %q", ScopeFamily(c.Spec.Scope))
			}
		})
	}
	if a, b := Route(itsSection, v1beta1.TCP), HostRoute(itsSection, AllHosts); a.RouteHost() != "" || b.RouteHost() != AllHosts || a.Section() != itsSection || a == b {
		t.Errorf("the parts are %q %q %v", a.RouteHost(), b.RouteHost(), a.Section())
	}
}

// TestNoRoute has what is no listener, or no host.
func TestNoRoute(t *testing.T) {
	for name, at := range map[string]Coordinate{
		"another kind":           Route(Section{"Service", "infra", "edge", "sql"}, v1beta1.TCP),
		"another protocol":       Route(itsSection, "SCTP"),
		"no listener":            Route(Section{"Gateway", "infra", "edge", ""}, v1beta1.TCP),
		"a slash in the name":    Route(Section{"Gateway", "infra", "edge/sql", "sql"}, v1beta1.TCP),
		"upper case":             Route(Section{"Gateway", "infra", "Edge", "sql"}, v1beta1.TCP),
		"no namespace":           Route(Section{"Gateway", "", "edge", "sql"}, v1beta1.TCP),
		"a host with a space":    HostRoute(itsSection, "a example.com"),
		"a host of upper case":   HostRoute(itsSection, "A.example.com"),
		"no host":                HostRoute(itsSection, ""),
		"a wildcard in the host": HostRoute(itsSection, "a.*.example.com"),
	} {
		if !at.IsZero() {
			t.Errorf("%s: %#v", name, at)
		}
	}
}

func FuzzOfRoutes(f *testing.F) {
	for _, at := range []Coordinate{Route(itsSection, v1beta1.TCP), Route(itsSection, v1beta1.UDP), HostRoute(itsSection, "a.example.com"), HostRoute(itsSection, AllHosts)} {
		f.Add(at.Scope(), at.Name(), at.Point())
	}
	f.Add("route/gateway/infra/edge", Route(itsSection, v1beta1.TCP).Name(), "TCP")
	f.Add("route/other/infra/edge/sql", Route(itsSection, v1beta1.TCP).Name(), "TCP")
	f.Add("route/gateway/infra/edge/sql", Route(itsSection, v1beta1.TCP).Name(), "TCP/a.example.com")
	f.Add("route/", "\x00", "TLS/\xff")
	f.Fuzz(func(t *testing.T, scope, name, point string) {
		c := New(Coordinate{}, Claimant{})
		c.Name, c.Spec.Scope, c.Spec.Point = name, scope, point
		at, err := Of(c)
		if (err == nil) == at.IsZero() {
			t.Fatalf("Of(%q, %q, %q) = %#v, %v", scope, name, point, at, err)
		}
		if at.IsRoute() && (at.Name() != name || at.Scope() != scope || at.Point() != point) {
			t.Errorf("Of(%q, %q, %q) = %#v", scope, name, point, at)
		}
	})
}

// TestNamedAndGiven has a Service claim a port by naming its address, and as what it was given: what it was given is never called named.
func TestNamedAndGiven(t *testing.T) {
	at := NodePort("TCP", 80)
	named := Claimant{Holder: ServiceHolder("shop", "web"), UID: "u", ExternalIP: true}
	given := named
	given.ExternalIP = false
	for name, tc := range map[string]struct {
		first, then Claimant
		noted, want bool
	}{
		"named twice":                {named, named, true, true},
		"named, and then given":      {named, given, false, false},
		"given, and then named":      {given, named, true, false},
		"given twice":                {given, given, true, false},
		"another takes what is free": {given, Claimant{Holder: ServiceHolder("shop", "other"), ExternalIP: true}, true, true},
	} {
		c := New(at, tc.first)
		if noted := tc.then.isNoted(c); noted != tc.noted {
			t.Errorf("%s: noted %t", name, noted)
		}
		if next := tc.then.having(c); next.Spec.ExternalIP != tc.want {
			t.Errorf("%s: named alone is %t", name, next.Spec.ExternalIP)
		}
	}
}
