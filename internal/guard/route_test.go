package guard

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// doorway is a Gateway with listeners for routes.
func doorway() *gatewayv1.Gateway {
	from := func(which gatewayv1.FromNamespaces) *gatewayv1.AllowedRoutes {
		return &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: &which}}
	}
	selected := from(gatewayv1.NamespacesFromSelector)
	selected.Namespaces.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}}
	udpOnly := from(gatewayv1.NamespacesFromAll)
	udpOnly.Kinds = []gatewayv1.RouteGroupKind{{Kind: "UDPRoute"}}
	g := &gatewayv1.Gateway{}
	g.Namespace, g.Name = "edge", "public"
	g.Spec.Listeners = []gatewayv1.Listener{
		{Name: "all", Port: 1, Protocol: gatewayv1.TCPProtocolType, AllowedRoutes: from(gatewayv1.NamespacesFromAll)},
		{Name: "own", Port: 2, Protocol: gatewayv1.TCPProtocolType},
		{Name: "some", Port: 3, Protocol: gatewayv1.TCPProtocolType, AllowedRoutes: selected},
		{Name: "none", Port: 4, Protocol: gatewayv1.TCPProtocolType, AllowedRoutes: from(gatewayv1.NamespacesFromNone)},
		{Name: "other", Port: 5, Protocol: gatewayv1.TCPProtocolType, AllowedRoutes: udpOnly},
		{Name: "dns", Port: 1, Protocol: gatewayv1.UDPProtocolType, AllowedRoutes: udpOnly},
		{Name: "tls", Port: 6, Protocol: gatewayv1.TLSProtocolType, Hostname: ptr.To(gatewayv1.Hostname("*.example.com")), AllowedRoutes: from(gatewayv1.NamespacesFromAll)},
		{Name: "sni", Port: 7, Protocol: gatewayv1.TLSProtocolType, AllowedRoutes: from(gatewayv1.NamespacesFromAll)},
		{Name: "web", Port: 8, Protocol: gatewayv1.HTTPProtocolType, AllowedRoutes: from(gatewayv1.NamespacesFromAll)},
	}
	return g
}

// refTo is a reference to a listener of the Gateway, to all for "".
func refTo(listener gatewayv1.SectionName) gatewayv1.ParentReference {
	ref := gatewayv1.ParentReference{Namespace: ptr.To(gatewayv1.Namespace("edge")), Name: "public"}
	if listener != "" {
		ref.SectionName = &listener
	}
	return ref
}

func route(kind Kind, namespace, name string, refs ...gatewayv1.ParentReference) Route {
	return Route{Kind: kind, Parents: refs, Claimant: claim.Claimant{Holder: claim.RouteHolder(string(kind), namespace, name), UID: "u"}}
}

