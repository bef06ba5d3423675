package kube

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/hostname"
	"jeffthecoder.xyz/portcullis/test/memory"
)

// viewOfHosts is a view of a real cache, with kinds guarded.
func viewOfHosts(t *testing.T, guarded guard.Actions, objects ...client.Object) *View {
	t.Helper()
	s := scheme(t)
	if err := gatewayv1.Install(s); err != nil {
		t.Fatal(err)
	}
	c, err := memory.Cache(s, CacheOptions(), objects...)
	if err != nil {
		t.Fatal(err)
	}
	if err := AddIndexes(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := AddExposureIndexes(t.Context(), c, Exposing{}); err != nil {
		t.Fatal(err)
	}
	v, err := NewView(t.Context(), c, c)
	if err != nil {
		t.Fatal(err)
	}
	v.Gateways.IndexBy(c)
	v.Gateways.Guard(guarded)
	v.Hosts.Guarded = guarded
	if err := memory.Fill(t.Context(), c, v.Synced); err != nil {
		t.Fatal(err)
	}
	for err := v.Gateways.Read(t.Context()); err != nil; err = v.Gateways.Read(t.Context()) {
		if !IsUnread(err) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	return v
}

// storingHosts is what the API server has.
func storingHosts(t *testing.T, objects ...client.Object) client.Reader {
	t.Helper()
	s := scheme(t)
	if err := gatewayv1.Install(s); err != nil {
		t.Fatal(err)
	}
	b := fake.NewClientBuilder().WithScheme(s)
	for _, obj := range objects {
		b.WithObjects(obj.DeepCopyObject().(client.Object))
	}
	return b.Build()
}

func annotatedMeta(key string, annotations ...string) metav1.ObjectMeta {
	ns, name, _ := strings.Cut(key, "/")
	m := metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID("uid of " + key), ResourceVersion: "7"}
	for i := 0; i+1 < len(annotations); i += 2 {
		metav1.SetMetaDataAnnotation(&m, annotations[i], annotations[i+1])
	}
	return m
}

func ingressOf(key string, hosts ...string) *networkingv1.Ingress {
	ing := &networkingv1.Ingress{ObjectMeta: annotatedMeta(key)}
	for _, host := range hosts {
		ing.Spec.Rules = append(ing.Spec.Rules, networkingv1.IngressRule{Host: host})
	}
	return ing
}

func onGateway(names ...string) (spec gatewayv1.CommonRouteSpec) {
	for _, name := range names {
		spec.ParentRefs = append(spec.ParentRefs, gatewayv1.ParentReference{
			Namespace: new(gatewayv1.Namespace("edge")), Name: "public", SectionName: new(gatewayv1.SectionName(name)),
		})
	}
	return spec
}

func policyOf(name string, hosts ...string) *v1beta1.HostPolicy {
	p := &v1beta1.HostPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "7"}}
	p.Spec.Hosts, p.Spec.Sharing = hosts, v1beta1.ShareNamespace
	return p
}

func nameOf(host, namespace string) *v1beta1.EdgeClaim {
	c := claim.New(claim.Hostname(host), claim.Claimant{Holder: claim.NamespaceHolder(namespace)})
	c.ResourceVersion = "7"
	return c
}

