package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/hostname"
)

// pathRoute is an HTTPRoute that serves paths of hosts.
func pathRoute(key string, spec gatewayv1.CommonRouteSpec, hosts []gatewayv1.Hostname, paths ...string) *gatewayv1.HTTPRoute {
	r := &gatewayv1.HTTPRoute{ObjectMeta: annotatedMeta(key), Spec: gatewayv1.HTTPRouteSpec{CommonRouteSpec: spec, Hostnames: hosts}}
	for _, path := range paths {
		r.Spec.Rules = append(r.Spec.Rules, gatewayv1.HTTPRouteRule{
			Matches: []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{Value: &path}}},
		})
	}
	return r
}

// TestPathUsers finds routes by the paths that they serve of a host, as far as these are guarded.
func TestPathUsers(t *testing.T) {
	all := gatewayv1.NamespacesFromAll
	allowed := &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: &all}}
	gateway := public(all,
		gatewayv1.Listener{Name: "any", Protocol: gatewayv1.HTTPProtocolType, Port: 80, AllowedRoutes: allowed},
		gatewayv1.Listener{Name: "named", Protocol: gatewayv1.HTTPProtocolType, Port: 81, Hostname: new(gatewayv1.Hostname("named.test")), AllowedRoutes: allowed},
	)
	door := entry(gatewayv1.HTTPProtocolType, 90, "set.test")
	door.Name, door.AllowedRoutes = "door", allowed
	set := setIn("shop", "doors", time.Hour, door)
	onSet := gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{
		{Kind: new(gatewayv1.Kind("ListenerSet")), Namespace: new(gatewayv1.Namespace("shop")), Name: "doors"},
	}}
	grpc := &gatewayv1.GRPCRoute{ObjectMeta: annotatedMeta("blog/grpc"), Spec: gatewayv1.GRPCRouteSpec{
		CommonRouteSpec: onGateway("any"), Hostnames: []gatewayv1.Hostname{"a.test"}, Rules: []gatewayv1.GRPCRouteRule{{}},
	}}
	objects := []client.Object{
		gateway, set, namespaceOf("shop", "web"), namespaceOf("blog", "web"), namespaceOf("edge", ""), grpc,
		pathRoute("shop/web", onGateway("any", "named"), []gatewayv1.Hostname{"a.test", "b.test"}, "/login", "/login/"),
		pathRoute("blog/wide", onGateway("any", "named"), []gatewayv1.Hostname{"*.test"}, "/wide"),
		pathRoute("blog/both", onGateway("any"), []gatewayv1.Hostname{"c.test", "*.c.test"}, "/both"),
		pathRoute("blog/takes", onGateway("named"), nil, "/takes"),
		pathRoute("blog/set", onSet, []gatewayv1.Hostname{"set.test", "a.test"}, "/set"),
		pathRoute("blog/nowhere", onGateway("gone"), []gatewayv1.Hostname{"a.test"}, "/nowhere"),
		pathRoute("blog/nameless", onGateway("any"), nil, "/nameless"),
		ingressOf("shop/web", "a.test"),
	}
	both := guard.Actions{guard.HTTPRoute: guard.Deny, guard.GRPCRoute: guard.Warn}
	for name, tc := range map[string]struct {
		guarded guard.Actions
		want    map[string]string
	}{
		"both": {both, map[string]string{
			"a.test":     "GRPCRoute blog/grpc: /; HTTPRoute shop/web: /login",
			"b.test":     "HTTPRoute shop/web: /login",
			"*.test":     "HTTPRoute blog/wide: /wide",
			"named.test": "HTTPRoute blog/takes: /takes; HTTPRoute blog/wide: /wide",
			"set.test":   "HTTPRoute blog/set: /set", "x.test": "",
			"c.test":   "HTTPRoute blog/both: /both", // once, though it may inherit names, too
			"*.c.test": "HTTPRoute blog/both: /both",
		}},
		"HTTPRoutes":    {guard.Actions{guard.HTTPRoute: guard.Deny}, map[string]string{"a.test": "HTTPRoute shop/web: /login"}},
		"neither":       {guard.Actions{guard.TLSRoute: guard.Deny}, map[string]string{"a.test": "", "*.test": ""}},
		"nothing else":  {guard.Actions{guard.GRPCRoute: guard.Deny}, map[string]string{"a.test": "GRPCRoute blog/grpc: /", "named.test": ""}},
		"no Gateway at": {nil, map[string]string{"a.test": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			v, live := viewOfHosts(t, tc.guarded, objects...), storingHosts(t, objects...)
			look := v.Hosts.pathLook()
			for host, want := range tc.want {
				users, err := look.users(t.Context(), asked{hosts: sets.New(host)})
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, u := range users {
					text := u.String() + ":"
					for _, p := range u.Points {
						text += " " + p.At.Path()
						if p.At.Gateway() != client.ObjectKeyFromObject(gateway) || p.At.Host() != host {
							t.Errorf("%s is not on %q of the Gateway", p.At, host)
						}
						for _, ns := range []string{"shop", "blog", "edge", ""} {
							served, err := look.isServed(t.Context(), ns, p.At)
							if err != nil || ns == u.Namespace && !served || !strings.Contains(want, " "+ns+"/") && served {
								t.Errorf("%s is served in %q: %v, %v", p.At, ns, served, err)
							}
						}
					}
					got = append(got, text)
				}
				slices.Sort(got)
				if diff := cmp.Diff(want, strings.Join(got, "; ")); diff != "" {
					t.Errorf("%q: %s", host, diff)
				}
			}
			seen := map[claim.Coordinate]bool{}
			if err := v.Hosts.EachPath(t.Context(), func(_ hostname.User, at claim.Coordinate) { seen[at] = true }); err != nil {
				t.Fatal(err)
			}
			in := map[claim.Coordinate]bool{}
			for _, ns := range []string{"shop", "blog"} {
				cached, err := v.Hosts.PathsIn(t.Context(), ns)
				stored, errStored := v.Hosts.Look(live).In(t.Context(), ns, false, true)
				if err != nil || errStored != nil || !maps.Equal(cached, stored.Paths) {
					t.Errorf("%s: the cache has %v (%v), the API server %v (%v)", ns, cached, err, stored.Paths, errStored)
				}
				maps.Copy(in, cached)
			}
			if !maps.Equal(seen, in) {
				t.Errorf("all are %v, and by namespaces %v", seen, in)
			}
		})
	}
	v := viewOfHosts(t, both, objects...)
	at := func(host, path string) claim.Coordinate {
		return claim.HTTP(host, path).OnGateway(client.ObjectKeyFromObject(gateway))
	}
	serving, err := Decide(t.Context(), v, func(f *Facts) (text []string) {
		for _, u := range f.Serving([]claim.Coordinate{at("a.test", "/login"), at("c.test", "/both"), at("named.test", "/takes"), at("x.test", "/wide")}) {
			for _, p := range u.Points {
				text = append(text, u.String()+" "+p.At.Point())
			}
		}
		slices.Sort(text)
		return text
	})
	if diff := cmp.Diff("HTTPRoute blog/both c.test/both; HTTPRoute blog/takes named.test/takes; HTTPRoute blog/wide named.test/wide; "+
		"HTTPRoute shop/web a.test/login", strings.Join(serving, "; ")); diff != "" || err != nil {
		t.Errorf("serving some points: %v %s", err, diff)
	}
	for what, tc := range map[string]struct {
		got  []string
		want string
	}{
		"the Gateway":    {v.Hosts.OnParent(t.Context(), gateway), "*.c.test *.test a.test b.test c.test set.test"},
		"the set":        {v.Hosts.OnParent(t.Context(), set), "a.test set.test"},
		"sets of shop":   {v.Hosts.OnSetsIn(t.Context(), "shop"), "a.test set.test"},
		"sets of blog":   {v.Hosts.OnSetsIn(t.Context(), "blog"), ""},
		"other Gateways": {v.Hosts.OnParent(t.Context(), &gatewayv1.Gateway{ObjectMeta: annotatedMeta("edge/other")}), ""},
	} {
		if diff := cmp.Diff(tc.want, strings.Join(tc.got, " ")); diff != "" {
			t.Errorf("on %s: %s", what, diff)
		}
	}
	if got := v.Hosts.GatewaysOfSetsIn(t.Context(), "shop"); !slices.Equal(got, []client.ObjectKey{client.ObjectKeyFromObject(gateway)}) {
		t.Errorf("the sets of shop are on %v", got)
	}
}

