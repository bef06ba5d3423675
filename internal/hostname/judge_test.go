package hostname

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/guard"
)

func TestJudge(t *testing.T) {
	policies := []*v1beta1.HostPolicy{
		policy("own", 1, []string{"*.own.test"}, owns), policy("shop", 2, []string{"*.shop.own.test"}, owns, forTeam("shop")),
		policy("shared", 3, []string{"*.shared.test"}, forTeam("blog")), policy("few", 4, []string{"*.few.test"}, owns, atMost(2)),
	}
	many := make([]string, MostNames+1)
	for i := range many {
		many[i] = fmt.Sprintf("h%d.own.test", i)
	}
	for name, tc := range map[string]struct {
		claims  []*v1beta1.EdgeClaim
		request Request
		users   []User
		// refused is the reason, the field and some of the words, by semicolons, empty where nothing is wrong.
		refused string
		// points are the names that the namespace has to have.
		points string
	}{
		"a free name":                 {request: Request{User: using("shop", 0, "a.own.test")}, points: "a.own.test"},
		"a name of no policy":         {request: Request{User: using("shop", 0, "a.free.test", "")}},
		"a name of its own namespace": {claims: []*v1beta1.EdgeClaim{held("a.own.test", "shop")}, request: Request{User: using("shop", 0, "a.own.test")}, points: "a.own.test"},
		"a name of another": {claims: []*v1beta1.EdgeClaim{held("a.own.test", "blog")}, users: []User{using("blog", 0, "a.own.test")},
			request: Request{User: using("shop", 0, "b.own.test", "a.own.test")},
			refused: "HostConflict;spec.rules[1].host;held by Namespace blog since 2026-11-01;by HostPolicy own a name is one namespace's;use a name that nobody has", points: "b.own.test a.own.test"},
		"a name that another no longer uses": {claims: []*v1beta1.EdgeClaim{held("a.own.test", "blog")}, request: Request{User: using("shop", 0, "a.own.test")},
			refused: "HostConflict;spec.rules[0].host;held for Namespace blog, which is not stored or no longer asks for it; it is free again", points: "a.own.test"},
		"a name that it had before": {claims: []*v1beta1.EdgeClaim{held("a.own.test", "blog")},
			request: Request{User: using("shop", 0, "a.own.test", "b.own.test"), Before: using("shop", 0, "a.own.test").Names}, points: "b.own.test"},
		"the same name twice": {request: Request{User: using("shop", 0, "a.own.test", "a.own.test")}, points: "a.own.test"},
		"a wildcard above names of another": {claims: []*v1beta1.EdgeClaim{held("a.own.test", "blog")}, users: []User{using("blog", 0, "a.own.test")},
			request: Request{User: using("shop", 0, "*.own.test")}, refused: "HostConflict;spec.rules[0].host;a.own.test, which overlaps, is held by Namespace blog", points: "*.own.test"},
		"a name below a wildcard of another": {claims: []*v1beta1.EdgeClaim{held("*.own.test", "blog")}, users: []User{using("blog", 0, "*.own.test")},
			request: Request{User: using("shop", 0, "a.b.own.test")}, refused: "HostConflict;spec.rules[0].host;*.own.test, which overlaps, is held by Namespace blog", points: "a.b.own.test"},
		"a name of another policy below a wildcard": {claims: []*v1beta1.EdgeClaim{held("*.own.test", "blog")},
			request: Request{User: using("shop", 0, "a.shop.own.test")}, points: "a.shop.own.test"},
		"a namespace that is not selected": {request: Request{User: using("blog", 0, "a.shop.own.test")},
			refused: `HostNotAllowed;spec.rules[0].host;HostPolicy shop gives this name to other namespaces than "blog" (spec.namespaceSelector)`},
		"a shared name": {request: Request{User: using("blog", 0, "a.shared.test")}},
		"a shared name of others": {request: Request{User: using("shop", 0, "a.shared.test")},
			refused: "HostNotAllowed;spec.rules[0].host;HostPolicy shared gives this name to other namespaces"},
		"a share that is full": {claims: []*v1beta1.EdgeClaim{held("a.few.test", "shop"), held("b.few.test", "shop"), held("c.few.test", "blog")},
			request: Request{User: using("shop", 0, "d.few.test")},
			refused: `NamespaceLimitReached;spec.rules[0].host;HostPolicy few gives at most 2 name(s) to one namespace (spec.maxPerNamespace), and namespace "shop" has 2`, points: "d.few.test"},
		"names of a share that it has": {claims: []*v1beta1.EdgeClaim{held("a.few.test", "shop"), held("b.few.test", "shop")},
			request: Request{User: using("shop", 0, "a.few.test", "b.few.test")}, points: "a.few.test b.few.test"},
		"more than a share at once": {request: Request{User: using("shop", 0, "a.few.test", "b.few.test", "c.few.test")},
			refused: "NamespaceLimitReached;spec.rules[2].host;has 0", points: "a.few.test b.few.test c.few.test"},
		"more names than an object may ask for": {request: Request{User: using("shop", 0, many...)},
			refused: "TooManyPoints;spec.rules[0].host;at most 128 host names at a time", points: strings.Join(many, " ")},
		"an object that is being deleted": {request: Request{User: leaving(using("shop", 0, "a.own.test"))},
			refused: "BeingDeleted;spec.rules[0].host;the object is being deleted", points: "a.own.test"},
		"what is no DNS name": {request: Request{User: using("shop", 0, "_sip._tcp.own.test")}, refused: "HostNotAllowed;spec.rules[0].host;can't be the name of a namespace"},
		"a name of very many labels": {request: Request{User: using("shop", 0, strings.Repeat("a.", 15)+"own.test")},
			refused: "HostNotAllowed;spec.rules[0].host;want a DNS name of at most 16 labels"},
		"names of a full share that it has, and no other": {claims: []*v1beta1.EdgeClaim{held("a.few.test", "shop"), held("b.few.test", "shop"), held("c.few.test", "shop")},
			users: []User{using("shop", 0, "c.few.test")}, request: Request{User: using("shop", 0, "c.few.test")}, points: "c.few.test"},
		"a name that is served for it, of a policy that does not select it": {
			request: Request{User: using("blog", 0, "a.shop.own.test"), Serving: using("blog", 0, "a.shop.own.test").Names}, points: "a.shop.own.test"},
		"a name that is served for it, which another has": {claims: []*v1beta1.EdgeClaim{held("a.own.test", "blog")}, users: []User{using("blog", 0, "a.own.test")},
			request: Request{User: using("shop", 0, "a.own.test"), Serving: using("shop", 0, "a.own.test").Names}, refused: "HostConflict;spec.rules[0].host;held by Namespace blog", points: "a.own.test"},
		"a name that it had for the DNS alone": {claims: []*v1beta1.EdgeClaim{held("a.own.test", "blog")}, users: []User{using("blog", 0, "a.own.test")},
			request: Request{User: using("shop", 0, "a.own.test"), Before: []Name{read("a.own.test", field.NewPath("x"), guard.ExternalDNS)}},
			refused: "HostConflict;spec.rules[0].host;held by Namespace blog", points: "a.own.test"},
		"a regular expression": {request: Request{User: using("shop", 0, `~^a\.own\.test$`)}, refused: "HostNotAllowed;spec.rules[0].host;is a regular expression"},
	} {
		t.Run(name, func(t *testing.T) {
			v := Judge(&fakeFacts{book: NewBook(policies), claims: tc.claims, users: tc.users}, &tc.request, noGrace)
			var points []string
			for _, at := range v.Points {
				points = append(points, at.Host())
			}
			mustBe(t, "points", strings.Join(points, " "), tc.points)
			mustSay(t, v, tc.refused)
		})
	}
	mustBe(t, "without policies a regular expression passes",
		len(Judge(&fakeFacts{book: NewBook(nil)}, &Request{User: using("shop", 0, "~^a$")}, noGrace).Problems), 0)
}

