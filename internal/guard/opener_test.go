package guard

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

func TestOpeners(t *testing.T) {
	at := metav1.NewTime(since)
	g := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: "public", UID: "g", Generation: 3, CreationTimestamp: at}}
	g.Spec.Listeners = []gatewayv1.Listener{
		{Name: "a", Port: 80, Protocol: gatewayv1.HTTPProtocolType}, {Name: "b", Port: 443, Protocol: gatewayv1.TLSProtocolType, Hostname: hostname("example.com")},
		{Name: "c", Port: 443, Protocol: gatewayv1.HTTPSProtocolType, Hostname: hostname("")},
	}
	listeners := []Listener{
		{Index: 0, Port: 80, Protocol: gatewayv1.HTTPProtocolType, Host: claim.AllHosts},
		{Index: 1, Port: 443, Protocol: gatewayv1.TLSProtocolType, Host: "example.com"},
		{Index: 2, Port: 443, Protocol: gatewayv1.HTTPSProtocolType, Host: claim.AllHosts},
	}
	want := Opener{Claimant: claim.Claimant{Holder: itsOwn, UID: "g", Generation: 3}, Kind: Gateway, Of: edge, Created: since, Listeners: listeners}
	if diff := cmp.Diff(want, OfGateway(g)); diff != "" {
		t.Error(diff)
	}
	set := &gatewayv1.ListenerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "s", Generation: 2, CreationTimestamp: at}}
	for _, l := range g.Spec.Listeners {
		set.Spec.Listeners = append(set.Spec.Listeners, gatewayv1.ListenerEntry{Name: l.Name, Port: l.Port, Protocol: l.Protocol, Hostname: l.Hostname})
	}
	want = Opener{Claimant: claim.Claimant{Holder: me, UID: "s", Generation: 2}, Kind: ListenerSet, Of: edge, Created: since, Listeners: listeners}
	if diff := cmp.Diff(want, OfListenerSet(set, edge)); diff != "" {
		t.Error(diff)
	}
}

func TestPointsOfAListener(t *testing.T) {
	for name, tc := range map[string]struct {
		in   Listener
		want []string
	}{
		"TCP":                           {tcp(5432), []string{"gateway/edge/public TCP/5432"}},
		"TCP with a host name":          {Listener{Port: 80, Protocol: gatewayv1.TCPProtocolType, Host: "example.com"}, []string{"gateway/edge/public TCP/80"}},
		"UDP":                           {udp(53), []string{"gateway/edge/public UDP/53"}},
		"HTTP":                          {http(80, claim.AllHosts), []string{"gateway/edge/public/80 HTTP/*"}},
		"HTTP for a host name":          {http(80, "example.com"), []string{"gateway/edge/public/80 HTTP/example.com"}},
		"HTTPS":                         {https(443, "*.example.com"), []string{"gateway/edge/public/443 TLS/*.example.com"}},
		"TLS, which is the same":        {tls(443, "*.example.com"), []string{"gateway/edge/public/443 TLS/*.example.com"}},
		"another protocol":              {other(443), []string{"gateway/edge/public TCP/443", "gateway/edge/public UDP/443"}},
		"no protocol":                   {Listener{Port: 443, Host: claim.AllHosts}, []string{"gateway/edge/public TCP/443", "gateway/edge/public UDP/443"}},
		"a protocol in lower case":      {Listener{Port: 443, Protocol: "http", Host: "example.com"}, []string{"gateway/edge/public TCP/443", "gateway/edge/public UDP/443"}},
		"HTTP without a host":           {http(80, ""), nil},
		"HTTP for a host that is none":  {http(80, "not a host"), nil},
		"port 0":                        {tcp(0), nil},
		"a port that is too high":       {other(65536), nil},
		"a port that is negative":       {udp(-1), nil},
		"HTTP at a port that is beyond": {http(1<<31-1, "example.com"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, points(tc.in.Points(edge))); diff != "" {
				t.Error(diff)
			}
			if len(tc.in.Points(types.NamespacedName{})) > 0 {
				t.Error("it has points on no Gateway")
			}
			o := opener(me, tc.in)
			for _, at := range tc.in.Points(edge) {
				if !o.Stands(at) {
					t.Errorf("it does not stand at %s", at)
				}
			}
		})
	}
}