// TestARouteHasSoManyPoints has a route serve more than it may have, on two Gateways: whoever asks, by host or for all of its namespace, is
// told of the same ones, of the first Gateway first.
func TestARouteHasSoManyPoints(t *testing.T) {
	all := gatewayv1.NamespacesFromAll
	on := onGateway("any", "any")
	on.ParentRefs[1].Name = "other"
	gateway := public(all, gatewayv1.Listener{Name: "any", Protocol: gatewayv1.HTTPProtocolType, Port: 80, AllowedRoutes: &gatewayv1.AllowedRoutes{
		Namespaces: &gatewayv1.RouteNamespaces{From: &all},
	}})
	other := gateway.DeepCopy()
	other.Name = "other"
	var hosts []gatewayv1.Hostname
	for i := range 8 {
		hosts = append(hosts, gatewayv1.Hostname(fmt.Sprintf("%d.test", i)))
	}
	var paths []string
	for i := range 100 {
		paths = append(paths, fmt.Sprintf("/%d", i))
	}
	objects := []client.Object{gateway, other, namespaceOf("shop", ""), pathRoute("shop/web", on, hosts, paths...)}
	live, v := storingHosts(t, objects...), viewOfHosts(t, guard.Actions{guard.HTTPRoute: guard.Deny}, objects...)
	cached, err := v.Hosts.PathsIn(t.Context(), "shop")
	stored, errStored := v.Hosts.Look(live).In(t.Context(), "shop", false, true)
	if err != nil || errStored != nil || len(cached) != guard.MostPathPoints || !maps.Equal(cached, stored.Paths) {
		t.Fatalf("the cache has %d (%v), the API server %d (%v)", len(cached), err, len(stored.Paths), errStored)
	}
	byHost := map[claim.Coordinate]bool{}
	look := v.Hosts.pathLook()
	for _, host := range hosts {
		users, err := look.users(t.Context(), asked{hosts: sets.New(string(host))})
		if err != nil || len(users) != 1 {
			t.Fatalf("%s: %v, %v", host, users, err)
		}
		for _, p := range users[0].Points {
			byHost[p.At] = true
		}
	}
	if !maps.Equal(cached, byHost) {
		t.Errorf("host by host there are %d", len(byHost))
	}
	first := claim.HTTP("7.test", "/99").OnGateway(client.ObjectKeyFromObject(gateway))
	if !cached[first] || cached[claim.HTTP("7.test", "/99").OnGateway(client.ObjectKeyFromObject(other))] {
		t.Error("it has not those of the first Gateway first")
	}
	if served, err := look.isServed(t.Context(), "shop", first); err != nil || !served {
		t.Errorf("%s is served: %v, %v", first, served, err)
	}
	if served, err := look.isServed(t.Context(), "shop", claim.HTTP("7.test", "/99").OnGateway(client.ObjectKeyFromObject(other))); err != nil || served {
		t.Errorf("one beyond them counts: %v, %v", served, err)
	}
}

