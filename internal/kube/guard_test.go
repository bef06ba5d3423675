package kube

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

var edgePublic = types.NamespacedName{Namespace: "edge", Name: "public"}

// guarding is a view of a cache that has the Gateway API, too, with all its indexes.
func guarding(t *testing.T, objects ...client.Object) *View {
	t.Helper()
	s := scheme(t)
	if err := gatewayv1.Install(s); err != nil {
		t.Fatal(err)
	}
	b := fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).WithReturnManagedFields()
	add := indexer(func(obj client.Object, name string, value client.IndexerFunc) { b.WithIndex(obj, name, value) })
	gateways := &Gateways{Guarded: guard.Actions{guard.Gateway: guard.Deny}, indexed: map[string]bool{}}
	gateways.IndexBy(add)
	if err := AddIndexes(t.Context(), add); err != nil {
		t.Fatal(err)
	}
	if err := gateways.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := b.Build()
	v, err := NewView(t.Context(), cached{&informertest.FakeInformers{Scheme: s}, c}, c)
	if err != nil {
		t.Fatal(err)
	}
	v.Gateways.IndexBy(indexer(func(client.Object, string, client.IndexerFunc) {})) // they are there
	v.Gateways.Guard(gateways.Guarded)
	return v
}

// public is the Gateway edge/public, which lets the ListenerSets of namespaces of a team attach, its own namespace's, or all.
func public(from gatewayv1.FromNamespaces, listeners ...gatewayv1.Listener) *gatewayv1.Gateway {
	g := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: "public", UID: "gateway", CreationTimestamp: metav1.NewTime(late)}}
	g.Spec.Listeners = listeners
	g.Spec.AllowedListeners = &gatewayv1.AllowedListeners{Namespaces: &gatewayv1.ListenerNamespaces{From: &from}}
	if from == gatewayv1.NamespacesFromSelector {
		g.Spec.AllowedListeners.Namespaces.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "web"}}
	}
	return g
}

var late = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// setIn is a ListenerSet on edge/public, made so long before the Gateway.
func setIn(namespace, name string, age time.Duration, entries ...gatewayv1.ListenerEntry) *gatewayv1.ListenerSet {
	set := &gatewayv1.ListenerSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name), CreationTimestamp: metav1.NewTime(late.Add(-age)),
	}}
	set.Spec.ParentRef = gatewayv1.ParentGatewayReference{Namespace: new(gatewayv1.Namespace("edge")), Name: "public"}
	set.Spec.Listeners = entries
	return set
}

func entry(protocol gatewayv1.ProtocolType, port int32, host ...string) gatewayv1.ListenerEntry {
	e := gatewayv1.ListenerEntry{Name: "l", Protocol: protocol, Port: port}
	for _, name := range host {
		e.Hostname = new(gatewayv1.Hostname(name))
	}
	return e
}

// forged has a ListenerSet look like one that Portcullis has made for a class.
func forged(class string, set *gatewayv1.ListenerSet) *gatewayv1.ListenerSet {
	set.Labels = map[string]string{v1beta1.LabelClass: class}
	set.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: stream.FieldManager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: gatewayv1.GroupVersion.String(),
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1("{}"),
	}}
	return set
}

func onPublic(name string) *v1beta1.StreamIngressClass {
	c := &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.Gateway = &v1beta1.ObjectReference{Namespace: "edge", Name: "public"}
	return c
}

func namespaceOf(name, team string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": team}}}
}

func holdersOf(openers []guard.Opener) (holders []string) {
	for _, o := range openers {
		holders = append(holders, o.String())
	}
	return holders
}