func TestStands(t *testing.T) {
	o := opener(me, http(80, "example.com"), tcp(5432), other(7))
	for at, want := range map[claim.Coordinate]bool{
		claim.HostListener(edge, claim.HTTPListener, 80, "example.com"):  true,
		claim.HostListener(edge, claim.TLSListener, 80, "example.com"):   false,
		claim.HostListener(edge, claim.HTTPListener, 80, claim.AllHosts): false,
		claim.Listener(edge, claim.HTTPListener, 80):                     true,
		claim.Listener(edge, claim.HTTPListener, 5432):                   false,
		claim.Listener(edge, claim.HTTPListener, 7):                      false,
		whole(80):                               false,
		whole(5432):                             true,
		claim.Listener(edge, v1beta1.UDP, 5432): false,
		claim.Listener(edge, v1beta1.UDP, 7):    true,
		claim.Stream("public", v1beta1.TCP, 7):  false,
	} {
		mustBe(t, at.String(), o.Stands(at), want)
	}
}

func TestCompareOpeners(t *testing.T) {
	aged := func(o Opener, age time.Duration) Opener {
		o.Created = since.Add(-age)
		return o
	}
	want := []Opener{
		opener(itsOwn), // the youngest of all
		aged(opener(claim.ListenerSetHolder("z", "z")), time.Hour),
		aged(opener(claim.ListenerSetHolder("a", "b")), time.Minute), aged(opener(claim.ListenerSetHolder("a", "c")), time.Minute),
		aged(opener(claim.ListenerSetHolder("b", "a")), time.Minute),
	}
	for seed := range uint64(20) {
		got := slices.Clone(want)
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
		slices.SortFunc(got, CompareOpeners)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestScopes(t *testing.T) {
	second, third := types.NamespacedName{Namespace: "edge", Name: "second"}, types.NamespacedName{Namespace: "a", Name: "z"}
	for name, tc := range map[string]struct {
		addresses []string
		others    []gatewayv1.Gateway
		want      []types.NamespacedName
	}{
		"no address":            {nil, []gatewayv1.Gateway{gateway(first, time.Hour, "192.0.2.1")}, []types.NamespacedName{edge}},
		"an address of its own": {[]string{"192.0.2.1"}, []gatewayv1.Gateway{gateway(first, time.Hour, "192.0.2.2")}, []types.NamespacedName{edge}},
		"itself among the others": {[]string{"192.0.2.1"}, []gatewayv1.Gateway{gateway(edge, time.Minute, "192.0.2.1")},
			[]types.NamespacedName{edge}},
		"one that is older":   {[]string{"192.0.2.1"}, []gatewayv1.Gateway{gateway(first, time.Hour, "192.0.2.1")}, []types.NamespacedName{edge, first}},
		"one that is younger": {[]string{"192.0.2.1"}, []gatewayv1.Gateway{gateway(first, 0, "192.0.2.1")}, []types.NamespacedName{edge}},
		"one as old, by name": {[]string{"192.0.2.1"}, []gatewayv1.Gateway{gateway(third, time.Minute, "192.0.2.1")}, []types.NamespacedName{edge, third}},
		"one as old, after it": {[]string{"192.0.2.1"}, []gatewayv1.Gateway{gateway(types.NamespacedName{Namespace: "edge", Name: "zzz"}, time.Minute, "192.0.2.1")},
			[]types.NamespacedName{edge}},
		"the oldest of several": {[]string{"192.0.2.1"}, []gatewayv1.Gateway{
			gateway(first, time.Hour, "192.0.2.1"), gateway(second, 2*time.Hour, "192.0.2.1"), gateway(third, time.Hour, "192.0.2.1"),
		}, []types.NamespacedName{edge, second}},
		"several addresses": {[]string{"192.0.2.2", "192.0.2.1", "2001:db8::1"}, []gatewayv1.Gateway{
			gateway(second, time.Hour, "192.0.2.2"), gateway(first, time.Hour, "192.0.2.1"),
		}, []types.NamespacedName{edge, first, second}},
		"several addresses of one": {[]string{"192.0.2.1", "192.0.2.2"}, []gatewayv1.Gateway{gateway(first, time.Hour, "192.0.2.2", "192.0.2.1")},
			[]types.NamespacedName{edge, first}},
		"one address in two forms": {[]string{"::ffff:192.0.2.1"}, []gatewayv1.Gateway{gateway(first, time.Hour, "192.0.2.1")},
			[]types.NamespacedName{edge, first}},
		"a host name in common": {[]string{"lb.example.com"}, []gatewayv1.Gateway{gateway(first, time.Hour, "lb.example.com")}, []types.NamespacedName{edge}},
	} {
		t.Run(name, func(t *testing.T) {
			g := gateway(edge, time.Minute, tc.addresses...)
			if diff := cmp.Diff(tc.want, Scopes(&g, tc.others)); diff != "" {
				t.Error(diff)
			}
			slices.Reverse(tc.others)
			if diff := cmp.Diff(tc.want, Scopes(&g, tc.others)); diff != "" {
				t.Errorf("in another order: %s", diff)
			}
		})
	}
}

// TestAnyTwoGatewaysAtOneAddressMeet draws Gateways: of those that have an address in common, any two have a scope in common.
func TestAnyTwoGatewaysAtOneAddressMeet(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 0))
		all := make([]gatewayv1.Gateway, 1+rng.IntN(5))
		for i := range all {
			var addresses []string
			for _, address := range []string{"192.0.2.1", "192.0.2.2", "2001:db8::1"} {
				if rng.IntN(2) == 0 {
					addresses = append(addresses, address)
				}
			}
			all[i] = gateway(types.NamespacedName{Namespace: "edge", Name: string(rune('a' + i))}, time.Duration(rng.IntN(3))*time.Minute, addresses...)
		}
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for i := range all {
			for j := range all[:i] {
				if !stream.HaveInCommon(&all[i], &all[j]) {
					continue
				}
				a, b := Scopes(&all[i], all), Scopes(&all[j], all)
				if !slices.ContainsFunc(a, func(key types.NamespacedName) bool { return slices.Contains(b, key) }) {
					t.Fatalf("seed %d: %s is alone on %v, and %s on %v", seed, all[i].Name, a, all[j].Name, b)
				}
			}
		}
	}
}