// TestRoutesOfAHost finds for a host name the routes that may be for it, and none of the others with a wildcard, of which there may be any
// number.
func TestRoutesOfAHost(t *testing.T) {
	dns := pathRoute("shop/dns", onGateway("any"), nil, "/")
	dns.Annotations = map[string]string{v1beta1.AnnotationExternalDNS: "x.test"}
	routes := map[string]client.Object{
		"named": pathRoute("shop/named", onGateway("any"), []gatewayv1.Hostname{"a.b.test", "b.test"}, "/"),
		"wide":  pathRoute("shop/wide", onGateway("any"), []gatewayv1.Hostname{"*.test", "c.example"}, "/"),
		"near":  pathRoute("shop/near", onGateway("any"), []gatewayv1.Hostname{"*.b.test"}, "/"),
		"none":  pathRoute("shop/none", onGateway("any"), nil, "/"), "dns": dns,
		"tls": &gatewayv1.TLSRoute{ObjectMeta: annotatedMeta("shop/tls"), Spec: gatewayv1.TLSRouteSpec{Hostnames: []gatewayv1.Hostname{"*.b.test"}}},
		"tcp": &gatewayv1.TCPRoute{ObjectMeta: annotatedMeta("shop/tcp")},
	}
	for hosts, want := range map[string]string{
		"a.b.test": "dns named near none tls wide", "b.test": "dns named none wide", "*.b.test": "dns near none tls wide", "*.test": "dns none wide",
		"test": "dns none", "c.example": "dns none wide", "other.example": "dns none", "other.example a.b.test": "dns named near none tls wide",
	} {
		keys := sets.New(keysOfRoutes(strings.Fields(hosts))...)
		var got []string
		for name, route := range routes {
			if keys.HasAny(hostKeys(exposure.Defaults{})(route)...) {
				got = append(got, name)
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s: %s", hosts, diff)
		}
	}
}

// TestServedNow looks past the cache for a parent of which that shows no listener for a route, once for all versions of it.
func TestServedNow(t *testing.T) {
	gateway := public(gatewayv1.NamespacesFromAll, gatewayv1.Listener{Name: "own", Protocol: gatewayv1.HTTPProtocolType, Port: 80},
		gatewayv1.Listener{Name: "named", Protocol: gatewayv1.HTTPProtocolType, Port: 82, Hostname: new(gatewayv1.Hostname("a.test"))})
	both := guard.Actions{guard.HTTPRoute: guard.Deny}
	v := viewOfHosts(t, both, gateway, namespaceOf("edge", ""))
	changed := gateway.DeepCopy()
	changed.Spec.Listeners = append(changed.Spec.Listeners, gatewayv1.Listener{Name: "new", Protocol: gatewayv1.HTTPProtocolType, Port: 81})
	all := onGateway("")
	all.ParentRefs[0].SectionName = nil
	before := pathRoute("edge/web", onGateway("own", "new"), []gatewayv1.Hostname{"a.test"}, "/")
	for name, tc := range map[string]struct {
		on    gatewayv1.CommonRouteSpec
		hosts []gatewayv1.Hostname
		want  int
		looks int
	}{
		"what the cache has":           {onGateway("own"), []gatewayv1.Hostname{"a.test"}, 1, 0},
		"what is new":                  {onGateway("new"), []gatewayv1.Hostname{"a.test"}, 1, 1},
		"both":                         {onGateway("own", "new"), []gatewayv1.Hostname{"a.test"}, 1, 1},
		"what is not there":            {onGateway("gone"), []gatewayv1.Hostname{"a.test"}, 0, 1},
		"a name that the cache has":    {onGateway("named"), []gatewayv1.Hostname{"a.test"}, 1, 0},
		"and one that is new":          {onGateway("named"), []gatewayv1.Hostname{"a.test", "b.test"}, 1, 1},
		"and one that is new anywhere": {all, []gatewayv1.Hostname{"a.test", "b.test"}, 2, 0},
	} {
		live := &readsOf{Reader: storingHosts(t, changed), gets: map[string]int{}}
		v.tenants = live
		after := pathRoute("edge/web", tc.on, tc.hosts, "/")
		served, err := v.Hosts.ServedNow(t.Context(), labels.Set{}, after, before)
		if err != nil || len(served) != 2 || served[0].Total() != tc.want || served[1].Total() != 1 {
			t.Errorf("%s: %v, %v", name, served, err)
		}
		if live.gets["Gateway edge/public"] != tc.looks {
			t.Errorf("%s: looked for past the cache is %v", name, live.gets)
		}
	}
	for _, missing := range []string{"Gateway", "ListenerSet"} {
		v.tenants = &readsOf{Reader: storingHosts(t), gets: map[string]int{}, missing: missing}
		on := onGateway("any")
		on.ParentRefs[0].Name, on.ParentRefs[0].Kind = "gone", new(gatewayv1.Kind(missing))
		served, err := v.Hosts.ServedNow(t.Context(), labels.Set{}, pathRoute("edge/web", on, []gatewayv1.Hostname{"a.test"}, "/"))
		if err != nil || len(served) != 1 || served[0].Total() > 0 {
			t.Errorf("without %ss: %v, %v", missing, served, err)
		}
	}
}

// readsOf counts what is read past the cache, and knows no kinds of some names.
type readsOf struct {
	client.Reader
	gets    map[string]int
	lists   []string
	missing string
}

func (r *readsOf) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	kind := strings.TrimPrefix(fmt.Sprintf("%T", obj), "*v1.")
	r.gets[kind+" "+key.String()]++
	if kind == r.missing {
		return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: gatewayv1.GroupName, Kind: kind}}
	}
	return r.Reader.Get(ctx, key, obj, options...)
}

