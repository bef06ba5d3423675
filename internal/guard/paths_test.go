package guard

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/internal/claim"
)

// httpMatch is a match of a path, of no path for "".
func httpMatch(kind gatewayv1.PathMatchType, path string) gatewayv1.HTTPRouteMatch {
	m := gatewayv1.HTTPRouteMatch{Path: &gatewayv1.HTTPPathMatch{Value: &path}}
	if kind != "" {
		m.Path.Type = &kind
	}
	return m
}

func httpRules(rules ...[]gatewayv1.HTTPRouteMatch) *gatewayv1.HTTPRoute {
	o := &gatewayv1.HTTPRoute{}
	for _, matches := range rules {
		o.Spec.Rules = append(o.Spec.Rules, gatewayv1.HTTPRouteRule{Matches: matches})
	}
	return o
}

func grpcMatch(kind gatewayv1.GRPCMethodMatchType, service, method string) gatewayv1.GRPCRouteMatch {
	m := &gatewayv1.GRPCMethodMatch{}
	for text, into := range map[*string]**string{&service: &m.Service, &method: &m.Method} {
		if *text != "" {
			*into = text
		}
	}
	if kind != "" {
		m.Type = &kind
	}
	return gatewayv1.GRPCRouteMatch{Method: m}
}

func grpcRules(rules ...[]gatewayv1.GRPCRouteMatch) *gatewayv1.GRPCRoute {
	o := &gatewayv1.GRPCRoute{}
	for _, matches := range rules {
		o.Spec.Rules = append(o.Spec.Rules, gatewayv1.GRPCRouteRule{Matches: matches})
	}
	return o
}

// redirects only redirects a path: to anywhere, so that it takes that path as well as a backend does.
func redirects(path string) *gatewayv1.HTTPRoute {
	o := httpRules([]gatewayv1.HTTPRouteMatch{httpMatch("", path)})
	o.Spec.Rules[0].Filters = []gatewayv1.HTTPRouteFilter{{
		Type:            gatewayv1.HTTPRouteFilterRequestRedirect,
		RequestRedirect: &gatewayv1.HTTPRequestRedirectFilter{Scheme: ptr.To("https")},
	}}
	return o
}

type (
	httpMatches = []gatewayv1.HTTPRouteMatch
	grpcMatches = []gatewayv1.GRPCRouteMatch
)