func mustSay(t *testing.T, v Verdict, want string) {
	t.Helper()
	if want == "" || len(v.Problems) == 0 {
		if want != "" || len(v.Problems) > 0 {
			t.Errorf("problems %v, want %q", v.Problems, want)
		}
		return
	}
	p, parts := v.Problems[0], strings.Split(want, ";")
	mustBe(t, "reason", p.Reason, parts[0])
	mustBe(t, "field", p.Err.Field, parts[1])
	rest := p.Err.Detail
	for _, words := range strings.Split(strings.TrimPrefix(want, parts[0]+";"+parts[1]+";"), ";") {
		_, after, found := strings.Cut(rest, words)
		if !found {
			t.Errorf("%q does not say %q", rest, words)
		}
		rest = after
	}
}

func TestConflictIsToldWhereItIsAskedFor(t *testing.T) {
	request := &Request{User: using("shop", 0, "a.own.test", "b.own.test")}
	f := &fakeFacts{book: NewBook([]*v1beta1.HostPolicy{policy("own", 1, []string{"*.own.test"}, owns)})}
	problems := Conflict(f, request, claim.Hostname("b.own.test"), held("*.own.test", "blog"), noGrace)
	mustBe(t, "field", problems[0].Err.Field, "spec.rules[1].host")
	mustBe(t, "the policy that refuses", Refusing(f.book, request, problems).Name, "own")
	mustBe(t, "a policy that refuses nothing", Refusing(NewBook(nil), request, problems), nil)
}