// TestOpenersOfAGateway covers who listens on a Gateway, and in which order.
func TestOpenersOfAGateway(t *testing.T) {
	elsewhere := setIn("shop", "elsewhere", time.Hour, entry("TCP", 1))
	elsewhere.Spec.ParentRef.Name = "private"
	ofAService := setIn("shop", "of-a-service", time.Hour, entry("TCP", 1))
	ofAService.Spec.ParentRef.Kind = new(gatewayv1.Kind("Service"))
	sets := []client.Object{
		setIn("shop", "b", time.Minute, entry("TCP", 5432)), setIn("shop", "a", time.Minute, entry("TCP", 5432)), setIn("rival", "z", time.Hour, entry("TCP", 5432)),
		setIn("edge", "extra", 0, entry("TCP", 5432)), elsewhere, ofAService,
		forged("streams", setIn("edge", "ours", time.Hour, entry("TCP", 6000))),
		forged("streams", setIn("shop", "forged", 2*time.Hour, entry("TCP", 6001))),
		forged("none", setIn("edge", "of-no-class", 3*time.Hour, entry("TCP", 6002))),
		namespaceOf("shop", "web"), namespaceOf("rival", "data"), namespaceOf("edge", ""), onPublic("streams"),
	}
	for name, tc := range map[string]struct {
		from gatewayv1.FromNamespaces
		want []string
	}{
		"all": {gatewayv1.NamespacesFromAll, []string{"Gateway edge/public", "ListenerSet edge/of-no-class", "ListenerSet shop/forged", "ListenerSet rival/z",
			"ListenerSet shop/a", "ListenerSet shop/b", "ListenerSet edge/extra"}},
		"of its namespace": {gatewayv1.NamespacesFromSame, []string{"Gateway edge/public", "ListenerSet edge/of-no-class", "ListenerSet edge/extra"}},
		"of a team":        {gatewayv1.NamespacesFromSelector, []string{"Gateway edge/public", "ListenerSet shop/forged", "ListenerSet shop/a", "ListenerSet shop/b"}},
		"none":             {gatewayv1.NamespacesFromNone, []string{"Gateway edge/public"}},
	} {
		t.Run(name, func(t *testing.T) {
			gateway := public(tc.from, gatewayv1.Listener{Name: "web", Port: 80, Protocol: "HTTP"})
			v := guarding(t, append([]client.Object{gateway}, sets...)...)
			openers, err := v.Gateways.Openers(t.Context(), gateway)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, holdersOf(openers)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestStanding covers who is stored with a listener at a point.
func TestStanding(t *testing.T) {
	v := guarding(t, public(gatewayv1.NamespacesFromSelector, gatewayv1.Listener{Name: "web", Port: 80, Protocol: "HTTP"}, gatewayv1.Listener{Name: "db", Port: 5432, Protocol: "TCP"}),
		setIn("shop", "web", 0, entry("HTTPS", 443, "a.io"), entry("HTTP", 80, "a.io"), entry("TCP", 5432), entry("example.com/quic", 7)),
		setIn("rival", "web", 0, entry("TLS", 443, "b.io"), entry("TCP", 5432)),
		forged("streams", setIn("edge", "ours", 0, entry("TCP", 6000))), forged("streams", setIn("shop", "forged", 0, entry("TCP", 6000))),
		namespaceOf("shop", "web"), namespaceOf("rival", "data"), namespaceOf("edge", "web"), onPublic("streams"))
	const gateway, shop = "Gateway edge/public", "ListenerSet shop/web"
	whole := func(protocol v1beta1.Protocol, port int32) claim.Coordinate {
		return claim.Listener(edgePublic, protocol, port)
	}
	host := func(protocol v1beta1.Protocol, port int32, name string) claim.Coordinate {
		return claim.HostListener(edgePublic, protocol, port, name)
	}
	for name, tc := range map[string]struct {
		at   claim.Coordinate
		want []string
	}{
		"a port of the Gateway and a set":       {whole("TCP", 5432), []string{shop, gateway}},
		"a port of nobody":                      {whole("TCP", 5433), nil},
		"the UDP port of it":                    {whole("UDP", 5432), nil},
		"a protocol that may be both":           {whole("UDP", 7), []string{shop}},
		"all host names at a port":              {whole(claim.HTTPListener, 80), []string{shop, gateway}},
		"all host names of those who may":       {whole(claim.HTTPListener, 443), []string{shop}},
		"all host names at a whole port":        {whole(claim.HTTPListener, 5432), nil},
		"a port that is shared by host name":    {whole("TCP", 443), nil},
		"a host name":                           {host(claim.TLSListener, 443, "a.io"), []string{shop}},
		"a host name of HTTP":                   {host(claim.HTTPListener, 443, "a.io"), nil},
		"one of who may not attach":             {host(claim.TLSListener, 443, "b.io"), nil},
		"every host name":                       {host(claim.HTTPListener, 80, claim.AllHosts), []string{gateway}},
		"a port of ours, and one that looks so": {whole("TCP", 6000), []string{"ListenerSet shop/forged"}},
		"a Gateway that is not there":           {claim.Listener(types.NamespacedName{Namespace: "edge", Name: "none"}, "TCP", 5432), nil},
	} {
		t.Run(name, func(t *testing.T) {
			on, err := v.Gateways.Standing(t.Context(), tc.at.Gateway())
			if err != nil {
				t.Fatal(err)
			}
			openers, err := on.at(t.Context(), tc.at)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, holdersOf(openers)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestIsOwn has tenants make ListenerSets that look like those of a class.
func TestIsOwn(t *testing.T) {
	withoutGateway := onPublic("proxied")
	withoutGateway.Spec.Gateway = nil
	v := guarding(t, onPublic("streams"), withoutGateway)
	unmarked := forged("streams", setIn("edge", "a", 0))
	unmarked.Labels = nil
	byOthers := forged("streams", setIn("edge", "a", 0))
	byOthers.ManagedFields[0].Manager = "kubectl"
	for name, tc := range map[string]struct {
		set  *gatewayv1.ListenerSet
		want bool
	}{
		"where those of the class are": {forged("streams", setIn("edge", "a", 0)), true},
		"elsewhere":                    {forged("streams", setIn("shop", "a", 0)), false},
		"of a class that is not there": {forged("none", setIn("edge", "a", 0)), false},
		"of a class without a Gateway": {forged("proxied", setIn("edge", "a", 0)), false},
		"without the label":            {unmarked, false},
		"not written by Portcullis":    {byOthers, false},
		"one that nobody wrote":        {setIn("edge", "a", 0), false},
	} {
		t.Run(name, func(t *testing.T) {
			if own, err := v.Gateways.IsOwn(t.Context(), tc.set); err != nil || own != tc.want {
				t.Errorf("it is one of ours: %t, %v", own, err)
			}
		})
	}
}

// TestReach covers where the listeners of a Gateway have to be alone.
func TestReach(t *testing.T) {
	at := func(g *gatewayv1.Gateway, address string) *gatewayv1.Gateway {
		g.Status.Addresses = []gatewayv1.GatewayStatusAddress{{Value: address}}
		return g
	}
	older := at(public(gatewayv1.NamespacesFromNone), "192.0.2.1")
	older.Name, older.UID, older.CreationTimestamp = "older", "older", metav1.NewTime(late.Add(-time.Hour))
	onOlder, atAddress := onPublic("on-older"), onPublic("at-address")
	onOlder.Spec.Gateway.Name, atAddress.Spec.Gateway.Name = "older", "another"
	atAddress.Status.Addresses = []string{"192.0.2.1"}
	for name, tc := range map[string]struct {
		gateway *gatewayv1.Gateway
		scopes  []types.NamespacedName
		classes []string
	}{
		"without an address":        {public(gatewayv1.NamespacesFromNone), []types.NamespacedName{edgePublic}, []string{"streams"}},
		"at an address of an older": {at(public(gatewayv1.NamespacesFromNone), "192.0.2.1"), []types.NamespacedName{edgePublic, {Namespace: "edge", Name: "older"}}, []string{"at-address", "on-older", "streams"}},
		"at an address of its own":  {at(public(gatewayv1.NamespacesFromNone), "192.0.2.2"), []types.NamespacedName{edgePublic}, []string{"streams"}},
		"the older of two":          {older, []types.NamespacedName{{Namespace: "edge", Name: "older"}}, []string{"at-address", "on-older"}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{older.DeepCopy(), onPublic("streams"), onOlder.DeepCopy(), atAddress.DeepCopy()}
			if tc.gateway != older {
				objects = append(objects, tc.gateway)
			}
			scopes, classes, err := guarding(t, objects...).Gateways.Reach(t.Context(), tc.gateway)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.scopes, scopes); diff != "" {
				t.Error(diff)
			}
			var names []string
			for _, c := range classes {
				names = append(names, c.Name)
			}
			if diff := cmp.Diff(tc.classes, names); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestListens looks for anybody who listens on a port, and counts on a Gateway.
func TestListens(t *testing.T) {
	v := guarding(t, public(gatewayv1.NamespacesFromSelector, gatewayv1.Listener{Name: "web", Port: 80, Protocol: "HTTP"}),
		setIn("shop", "web", 0, entry("TLS", 443, "a.io"), entry("UDP", 53), entry("example.com/quic", 7)),
		setIn("rival", "web", 0, entry("TCP", 5432)), forged("streams", setIn("edge", "ours", 0, entry("TCP", 6000))),
		namespaceOf("shop", "web"), namespaceOf("rival", "data"), namespaceOf("edge", "web"), onPublic("streams"))
	for protocol, want := range map[v1beta1.Protocol]map[int32]bool{
		v1beta1.TCP: {80: false, 443: false, 53: true, 7: false, 5432: true, 6000: true}, v1beta1.UDP: {80: true, 443: true, 53: false, 7: false},
	} {
		for port, isFree := range want {
			for _, key := range []types.NamespacedName{edgePublic, {Namespace: "edge", Name: "none"}} {
				on, err := v.Gateways.Standing(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				listens, err := on.listens(t.Context(), stream.PortKey{Protocol: protocol, Port: port})
				if err != nil || listens != (!isFree && key == edgePublic) {
					t.Errorf("on %s, somebody listens on %s/%d: %t, %v", key, protocol, port, listens, err)
				}
			}
		}
	}
}

// TestLetting finds the Gateway of a ListenerSet that is yet to be stored.
func TestLetting(t *testing.T) {
	v := guarding(t, public(gatewayv1.NamespacesFromSelector))
	for name, tc := range map[string]struct {
		key  types.NamespacedName
		has  labels.Set
		want bool
	}{
		"that lets it":        {edgePublic, labels.Set{"team": "web"}, true},
		"that does not":       {edgePublic, labels.Set{"team": "data"}, false},
		"that is not there":   {types.NamespacedName{Namespace: "edge", Name: "none"}, labels.Set{"team": "web"}, false},
		"that can't be there": {types.NamespacedName{Namespace: "edge", Name: "public/80"}, labels.Set{"team": "web"}, false},
		"that is none":        {types.NamespacedName{}, labels.Set{"team": "web"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := v.Gateways.Letting(t.Context(), tc.key, "shop", tc.has)
			if err != nil || (g != nil) != tc.want {
				t.Errorf("got %v, %v", g, err)
			}
		})
	}
}

// TestGatewayOfWhatIsNone has ListenerSets name what reads like a Gateway and a port in an index: they would hold that port of it.
func TestGatewayOfWhatIsNone(t *testing.T) {
	for _, name := range []string{"public TCP/80", "public/80", "Public", "", " ", strings.Repeat("a", 254)} {
		set := &gatewayv1.ListenerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "evil"}}
		set.Spec.ParentRef = gatewayv1.ParentGatewayReference{Namespace: ptr.To(gatewayv1.Namespace("edge")), Name: gatewayv1.ObjectName(name)}
		if of := GatewayOf(set); of != (types.NamespacedName{}) {
			t.Errorf("a set that names %q is of Gateway %s", name, of)
		}
	}
}