// TestUsing finds objects by the host names that they use, as far as these are guarded.
func TestUsing(t *testing.T) {
	all := gatewayv1.NamespacesFromAll
	gateway := public(all, gatewayv1.Listener{
		Name: "named", Protocol: gatewayv1.HTTPProtocolType, Port: 80, Hostname: new(gatewayv1.Hostname("*.test")),
		AllowedRoutes: &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: &all}},
	}, gatewayv1.Listener{Name: "own", Protocol: gatewayv1.HTTPProtocolType, Port: 81, Hostname: new(gatewayv1.Hostname("own.test"))})
	objects := []client.Object{
		gateway, namespaceOf("shop", "web"), namespaceOf("blog", "web"), namespaceOf("edge", ""),
		ingressOf("shop/web", "a.test", "b.test", ""),
		&networkingv1.Ingress{ObjectMeta: annotatedMeta("shop/alias", v1beta1.AnnotationServerAlias, "c.test, ~^d", v1beta1.AnnotationExternalDNS, "e.test")},
		&corev1.Service{ObjectMeta: annotatedMeta("shop/asks", v1beta1.AnnotationHTTP, "host=a.test", v1beta1.AnnotationExternalDNS, "f.test")},
		&corev1.Service{ObjectMeta: annotatedMeta("shop/wrong", v1beta1.AnnotationHTTP, "host=a.test,")},
		&corev1.Service{ObjectMeta: annotatedMeta("blog/inside", v1beta1.AnnotationExternalDNSInternal, "F.test.")},
		&gatewayv1.HTTPRoute{ObjectMeta: annotatedMeta("blog/route"), Spec: gatewayv1.HTTPRouteSpec{Hostnames: []gatewayv1.Hostname{"a.test"}, CommonRouteSpec: onGateway("named")}},
		&gatewayv1.HTTPRoute{ObjectMeta: annotatedMeta("blog/both"), Spec: gatewayv1.HTTPRouteSpec{Hostnames: []gatewayv1.Hostname{"y.both.test", "*.both.test"}}},
		&gatewayv1.HTTPRoute{ObjectMeta: annotatedMeta("blog/inherits"), Spec: gatewayv1.HTTPRouteSpec{CommonRouteSpec: onGateway("named", "own")}},
		&gatewayv1.GRPCRoute{ObjectMeta: annotatedMeta("edge/own"), Spec: gatewayv1.GRPCRouteSpec{CommonRouteSpec: onGateway("own")}},
		&gatewayv1.GRPCRoute{ObjectMeta: annotatedMeta("blog/grpc"), Spec: gatewayv1.GRPCRouteSpec{Hostnames: []gatewayv1.Hostname{"g.test"}}},
	}
	every := guard.Actions{}
	for _, kind := range guard.Kinds() {
		every[kind] = guard.Deny
	}
	for name, tc := range map[string]struct {
		guarded guard.Actions
		want    map[string]string
	}{
		"all": {every, map[string]string{
			"a.test": "HTTPRoute blog/route, Ingress shop/web, Service shop/asks", "b.test": "Ingress shop/web", "c.test": "Ingress shop/alias",
			"e.test": "Ingress shop/alias", "f.test": "Service blog/inside, Service shop/asks", "g.test": "GRPCRoute blog/grpc",
			"*.test": "HTTPRoute blog/inherits", "own.test": "GRPCRoute edge/own", "": "", "x.test": "",
			"y.both.test": "HTTPRoute blog/both", // once, though it may have names of listeners, too
		}},
		"Ingresses alone": {guard.Actions{guard.Ingress: guard.Warn}, map[string]string{
			"a.test": "Ingress shop/web, Service shop/asks", "c.test": "Ingress shop/alias", "e.test": "", "f.test": "", "g.test": "", "*.test": "",
		}},
		"names for external-dns alone": {guard.Actions{guard.ExternalDNS: guard.Deny}, map[string]string{
			"a.test": "Service shop/asks", "c.test": "", "e.test": "Ingress shop/alias", "f.test": "Service blog/inside, Service shop/asks",
		}},
		"nothing": {nil, map[string]string{"a.test": "Service shop/asks", "b.test": "", "e.test": "", "g.test": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			v, live := viewOfHosts(t, tc.guarded, objects...), storingHosts(t, objects...)
			for host, want := range tc.want {
				users, err := v.Hosts.Using(t.Context(), host)
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, u := range users {
					got = append(got, u.String())
				}
				slices.Sort(got)
				if text := strings.Join(got, ", "); text != want {
					t.Errorf("%q is used by %s, want %s", host, text, want)
				}
			}
			hosts, err := v.Hosts.Judged(t.Context(), "")
			for host, want := range tc.want {
				if err != nil || host != "" && slices.Contains(hosts, host) != (want != "") {
					t.Errorf("judged are %v (%v), and %q is used by %q", hosts, err, host, want)
				}
			}
			for _, ns := range []string{"shop", "blog"} {
				stored, err := v.Hosts.Look(live).In(t.Context(), ns, true, false)
				if err != nil {
					t.Fatal(err)
				}
				for host, want := range tc.want {
					used, err := v.Hosts.UsedIn(t.Context(), ns, host)
					if err != nil || host != "" && used != stored.Hosts[host] {
						t.Errorf("%q in %s: the cache says %v (%v), the API server %v", host, ns, used, err, stored.Hosts[host])
					}
					if strings.Contains(want, " "+ns+"/") && !used {
						t.Errorf("%q is not used in %s, and yet by %s", host, ns, want)
					}
				}
			}
		})
	}
}