func (r *readsOf) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	r.lists = append(r.lists, strings.TrimPrefix(fmt.Sprintf("%T", list), "*v1."))
	return r.Reader.List(ctx, list, options...)
}

// TestLook reads past the cache all that a path follows from, and each parent once, also one that is not there.
func TestLook(t *testing.T) {
	selected := gatewayv1.NamespacesFromSelector
	selects := &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: &selected, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "web"}}}}
	gateway := public(gatewayv1.NamespacesFromAll, gatewayv1.Listener{Name: "own", Protocol: gatewayv1.HTTPProtocolType, Port: 80, AllowedRoutes: selects})
	objects := []client.Object{namespaceOf("edge", "")}
	for i := range 5 {
		objects = append(objects, pathRoute(fmt.Sprintf("shop/gone-%d", i), onGateway("own"), []gatewayv1.Hostname{"a.test"}, fmt.Sprintf("/%d", i)))
		gone := onGateway("own")
		gone.ParentRefs[0].Name = "gone"
		gone.ParentRefs = append(gone.ParentRefs, gone.ParentRefs[0])
		gone.ParentRefs[1].Kind = new(gatewayv1.Kind("ListenerSet"))
		objects = append(objects, pathRoute(fmt.Sprintf("shop/web-%d", i), gone, nil, "/"))
	}
	both := guard.Actions{guard.HTTPRoute: guard.Deny, guard.TLSRoute: guard.Deny}
	v := viewOfHosts(t, both, append(slices.Clone(objects), gateway, namespaceOf("shop", "none"))...)
	changed := gateway.DeepCopy()
	changed.Spec.Listeners[0].Hostname = new(gatewayv1.Hostname("*.test"))
	live := &readsOf{Reader: storingHosts(t, append(slices.Clone(objects), changed, namespaceOf("shop", "web"))...), gets: map[string]int{}}
	look := v.Hosts.Look(live)
	for _, of := range []struct {
		names, paths bool
		kinds        int
	}{{false, true, 1}, {true, false, 4}, {true, true, 4}} {
		live.lists = nil
		stored, err := look.In(t.Context(), "shop", of.names, of.paths)
		if err != nil || len(live.lists) != of.kinds {
			t.Fatalf("%+v: %v is listed, %v", of, live.lists, err)
		}
		if of.paths != (len(stored.Paths) == 5) || of.names != stored.Hosts["a.test"] || len(stored.Versions) != 10 {
			t.Errorf("%+v: %v", of, stored)
		}
	}
	for what, n := range live.gets {
		if n != 1 {
			t.Errorf("%s is read %d times", what, n)
		}
	}
	if len(live.gets) != 4 {
		t.Errorf("%v is read", live.gets)
	}
	live.missing = "Gateway"
	if stored, err := v.Hosts.Look(live).In(t.Context(), "shop", true, true); err != nil || len(stored.Paths) > 0 {
		t.Errorf("without Gateways: %v, %v", stored.Paths, err)
	}
}