// TestOfManyHosts has a route say more names than the cache keeps: of those that it keeps nothing else is known.
func TestOfManyHosts(t *testing.T) {
	route := &gatewayv1.TLSRoute{}
	for i := range guard.MostRoutePoints + 1 {
		route.Spec.Hostnames = append(route.Spec.Hostnames, gatewayv1.Hostname(fmt.Sprintf("h%d.own.test", i)))
	}
	all, _ := Of(route, exposure.Defaults{})
	mustBe(t, "what is wrong", all.Names[guard.MostRoutePoints].Flaw, "has more than 128 hosts")
	route.Spec.Hostnames = route.Spec.Hostnames[:guard.MostRoutePoints]
	kept, _ := Of(route, exposure.Defaults{})
	mustBe(t, "names that are kept", len(kept.Names), guard.MostRoutePoints)
	mustBe(t, "the last of them", kept.Names[guard.MostRoutePoints-1].Host, "h127.own.test")
}

// TestLimitCountsWhatIsClaimed has two requests claim the last name at a time: once both have, each sees that they are too many.
func TestLimitCountsWhatIsClaimed(t *testing.T) {
	f := &fakeFacts{book: NewBook([]*v1beta1.HostPolicy{policy("few", 1, []string{"*.few.test"}, owns, atMost(2))})}
	request := &Request{User: using("shop", 0, "b.few.test")}
	f.claims = []*v1beta1.EdgeClaim{held("a.few.test", "shop")}
	fresh := Judge(f, request, noGrace).Fresh
	mustBe(t, "names that it does not have", len(fresh), 1)
	f.claims = append(f.claims, held("b.few.test", "shop"))
	mustBe(t, "problems once it has two", len(Limit(f, request, fresh)), 0)
	f.claims = append(f.claims, held("c.few.test", "shop"))
	mustSay(t, Verdict{Problems: Limit(f, request, fresh)}, `NamespaceLimitReached;spec.rules[0].host;namespace "shop" has 2`)
	mustBe(t, "names that it does not have while they are only promised", len(Judge(f, request, noGrace).Fresh), 1)
	f.users = []User{using("shop", 0, "b.few.test")}
	mustBe(t, "names that it does not have once it uses them", len(Judge(f, request, noGrace).Fresh), 0)
}