// TestServedIsUsed has an Ingress keep its names for its namespace, guarded or not.
func TestServedIsUsed(t *testing.T) {
	web := ingressOf("shop/web", "a.test")
	v, live := viewOfHosts(t, nil, web), storingHosts(t, web)
	for namespace, want := range map[string]bool{"shop": true, "blog": false} {
		used, err := v.Hosts.UsedIn(t.Context(), namespace, "a.test")
		stored, errStored := v.Hosts.Look(live).In(t.Context(), namespace, true, false)
		if err != nil || errStored != nil || used != want || stored.Hosts["a.test"] != want {
			t.Errorf("%s: %v, %v, by the API server %v, %v", namespace, used, err, stored.Hosts, errStored)
		}
	}
}

// TestIsStoredFor finds the object for which a namespace has a claim, also where it is not said which that is.
func TestIsStoredFor(t *testing.T) {
	v := viewOfHosts(t, guard.Actions{guard.HTTPRoute: guard.Deny}, ingressOf("shop/web", "a.test"), &gatewayv1.HTTPRoute{ObjectMeta: annotatedMeta("shop/route")})
	route, ingress := claim.RouteHolder("HTTPRoute", "shop", "route"), claim.IngressHolder("shop", "web")
	for name, tc := range map[string]struct {
		by   claim.Claimant
		want bool
	}{
		"a route":                 {claim.Claimant{For: route, UID: "uid of shop/route", Generation: 7}, true},
		"an older route":          {claim.Claimant{For: route, UID: "uid of shop/route", Generation: 8}, false},
		"another route":           {claim.Claimant{For: route, UID: "uid of shop/web"}, false},
		"an Ingress":              {claim.Claimant{For: ingress, UID: "uid of shop/web"}, true},
		"nobody knows which":      {claim.Claimant{UID: "uid of shop/route"}, true},
		"nor of which kind":       {claim.Claimant{UID: "uid of shop/web", Generation: 7}, true},
		"at a later version":      {claim.Claimant{UID: "uid of shop/web", Generation: 8}, false},
		"never stored":            {claim.Claimant{UID: "uid of shop/other"}, false},
		"in another namespace":    {claim.Claimant{Holder: claim.NamespaceHolder("blog"), UID: "uid of shop/route"}, false},
		"whose name is not known": {claim.Claimant{Holder: claim.NamespaceHolder(""), UID: "uid of shop/route"}, false},
	} {
		if tc.by.Holder == (claim.Holder{}) {
			tc.by.Holder = claim.NamespaceHolder("shop")
		}
		if got := v.Claims.shows(t.Context(), tc.by); got != tc.want || v.Claims.Stored(t.Context(), tc.by) != tc.want {
			t.Errorf("%s is stored: %v", name, got)
		}
	}
	// A change of what stands is promised: it may be in flight until it is seen. What is gone has nothing in flight.
	for by, want := range map[claim.Claimant]bool{
		{Holder: claim.NamespaceHolder("shop"), UID: "uid of shop/route"}:                true,
		{Holder: claim.NamespaceHolder("shop"), UID: "uid of shop/route", Generation: 7}: true,
		{Holder: claim.NamespaceHolder("shop"), UID: "uid of shop/route", Generation: 8}: false,
		{Holder: claim.NamespaceHolder("shop"), UID: "gone", Generation: 8}:              true,
		{Holder: ingress, UID: "uid of shop/web", Generation: 8}:                         true, // by its name alone
	} {
		v.Claims.departures.add("gone")
		if got := v.Claims.Seen(t.Context(), by); got != want {
			t.Errorf("%s at %d was seen: %v", by.UID, by.Generation, got)
		}
	}
}