// TestPathsOf tells which paths a route serves, whole and as the cache keeps it.
func TestPathsOf(t *testing.T) {
	get := httpMatch("", "/a")
	get.Method = ptr.To(gatewayv1.HTTPMethodGet)
	const exact, prefix, regex = gatewayv1.PathMatchExact, gatewayv1.PathMatchPathPrefix, gatewayv1.PathMatchRegularExpression
	many := make(httpMatches, 0, 2*MostRoutePaths)
	for i := range 2 * MostRoutePaths {
		many = append(many, httpMatch(exact, "/"+strings.Repeat("x", i)))
	}
	for name, tc := range map[string]struct {
		route metav1.Object
		want  string
	}{
		"no rules":                          {httpRules(), ""},
		"what only redirects":               {redirects("/a"), "/a spec.rules[0].matches[0].path"},
		"a rule without matches":            {httpRules(nil), "/ spec.hostnames[0]"},
		"a match without a path":            {httpRules(httpMatches{{Method: ptr.To(gatewayv1.HTTPMethodGet)}}), "/ spec.rules[0].matches[0].path"},
		"a path without anything":           {httpRules(httpMatches{{Path: &gatewayv1.HTTPPathMatch{}}}), "/ spec.rules[0].matches[0].path"},
		"no type":                           {httpRules(httpMatches{httpMatch("", "/a/")}), "/a spec.rules[0].matches[0].path"},
		"a prefix":                          {httpRules(httpMatches{httpMatch(prefix, "/a")}, httpMatches{httpMatch(prefix, "/")}), "/a spec.rules[0].matches[0].path, / spec.rules[1].matches[0].path"},
		"a prefix and an exact path":        {httpRules(httpMatches{httpMatch(prefix, "/a/"), httpMatch(exact, "/a")}), "/a spec.rules[0].matches[0].path"},
		"an exact path with a slash":        {httpRules(httpMatches{httpMatch(prefix, "/a/"), httpMatch(exact, "/a/")}), "/a spec.rules[0].matches[0].path, /a/ spec.rules[0].matches[1].path"},
		"what differs in something else":    {httpRules(httpMatches{get}, httpMatches{httpMatch("", "/a"), httpMatch("", "/b")}), "/a spec.rules[0].matches[0].path, /b spec.rules[1].matches[1].path"},
		"a regular expression":              {httpRules(httpMatches{httpMatch(regex, "/a")}), ""},
		"one and a path":                    {httpRules(httpMatches{httpMatch(regex, "/.*"), httpMatch(exact, "/a")}), "/a spec.rules[0].matches[1].path"},
		"a path that is too long":           {httpRules(httpMatches{httpMatch(exact, "/"+strings.Repeat("x", 512))}), ""},
		"percent-encoding":                  {httpRules(httpMatches{httpMatch(prefix, "/%6cogin/"), httpMatch(exact, "/login"), httpMatch(exact, "/a%2b%7E%25"), httpMatch(exact, "/a%2B~%25")}), "/login spec.rules[0].matches[0].path, /a%2B~%25 spec.rules[0].matches[2].path"},
		"what decodes to an encoding":       {httpRules(httpMatches{httpMatch(exact, "/%2541"), httpMatch(exact, "/%4%31"), httpMatch(exact, "/%"), httpMatch(exact, "/%2e%2E/%2fa")}), "/%2541 spec.rules[0].matches[0].path, /%4%31 spec.rules[0].matches[1].path, /% spec.rules[0].matches[2].path, /../%2Fa spec.rules[0].matches[3].path"},
		"a pattern of it":                   {httpRules(httpMatches{httpMatch(regex, "/%6c")}), ""},
		"what is no path":                   {httpRules(httpMatches{httpMatch(exact, "a")}), ""},
		"a method of a service":             {grpcRules(grpcMatches{grpcMatch("", "shop.Carts", "Add")}), "/shop.Carts/Add spec.rules[0].matches[0].method"},
		"a service":                         {grpcRules(grpcMatches{grpcMatch(gatewayv1.GRPCMethodMatchExact, "shop.Carts", "")}), "/shop.Carts spec.rules[0].matches[0].method"},
		"a method alone":                    {grpcRules(grpcMatches{grpcMatch("", "", "Add")}), ""},
		"a regular expression of services":  {grpcRules(grpcMatches{grpcMatch(gatewayv1.GRPCMethodMatchRegularExpression, "shop", "Add")}), ""},
		"a match of headers":                {grpcRules(grpcMatches{{}}), "/ spec.rules[0].matches[0].method"},
		"all calls":                         {grpcRules(nil, nil), "/ spec.hostnames[0]"},
		"no rules of calls":                 {grpcRules(), ""},
		"a route that has no paths":         {&gatewayv1.TLSRoute{}, ""},
		"more than can be kept in mind":     {httpRules(many), "256"},
		"a method, and the service of that": {grpcRules(grpcMatches{grpcMatch("", "a", "b"), grpcMatch("", "a", "")}), "/a/b spec.rules[0].matches[0].method, /a spec.rules[0].matches[1].method"},
	} {
		t.Run(name, func(t *testing.T) {
			paths := PathsOf(tc.route)
			var got []string
			for _, p := range paths {
				got = append(got, p.Path+" "+PathPoint{path: p}.Field().String())
			}
			if text := strings.Join(got, ", "); text != tc.want && !(tc.want == "256" && len(got) == MostRoutePaths) {
				t.Errorf("got %s, want %s", text, tc.want)
			}
			shared := 0
			share := func(*string) { shared++ }
			switch o := tc.route.(type) {
			case *gatewayv1.HTTPRoute:
				o.Spec.Rules = SlimHTTPPaths(o, share)
				o.Spec.Rules = SlimHTTPPaths(o, share)
			case *gatewayv1.GRPCRoute:
				o.Spec.Rules = SlimGRPCPaths(o, share)
				o.Spec.Rules = SlimGRPCPaths(o, share)
			default:
				return
			}
			if slim := PathsOf(tc.route); !slices.EqualFunc(paths, slim, func(a, b RoutePath) bool { return a.Path == b.Path }) {
				t.Errorf("of %v the cache keeps %v", paths, slim)
			}
			if shared == 0 && len(paths) > 0 && paths[0].Path != "/" {
				t.Error("its paths are not shared")
			}
		})
	}
}