func TestClassesOnAGateway(t *testing.T) {
	at := func(addresses ...string) func(*v1beta1.StreamIngressClass) {
		return func(c *v1beta1.StreamIngressClass) { c.Status.Addresses = addresses }
	}
	withoutGateway := func(c *v1beta1.StreamIngressClass) { c.Spec.Gateway = nil }
	classes := []v1beta1.StreamIngressClass{
		*class("on-it"), *class("on-another", elsewhere), *class("at-its-address", elsewhere, at("192.0.2.1")),
		*class("at-another-address", elsewhere, at("192.0.2.9", "not an address")), *class("without-a-gateway", withoutGateway, at("192.0.2.1")),
	}
	for name, tc := range map[string]struct {
		scopes    []types.NamespacedName
		addresses []string
		want      []string
	}{
		"of a Gateway":                {[]types.NamespacedName{edge}, nil, []string{"on-it"}},
		"of two":                      {[]types.NamespacedName{edge, {Namespace: "edge", Name: "private"}}, nil, []string{"on-it", "on-another", "at-its-address", "at-another-address"}},
		"of a Gateway at an address":  {[]types.NamespacedName{edge}, []string{"192.0.2.1"}, []string{"on-it", "at-its-address"}},
		"of a Gateway of no class":    {[]types.NamespacedName{first}, nil, nil},
		"of an address only":          {[]types.NamespacedName{first}, []string{"192.0.2.9"}, []string{"at-another-address"}},
		"of an address of no Gateway": {[]types.NamespacedName{first}, []string{"192.0.2.3"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, c := range Classes(classes, tc.scopes, tc.addresses) {
				got = append(got, c.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestProtocolsAtAPort(t *testing.T) {
	if diff := cmp.Diff([]v1beta1.Protocol{v1beta1.TCP, claim.HTTPListener}, Protocols(v1beta1.TCP)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]v1beta1.Protocol{v1beta1.UDP}, Protocols(v1beta1.UDP)); diff != "" {
		t.Error(diff)
	}
}