// TestLargeSelectors has a ListenerSet with listeners for namespaces that a selector selects: one that is larger than what the cache keeps
// lets nobody attach, however it is read.
func TestLargeSelectors(t *testing.T) {
	for size, want := range map[int]int{100: 1, 300: 0} {
		var none []string // which no namespace is
		for i := range size / 50 {
			none = append(none, fmt.Sprintf("%050d", i))
		}
		door := entry(gatewayv1.HTTPProtocolType, 90, "set.test")
		door.AllowedRoutes = &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{
			From: new(gatewayv1.NamespacesFromSelector), Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "is", Operator: metav1.LabelSelectorOpNotIn, Values: none},
			}},
		}}
		onSet := gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{
			{Kind: new(gatewayv1.Kind("ListenerSet")), Namespace: new(gatewayv1.Namespace("shop")), Name: "doors"},
		}}
		route := pathRoute("blog/set", onSet, nil, "/set")
		set := setIn("shop", "doors", time.Hour, door)
		gateway := public(gatewayv1.NamespacesFromAll)
		others := []client.Object{gateway, namespaceOf("shop", "web"), namespaceOf("blog", "web"), route}
		objects := append(slices.Clone(others), set)
		actions := guard.Actions{guard.HTTPRoute: guard.Deny}
		live, v := storingHosts(t, objects...), viewOfHosts(t, actions, objects...) // which keeps no more of them than it does
		cached, err := v.Hosts.PathsIn(t.Context(), "blog")
		stored, errStored := v.Hosts.Look(live).In(t.Context(), "blog", true, true)
		if err != nil || errStored != nil || len(cached) != want || !maps.Equal(cached, stored.Paths) || len(stored.Hosts) != want {
			t.Errorf("%d bytes: the cache has %v (%v), the API server %v (%v)", size, cached, err, stored, errStored)
		}
		lags := viewOfHosts(t, actions, others...) // whose cache does not show the set yet
		lags.tenants = live
		served, err := lags.Hosts.ServedNow(t.Context(), labels.Set{"team": "web"}, route)
		if err != nil || len(served) != 1 || served[0].Total() != want {
			t.Errorf("%d bytes: at admission it serves %v, %v", size, served, err)
		}
		slimmed := &gatewayv1.ListenerSet{}
		if err := (SlimReader{live}).Get(t.Context(), client.ObjectKeyFromObject(set), slimmed); err != nil ||
			(*slimmed.Spec.Listeners[0].AllowedRoutes.Namespaces.From == gatewayv1.NamespacesFromNone) != (want == 0) {
			t.Errorf("%d bytes: past the cache, %v, %v", size, slimmed.Spec.Listeners, err)
		}
	}
}