// TestPathPoints has routes on the listeners of a Gateway, and of a ListenerSet of it.
func TestPathPoints(t *testing.T) {
	all := &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: ptr.To(gatewayv1.NamespacesFromAll)}}
	door := func(name, host string, port int32, allowed *gatewayv1.AllowedRoutes) gatewayv1.Listener {
		l := gatewayv1.Listener{Name: gatewayv1.SectionName(name), Port: port, Protocol: gatewayv1.HTTPProtocolType, AllowedRoutes: allowed}
		if host != "" {
			l.Hostname = ptr.To(gatewayv1.Hostname(host))
		}
		return l
	}
	g := doorway()
	g.Spec.Listeners = []gatewayv1.Listener{
		door("any", "", 80, all), door("named", "a.test", 81, all), door("wild", "*.test", 82, all), door("own", "own.test", 83, nil),
		{Name: "tls", Port: 443, Protocol: gatewayv1.TLSProtocolType, AllowedRoutes: all},
	}
	set := &gatewayv1.ListenerSet{}
	set.Namespace, set.Name = "shop", "doors"
	set.Spec.ParentRef = gatewayv1.ParentGatewayReference{Namespace: ptr.To(gatewayv1.Namespace("edge")), Name: "public"}
	set.Spec.Listeners = []gatewayv1.ListenerEntry{gatewayv1.ListenerEntry(door("set", "set.test", 84, nil))}
	onSet := gatewayv1.ParentReference{Kind: ptr.To(gatewayv1.Kind("ListenerSet")), Name: "doors"}
	for name, tc := range map[string]struct {
		kind   Kind
		ref    gatewayv1.ParentReference
		hosts  []gatewayv1.Hostname
		on     string
		want   string
		isPart bool
	}{
		"its own names":                   {HTTPRoute, refTo("any"), []gatewayv1.Hostname{"x.test", "y.test"}, "", "x.test/p x.test/q y.test/p y.test/q", false},
		"one of them":                     {HTTPRoute, refTo("any"), []gatewayv1.Hostname{"x.test", "y.test"}, "y.test", "y.test/p y.test/q", false},
		"none of them":                    {HTTPRoute, refTo("any"), []gatewayv1.Hostname{"x.test"}, "y.test", "", false},
		"no names, and none there":        {HTTPRoute, refTo("any"), nil, "", "", false},
		"no names, and one there":         {GRPCRoute, refTo("named"), nil, "", "a.test/p a.test/q", false},
		"a wider name":                    {HTTPRoute, refTo("named"), []gatewayv1.Hostname{"*.test"}, "", "a.test/p a.test/q", false},
		"a narrower name":                 {HTTPRoute, refTo("wild"), []gatewayv1.Hostname{"b.c.test"}, "", "b.c.test/p b.c.test/q", false},
		"other names":                     {HTTPRoute, refTo("named"), []gatewayv1.Hostname{"b.test"}, "", "", true},
		"other names, too":                {HTTPRoute, refTo("named"), []gatewayv1.Hostname{"b.test", "a.test"}, "", "a.test/p a.test/q", true},
		"all listeners":                   {HTTPRoute, refTo(""), nil, "", "a.test/p a.test/q *.test/p *.test/q", false},
		"all listeners, and the same":     {HTTPRoute, refTo(""), []gatewayv1.Hostname{"a.test"}, "", "a.test/p a.test/q", false},
		"one that does not let it attach": {HTTPRoute, refTo("own"), nil, "", "", true},
		"one of another protocol":         {HTTPRoute, refTo("tls"), []gatewayv1.Hostname{"a.test"}, "", "", true},
		"a ListenerSet":                   {HTTPRoute, onSet, nil, "", "set.test/p set.test/q", false},
	} {
		r := route(tc.kind, "shop", "web", tc.ref)
		r.Hosts = tc.hosts
		paths := PathsOf(httpRules(httpMatches{httpMatch("", "/p"), httpMatch("", "/q")}))
		var got []string
		var on sets.Set[string]
		if tc.on != "" {
			on = sets.New(tc.on)
		}
		for _, p := range []*Parent{ParentOfGateway(g), ParentOfListenerSet(set, "")} {
			served := Served{Paths: paths}
			served.AddHosts(r, p, nil)
			for _, point := range served.Points(on, nil) {
				got = append(got, point.At.Point())
				if point.At.Scope() != claim.GatewayPathsScope(ParentOfGateway(g).NamespacedName) {
					t.Errorf("%s: it is %s", name, point.At)
				}
			}
			if r.ParentOf(tc.ref) == p.ParentKey && r.IsWholeAt(p, nil) == tc.isPart {
				t.Errorf("%s: it is there as a whole: %v", name, !tc.isPart)
			}
		}
		if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	two := route(HTTPRoute, "shop", "web", refTo("any"), refTo("own"))
	if two.IsWholeAt(ParentOfGateway(g), nil) {
		t.Error("a reference to a listener that does not let it attach is none of what it asks for")
	}
	own := Served{Paths: PathsOf(httpRules(nil))}
	own.AddHosts(route(HTTPRoute, "shop", "web", onSet), ParentOfListenerSet(set, "streams"), nil)
	if points := own.Points(nil, nil); len(points) > 0 {
		t.Errorf("on the listeners of streams it has %v", points)
	}
	own.AddHosts(route(HTTPRoute, "shop", "web", onSet), ParentOfListenerSet(set, ""), nil)
	inherited := own.Points(nil, nil)
	if len(inherited) != 1 || inherited[0].Field().String() != "spec.parentRefs[0]" {
		t.Errorf("what it takes over all of is %v", inherited)
	}
}