func TestSettle(t *testing.T) {
	policies := []*v1beta1.HostPolicy{policy("own", 1, []string{"*.own.test"}, owns), policy("shared", 3, []string{"*.shared.test"}),
		policy("shop", 4, []string{"*.shop.test"}, owns, forTeam("shop")), policy("few", 5, []string{"*.few.test"}, owns, atMost(1))}
	for name, tc := range map[string]struct {
		host   string
		claims []*v1beta1.EdgeClaim
		users  []User
		enter  string
		lost   []string
		waits  bool
	}{
		"nobody": {host: "a.own.test"},
		"the oldest of three": {host: "a.own.test", users: []User{using("c", 3, "a.own.test"), using("a", 1, "b.own.test", "a.own.test"), using("b", 2, "a.own.test")},
			enter: "a", lost: []string{"b: spec.rules[0].host: a.own.test is held by Namespace a", "c: spec.rules[0].host: a.own.test is held by Namespace a"}},
		"one namespace twice": {host: "a.own.test", users: []User{using("a", 2, "a.own.test"), using("a", 1, "a.own.test")}, enter: "a"},
		"a claim stays": {host: "a.own.test", claims: []*v1beta1.EdgeClaim{held("a.own.test", "b")}, users: []User{using("a", 1, "a.own.test"), using("b", 2, "a.own.test")},
			lost: []string{"a: spec.rules[0].host: a.own.test is held by Namespace b since 2026-11-01T12:00:00Z"}},
		"a claim that nobody uses":    {host: "a.own.test", claims: []*v1beta1.EdgeClaim{held("a.own.test", "b")}, users: []User{using("a", 1, "a.own.test")}, waits: true},
		"a wildcard that nobody uses": {host: "a.own.test", claims: []*v1beta1.EdgeClaim{held("*.own.test", "b")}, users: []User{using("a", 1, "a.own.test")}, waits: true},
		"a wildcard of another": {host: "a.own.test", claims: []*v1beta1.EdgeClaim{held("*.own.test", "b")}, users: []User{using("a", 1, "a.own.test"), using("b", 2, "*.own.test")},
			lost: []string{"a: spec.rules[0].host: *.own.test is held by Namespace b since 2026-11-01T12:00:00Z"}},
		"a namespace that is not selected": {host: "a.shop.test", users: []User{using("a", 1, "a.shop.test"), using("shop", 2, "a.shop.test")},
			enter: "shop", lost: []string{"a: spec.rules[0].host: a.shop.test is held by Namespace shop"}},
		"nobody who is selected": {host: "a.shop.test", users: []User{using("a", 1, "a.shop.test")}},
		"a namespace whose share is full": {host: "b.few.test", claims: []*v1beta1.EdgeClaim{held("a.few.test", "a")},
			users: []User{using("a", 1, "a.few.test", "b.few.test"), using("b", 2, "b.few.test")}, enter: "b", lost: []string{"a: spec.rules[1].host: b.few.test is held by Namespace b"}},
		"a shared name": {host: "a.shared.test", users: []User{using("a", 1, "a.shared.test"), using("b", 2, "a.shared.test")}},
		"no name":       {host: "_x.own.test", users: []User{using("a", 1, "_x.own.test")}},
	} {
		t.Run(name, func(t *testing.T) {
			s := Settle(&fakeFacts{book: NewBook(policies), claims: tc.claims, users: tc.users}, tc.host)
			entered := ""
			if s.Enter != nil {
				entered = s.Enter.By.Name
				mustBe(t, "what is entered", s.Enter.At, claim.Hostname(tc.host))
				mustBe(t, "by the version", s.Enter.By.Generation, 7)
			}
			mustBe(t, "waits", s.Waits, tc.waits)
			mustBe(t, "entered for", entered, tc.enter)
			var told []string
			for _, l := range s.Lost {
				told = append(told, l.User.Namespace+": "+l.String())
			}
			if diff := cmp.Diff(tc.lost, told); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRead(t *testing.T) {
	for text, want := range map[string]string{
		"shop.example.com": "shop.example.com", "Shop.Example.COM.": "shop.example.com", "a. b": "a.b", "*.Example.com": "*.example.com", "ＳＨＯＰ.example.com": "shop.example.com",
		"bücher.example.com": "xn--bcher-kva.example.com", "BÜCHER.example.com": "xn--bcher-kva.example.com", "_sip._tcp.example.com": "_sip._tcp.example.com",
		"~^a": "", "": "", ".": "",
	} {
		mustBe(t, text, read(text, field.NewPath("x"), guard.Ingress).Host, want)
	}
}

// TestOf reads what uses names.
func TestOf(t *testing.T) {
	many := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "many"}}
	for i := range exposure.MostEntries + 1 {
		many.Spec.Rules = append(many.Spec.Rules, networkingv1.IngressRule{Host: fmt.Sprintf("h%d.test", i)})
	}
	named := func(annotation, value string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{annotation: value}}
	}
	long := strings.Repeat("a.test,", MaxAnnotation/7+1)
	for name, tc := range map[string]struct {
		obj  metav1.Object
		want string
	}{
		"aliases":                     {&networkingv1.Ingress{ObjectMeta: named(v1beta1.AnnotationServerAlias, "a.test, .b.test,c.*")}, "a.test b.test *.b.test !is a name of any suffix"},
		"an annotation that is long":  {&corev1.Service{ObjectMeta: named(v1beta1.AnnotationExternalDNS, long)}, "!is longer than 1024 bytes"},
		"a Service that asks":         {&corev1.Service{ObjectMeta: named(v1beta1.AnnotationHTTP, "host=a.test, host=b.test")}, "a.test b.test"},
		"an annotation that is wrong": {&corev1.Service{ObjectMeta: named(v1beta1.AnnotationHTTP, "host=a.test,,")}, ""},
		"a route":                     {&gatewayv1.HTTPRoute{Spec: gatewayv1.HTTPRouteSpec{Hostnames: []gatewayv1.Hostname{"a.test", "*.b.test"}}}, "a.test *.b.test"},
	} {
		u, ok := Of(tc.obj, exposure.Defaults{})
		var names []string
		for _, n := range u.Names {
			if n.Flaw != "" {
				names = append(names, "!"+n.Flaw)
			} else {
				names = append(names, n.Host)
			}
		}
		if got := strings.Join(names, " "); !ok || got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	if _, ok := Of(&corev1.Pod{}, exposure.Defaults{}); ok {
		t.Error("a Pod uses names")
	}
	u, _ := Of(many, exposure.Defaults{})
	last := u.Names[len(u.Names)-1]
	mustBe(t, "many hosts", last.Flaw, "has more than 1024 hosts")
	many.Spec.Rules[7].Host = "other.test"
	again, _ := Of(many, exposure.Defaults{})
	if key(again.Names[len(again.Names)-1]) == key(last) {
		t.Error("other hosts are taken for the same")
	}
}

func TestInherit(t *testing.T) {
	for name, tc := range map[string]struct {
		kind      guard.Kind
		own       []gatewayv1.Hostname
		inherits  bool
		listeners []string
		want      string
	}{
		"no names":             {guard.HTTPRoute, nil, true, []string{"a.test", "*.b.test"}, "a.test *.b.test"},
		"a name":               {guard.HTTPRoute, []gatewayv1.Hostname{"a.test"}, false, nil, "a.test"},
		"a wildcard":           {guard.GRPCRoute, []gatewayv1.Hostname{"*.test"}, true, []string{"a.test", "x.b.test", "*.c.test", "other.net", "*.test"}, "*.test a.test x.b.test *.c.test"},
		"routes without names": {guard.TCPRoute, nil, false, nil, ""},
	} {
		u := User{}
		u.route(tc.kind, &metav1.ObjectMeta{Namespace: "shop", Name: "web"}, tc.own)
		mustBe(t, name+" inherits", u.Inherits(tc.kind), tc.inherits)
		var hosts []guard.InheritedHost
		for _, host := range tc.listeners {
			hosts = append(hosts, guard.InheritedHost{Name: host, Path: field.NewPath("spec", "parentRefs").Index(0)})
		}
		u.Inherit(tc.kind, hosts)
		var names []string
		for _, n := range u.Names {
			names = append(names, n.Host)
		}
		mustBe(t, name, strings.Join(names, " "), tc.want)
	}
}

// FuzzRead has host names read, whatever stands in an annotation, and looked up.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{"a.own.test", "*.own.test", "~x", "a..b", "xn--", "ü.own.test", "\x00", "*.", "a b, c", strings.Repeat("a.", 200)} {
		f.Add(seed)
	}
	book := NewBook([]*v1beta1.HostPolicy{policy("own", 1, []string{"*.own.test"}, owns, atMost(1))})
	f.Fuzz(func(t *testing.T, text string) {
		n := read(text, field.NewPath("x"), guard.ExternalDNS)
		if again := read(n.Host, n.Path, n.Kind); n.Flaw == "" && again.Flaw == "" && again.Host != n.Host {
			t.Errorf("%q is %q, and that is %q", text, n.Host, again.Host)
		}
		r := &Request{User: User{Holder: claim.ServiceHolder("shop", "web"), Names: []Name{n}}}
		v := Judge(&fakeFacts{book: book}, r, noGrace)
		for _, at := range v.Points {
			if at.Name() == "" || at.Host() != n.Host {
				t.Errorf("%q asks for %v", text, at)
			}
		}
	})
}