// TestStoredLooks reads a namespace once for all that is asked of it at a time.
func TestStoredLooks(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC))
	l := newStoredLooks()
	l.clock = now
	reads := 0
	look := func(namespace string, fails error) (map[types.UID]int64, error) {
		return l.in(t.Context(), namespace, func() (map[types.UID]int64, error) {
			reads++
			return map[types.UID]int64{types.UID(namespace): int64(reads)}, fails
		})
	}
	for _, tc := range []struct {
		namespace string
		later     time.Duration
		fails     error
		reads     int
	}{
		{"shop", 0, nil, 1}, {"shop", storedFor - 1, nil, 1}, {"blog", 0, nil, 2}, {"shop", 1, nil, 3}, {"shop", 0, nil, 3},
		{"infra", 0, errors.New("no"), 4}, {"infra", 0, nil, 5},
	} {
		now.SetTime(now.Now().Add(tc.later))
		versions, err := look(tc.namespace, tc.fails)
		if !errors.Is(err, tc.fails) || reads != tc.reads || err == nil && versions[types.UID(tc.namespace)] == 0 {
			t.Errorf("%+v: %v, %v after %d looks", tc, versions, err, reads)
		}
	}
	now.SetTime(now.Now().Add(storedFor))
	if _, known := l.latest("shop"); known || len(l.known) > 0 {
		t.Errorf("%v is remembered", l.known)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	unlock, err := l.reading.Lock(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if _, err := l.in(ended, "shop", nil); err == nil {
		t.Error("who has gone waits")
	}
}

// TestOverlapping finds names that can't be beside each other: those of one policy.
func TestOverlapping(t *testing.T) {
	v := viewOfHosts(t, nil, policyOf("wide", "*.test"), policyOf("nested", "*.team.test"),
		nameOf("*.a.test", "shop"), nameOf("x.b.test", "shop"), nameOf("y.z.b.test", "blog"), nameOf("*.team.test", "shop"), nameOf("c.test", "shop"))
	for at, want := range map[string]string{
		"1.a.test of blog": "*.a.test", "1.2.a.test of blog": "*.a.test", "1.a.test of shop": "", "*.a.test of blog": "", "a.test of blog": "",
		"*.b.test of blog": "x.b.test", "*.b.test of shop": "y.z.b.test", "*.z.b.test of shop": "y.z.b.test", "*.b.test of infra": "x.b.test y.z.b.test",
		"1.team.test of blog": "*.team.test", "*.test of blog": "*.a.test c.test x.b.test", "1.other of blog": "",
	} {
		host, namespace, _ := strings.Cut(at, " of ")
		names, err := v.Hosts.Overlapping(t.Context(), claim.Hostname(host), claim.NamespaceHolder(namespace), "")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, name := range names {
			c, err := v.Claim(t.Context(), name)
			if err != nil || c == nil {
				t.Fatalf("%s: %v", name, err)
			}
			got = append(got, c.Spec.Point)
		}
		slices.Sort(got)
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: %q, want %q", at, text, want)
		}
	}
}

// TestTheCacheHasToShowAClaim before it is asked what is beside that.
func TestTheCacheHasToShowAClaim(t *testing.T) {
	v := viewOfHosts(t, nil, policyOf("wide", "*.test"), nameOf("a.test", "shop"))
	at, by := claim.Hostname("a.test"), claim.NamespaceHolder("shop")
	for version, shown := range map[string]bool{"": true, "6": true, "7": true, "8": false} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := v.Hosts.Overlapping(ctx, at, by, version)
		cancel()
		if (err == nil) != shown {
			t.Errorf("version %q: %v", version, err)
		}
	}
	if _, err := viewOfHosts(t, nil).Hosts.Overlapping(t.Context(), at, by, "8"); err != nil {
		t.Errorf("without a policy nothing is waited for: %v", err)
	}
}

// TestObjectsThatNamesAreFor says whether the object is stored for which a namespace claims a name.
func TestObjectsThatNamesAreFor(t *testing.T) {
	v := viewOfHosts(t, guard.Actions{guard.HTTPRoute: guard.Deny, guard.GRPCRoute: guard.Deny}, ingressOf("shop/web"), &corev1.Service{ObjectMeta: annotatedMeta("shop/web")},
		&gatewayv1.HTTPRoute{ObjectMeta: annotatedMeta("shop/web")}, &gatewayv1.GRPCRoute{ObjectMeta: annotatedMeta("shop/other")})
	for _, of := range []claim.Holder{
		claim.IngressHolder("shop", "web"), claim.ServiceHolder("shop", "web"), claim.RouteHolder("HTTPRoute", "shop", "web"), claim.RouteHolder("GRPCRoute", "shop", "other"),
	} {
		user := hostname.User{Holder: of, UID: types.UID("uid of " + of.Key().String())}
		for version, want := range map[int64]bool{0: true, 7: true, 8: false} {
			if got := v.Claims.Stored(t.Context(), user.Claimant(version)); got != want {
				t.Errorf("%s at version %d: %v", of, version, got)
			}
		}
		user.UID = "another"
		if v.Claims.Stored(t.Context(), user.Claimant(0)) {
			t.Errorf("%s is taken for one of another life", of)
		}
	}
	if user := (hostname.User{Holder: claim.StreamHolder("shop", "web"), UID: "x"}); v.Claims.Stored(t.Context(), user.Claimant(0)) {
		t.Error("a kind that uses no names is stored")
	}
}