// TestServed tells what a route with more points than it may have still has of them, and which of them are new.
func TestServed(t *testing.T) {
	many := Served{}
	for i := range 100 {
		many.Hosts = append(many.Hosts, ServedHost{On: doorwayKey(), Host: fmt.Sprintf("%d.test", i), host: i})
		many.Paths = append(many.Paths, RoutePath{Path: fmt.Sprintf("/%d", i), rule: i})
	}
	all := many.Points(nil, nil)
	if len(all) != MostPathPoints || many.Total() != 10000 || all[MostPathPoints-1].At.Point() != "10.test/23" {
		t.Fatalf("of %d points %d count, the last is %v", many.Total(), len(all), all[len(all)-1].At)
	}
	asked := 0
	for _, h := range many.Hosts {
		for _, p := range many.Points(sets.New(h.Host), nil) { // host by host it has the same ones
			if p.At != all[asked].At {
				t.Fatalf("the %dth is %s, and by its host %s", asked, all[asked].At, p.At)
			}
			asked++
		}
	}
	if asked != MostPathPoints {
		t.Errorf("host by host %d count", asked)
	}
	if points := many.Points(sets.New("3.test", "10.test"), sets.New("/23", "/24")); len(points) != 3 || points[2].At.Point() != "10.test/23" {
		t.Errorf("of some hosts and paths it has %v", points)
	}
	every := func(string) bool { return true }
	for name, tc := range map[string]struct {
		before  Served
		matters func(string) bool
		want    int
	}{
		"a new route":             {Served{}, every, MostPathPoints},
		"nothing":                 {many, every, 0},
		"less than before":        {Served{many.Hosts, append([]RoutePath{{Path: "/more"}}, many.Paths...)}, every, 0},
		"a path":                  {Served{many.Hosts, many.Paths[1:]}, every, 100},
		"a host":                  {Served{many.Hosts[1:], many.Paths}, every, 100},
		"a host of others":        {Served{many.Hosts[1:], many.Paths}, func(host string) bool { return host != "0.test" }, 0},
		"the last host and path":  {Served{many.Hosts[:99], many.Paths[:99]}, every, 199},
		"hosts of another parent": {Served{[]ServedHost{{On: doorwayKey(), Host: "0.test", host: -1, parent: 7}}, many.Paths}, func(host string) bool { return host == "0.test" }, 0},
	} {
		if got := many.Since(&tc.before, tc.matters); len(got) != tc.want {
			t.Errorf("%s: %d points are new", name, len(got))
		}
	}
	at := all[MostPathPoints-1].At
	if where := many.FieldOf(at); where == nil || where.String() != all[MostPathPoints-1].Field().String() {
		t.Errorf("%s is at %v", at, where)
	}
	if where := many.FieldOf(at.Sibling("/none")); where != nil {
		t.Errorf("what it does not serve is at %v", where)
	}
}

func doorwayKey() types.NamespacedName { return ParentOfGateway(doorway()).NamespacedName }