// TestPlaces has routes on listeners.
func TestPlaces(t *testing.T) {
	tls := func(listener gatewayv1.SectionName, hosts ...gatewayv1.Hostname) Route {
		r := route(TLSRoute, "shop", "web", refTo(listener))
		r.Hosts = hosts
		return r
	}
	at, elsewhere, foreign := refTo(""), refTo("all"), refTo("all")
	at.Port, elsewhere.Name, foreign.Kind = ptr.To(gatewayv1.PortNumber(3)), "private", ptr.To(gatewayv1.Kind("Service"))
	for name, tc := range map[string]struct {
		route Route
		has   labels.Set
		want  []string
	}{
		"a listener":              {route(TCPRoute, "shop", "web", refTo("all")), nil, []string{"all TCP spec.parentRefs[0]"}},
		"one that is not there":   {route(TCPRoute, "shop", "web", refTo("gone")), nil, nil},
		"another Gateway":         {route(TCPRoute, "shop", "web", elsewhere), nil, nil},
		"another kind":            {route(TCPRoute, "shop", "web", foreign), nil, nil},
		"all of them":             {route(TCPRoute, "shop", "web", refTo("")), nil, []string{"all TCP spec.parentRefs[0]", "tls TCP spec.parentRefs[0]", "sni TCP spec.parentRefs[0]"}},
		"by a label":              {route(TCPRoute, "shop", "web", refTo("some")), labels.Set{"team": "shop"}, []string{"some TCP spec.parentRefs[0]"}},
		"without the label":       {route(TCPRoute, "shop", "web", refTo("some")), labels.Set{"team": "other"}, nil},
		"by a port":               {route(TCPRoute, "shop", "web", at), labels.Set{"team": "shop"}, []string{"some TCP spec.parentRefs[0]"}},
		"one's own namespace":     {route(TCPRoute, "edge", "web", refTo("own")), nil, []string{"own TCP spec.parentRefs[0]"}},
		"another's namespace":     {route(TCPRoute, "shop", "web", refTo("own")), nil, nil},
		"nobody":                  {route(TCPRoute, "edge", "web", refTo("none")), nil, nil},
		"a kind that is not let":  {route(TCPRoute, "shop", "web", refTo("other")), nil, nil},
		"UDP":                     {route(UDPRoute, "shop", "web", refTo("")), nil, []string{"dns UDP spec.parentRefs[0]"}},
		"the same twice":          {route(TCPRoute, "shop", "web", refTo("all"), refTo("all")), nil, []string{"all TCP spec.parentRefs[0]"}},
		"a host":                  {tls("tls", "b.example.org", "a.example.com"), nil, []string{"tls TLS/a.example.com spec.hostnames[1]"}},
		"a deeper host":           {tls("tls", "a.b.example.com"), nil, []string{"tls TLS/a.b.example.com spec.hostnames[0]"}},
		"the domain itself":       {tls("tls", "example.com"), nil, nil},
		"a wider wildcard":        {tls("tls", "*.com"), nil, []string{"tls TLS/*.example.com spec.hostnames[0]"}},
		"a narrower one":          {tls("tls", "*.a.example.com"), nil, []string{"tls TLS/*.a.example.com spec.hostnames[0]"}},
		"no host":                 {tls("tls"), nil, []string{"tls TLS/*.example.com spec.parentRefs[0]"}},
		"no host, and none there": {tls("sni"), nil, []string{"sni TLS/* spec.parentRefs[0]"}},
		"a host, and none there":  {tls("sni", "a.example.com"), nil, []string{"sni TLS/a.example.com spec.hostnames[0]"}},
		"what is no host":         {tls("sni", "a_b"), nil, nil},
	} {
		var got []string
		for _, p := range tc.route.Places(ParentOfGateway(doorway()), tc.has) {
			got = append(got, p.At.Section().Listener+" "+p.At.Point()+" "+p.Path.String())
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// routeFacts are RouteFacts that are written down here.
type routeFacts struct {
	claims map[string]*v1beta1.EdgeClaim
	routes map[claim.Coordinate][]Route
}

func (f *routeFacts) Claim(name string) *v1beta1.EdgeClaim { return f.claims[name] }
func (f *routeFacts) HandsOver(from, to claim.Holder) bool {
	for _, routes := range f.routes {
		for _, r := range routes {
			if r.Holder == from && r.Heir == to.Key() {
				return true
			}
		}
	}
	return false
}

func (f *routeFacts) RoutesAt(at claim.Coordinate) []Route { return f.routes[at] }
func (f *routeFacts) add(at claim.Coordinate, by claim.Claimant) {
	f.claims[at.Name()] = heldSince(at, by)
}

func heldSince(at claim.Coordinate, by claim.Claimant) *v1beta1.EdgeClaim {
	c := claim.New(at, by)
	c.CreationTimestamp = metav1.NewTime(since)
	return c
}

// TestJudgeRoute refuses what somebody else has.
func TestJudgeRoute(t *testing.T) {
	on := claim.Route(claim.Section{Kind: "Gateway", Namespace: "edge", Name: "public", Listener: "all"}, v1beta1.TCP)
	door := claim.Stream("edge", v1beta1.TCP, 5000)
	other, mine := route(TCPRoute, "rival", "web"), route(TCPRoute, "shop", "web", refTo("all"))
	naming := func(r Route, namespace, name string) Route {
		r.Heir = types.NamespacedName{Namespace: namespace, Name: name}
		return r
	}
	const way = "; or have its holder hand it over, by the annotation nginx-stream.jeffthecoder.xyz/hand-over-to: shop/web"
	const held = `spec.parentRefs[0]: Duplicate value: "TCP": held by TCPRoute rival/web since 2026-07-01T12:00:00Z, on listener all of Gateway edge/public; it serves one route: choose another listener, or have all backends in that one` + way
	place := mine.Places(ParentOfGateway(doorway()), nil)
	ofStream := []Place{{Stream: door, Path: place[0].Path}}
	grace := func(*v1beta1.EdgeClaim) time.Duration { return time.Minute }
	for name, tc := range map[string]struct {
		prepare func(*routeFacts, *RouteRequest)
		want    string
	}{
		"free":             {func(*routeFacts, *RouteRequest) {}, ""},
		"one's own claim":  {func(f *routeFacts, r *RouteRequest) { f.add(on, r.Claimant) }, ""},
		"somebody's claim": {func(f *routeFacts, _ *RouteRequest) { f.add(on, other.Claimant); f.routes[on] = []Route{other} }, held},
		"one that is handed over": {func(f *routeFacts, _ *RouteRequest) {
			f.add(on, other.Claimant)
			f.routes[on] = []Route{naming(other, "shop", "web")}
		}, ""},
		"one that is to be another's": {func(f *routeFacts, _ *RouteRequest) {
			f.add(on, other.Claimant)
			f.routes[on] = []Route{naming(other, "data", "web")}
		}, held},
		"one that hands over itself": {func(f *routeFacts, r *RouteRequest) {
			f.add(on, other.Claimant)
			f.routes[on], r.Route = []Route{naming(other, "shop", "web")}, naming(mine, "data", "web")
		}, held},
		"one that leaves": {func(f *routeFacts, _ *RouteRequest) { f.add(on, other.Claimant) }, `spec.parentRefs[0]: Duplicate value: "TCP": held for TCPRoute rival/web, which is not stored or no longer asks for it; it is free again in at most 1m0s, try again then, on listener all of Gateway edge/public; it serves one route: choose another listener, or have all backends in that one`},
		"one without a claim": {func(f *routeFacts, _ *RouteRequest) { f.routes[on] = []Route{mine, other} },
			`spec.parentRefs[0]: Duplicate value: "TCP": held by TCPRoute rival/web, on listener all of Gateway edge/public; it serves one route: choose another listener, or have all backends in that one` + way},
		"what stands":   {func(f *routeFacts, r *RouteRequest) { f.add(on, other.Claimant); r.Before = place }, ""},
		"being deleted": {func(_ *routeFacts, r *RouteRequest) { r.Deleting = true }, "spec.parentRefs[0]: Forbidden: the object is being deleted: until it is gone it keeps what it has, and it is given nothing more; create another one"},
		"a stream's": {func(f *routeFacts, r *RouteRequest) {
			r.Places = ofStream
			f.add(door, claim.Claimant{Holder: claim.StreamHolder("shop", "db")})
		}, `spec.parentRefs[0]: Duplicate value: "TCP/5000": held by StreamIngress shop/db since 2026-07-01T12:00:00Z, which has a route of its own, on the listener that Portcullis has made of StreamIngressClass "edge"; change the StreamIngress`},
		"one that was": {func(_ *routeFacts, r *RouteRequest) { r.Places = ofStream }, `spec.parentRefs[0]: Duplicate value: "TCP/5000": the listener is of a stream, which has a route of its own, on the listener that Portcullis has made of StreamIngressClass "edge"; change the StreamIngress`},
		"the stream's route": {func(_ *routeFacts, r *RouteRequest) {
			r.Places, r.Name = ofStream, v1beta1.StreamServiceName("edge", v1beta1.TCP, 5000)
		}, ""},
		"too much": {func(_ *routeFacts, r *RouteRequest) { r.Places = slices.Repeat(place, MostRoutePoints+1) }, "spec.parentRefs: Too many: 129: a route may ask for at most 128 listeners, or host names there, at a time: spread them over several routes"},
	} {
		f := &routeFacts{map[string]*v1beta1.EdgeClaim{}, map[claim.Coordinate][]Route{}}
		r := &RouteRequest{Route: mine, Places: place}
		tc.prepare(f, r)
		got := ""
		if problems := JudgeRoute(f, r, grace); len(problems) > 0 {
			got = problems[0].Err.Error()
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestSettleRoutes enters what stands, the older first, and tells who lost.
func TestSettleRoutes(t *testing.T) {
	on := claim.Route(claim.Section{Kind: "Gateway", Namespace: "edge", Name: "public", Listener: "all"}, v1beta1.TCP)
	older, younger := route(TCPRoute, "shop", "older", refTo("all")), route(TCPRoute, "rival", "younger", refTo("all"))
	older.Created, younger.Created = since, since.Add(time.Hour)
	for name, tc := range map[string]struct {
		prepare func(*routeFacts)
		enter   []claim.Entry
		lost    []string
	}{
		"nothing is claimed":  {func(*routeFacts) {}, []claim.Entry{{By: older.Claimant, At: on}}, []string{"rival/younger spec.parentRefs[0]: the listener is held by TCPRoute shop/older"}},
		"the younger has it":  {func(f *routeFacts) { f.add(on, younger.Claimant) }, nil, []string{"shop/older spec.parentRefs[0]: the listener is held by TCPRoute rival/younger since 2026-07-01T12:00:00Z"}},
		"one has it who left": {func(f *routeFacts) { f.add(on, route(TCPRoute, "shop", "gone").Claimant) }, nil, nil},
		"the older hands it over": {func(f *routeFacts) {
			f.add(on, older.Claimant)
			f.routes[on][0].Heir = younger.Key()
		}, []claim.Entry{{By: younger.Claimant, At: on}}, nil},
		"the older one has it": {func(f *routeFacts) { f.add(on, older.Claimant) }, nil, []string{"rival/younger spec.parentRefs[0]: the listener is held by TCPRoute shop/older since 2026-07-01T12:00:00Z"}},
	} {
		f := &routeFacts{map[string]*v1beta1.EdgeClaim{}, map[claim.Coordinate][]Route{on: {older, younger}}}
		tc.prepare(f)
		routes := []Route{younger, older}
		slices.SortFunc(routes, CompareRoutes)
		enter, lost := SettleRoutes(f, ParentOfGateway(doorway()), routes, func(string) labels.Set { return nil })
		var texts []string
		for _, l := range lost {
			texts = append(texts, l.Route.Key().String()+" "+l.String())
		}
		if diff := cmp.Diff(tc.lost, texts); diff != "" || !slices.Equal(enter, tc.enter) {
			t.Errorf("%s: enters %v, %s", name, enter, diff)
		}
	}
}