// TestIsSameRoute tells changes of what a route serves from others.
func TestIsSameRoute(t *testing.T) {
	hosts := []gatewayv1.Hostname{"a.test"}
	web := pathRoute("shop/web", onGateway("any"), hosts, "/login")
	web.Generation = 1
	for name, tc := range map[string]struct {
		now  client.Object
		same bool
	}{
		"something else":  {pathRoute("shop/web", onGateway("any"), hosts, "/login", "/login/"), true},
		"another path":    {pathRoute("shop/web", onGateway("any"), hosts, "/logout"), false},
		"another host":    {pathRoute("shop/web", onGateway("any"), nil, "/login"), false},
		"another parent":  {pathRoute("shop/web", onGateway("other"), hosts, "/login"), false},
		"of another kind": {&gatewayv1.GRPCRoute{ObjectMeta: annotatedMeta("shop/web")}, false},
	} {
		before, _ := slim(web.DeepCopy())
		now, _ := slim(tc.now)
		now.(client.Object).SetGeneration(2)
		if got := IsSameRoute(before.(client.Object), now.(client.Object)); got != tc.same {
			t.Errorf("%s: it is the same: %v", name, got)
		}
	}
	anew := web.DeepCopy()
	if anew.UID = "anew"; IsSameRoute(web, anew) {
		t.Error("one that was deleted and made anew is taken for the same")
	}
	for _, obj := range []client.Object{&gatewayv1.GRPCRoute{}, &gatewayv1.TLSRoute{}, &gatewayv1.TCPRoute{}} {
		now := obj.DeepCopyObject().(client.Object)
		if !IsSameRoute(obj, now) {
			t.Errorf("%T is not itself", obj)
		}
		now.SetGeneration(2)
		if _, streams := obj.(*gatewayv1.TCPRoute); IsSameRoute(obj, now) == streams {
			t.Errorf("a change of %T is taken for another", obj)
		}
	}
}
