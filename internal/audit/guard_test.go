package audit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// listening is an entry of a Gateway or a ListenerSet.
func listening(protocol gatewayv1.ProtocolType, port int32, host ...string) gatewayv1.ListenerEntry {
	entry := gatewayv1.ListenerEntry{Protocol: protocol, Port: port}
	for _, name := range host {
		entry.Hostname = new(gatewayv1.Hostname(name))
	}
	return entry
}

// edgePublic is the Gateway edge/public with listeners of its own.
func edgePublic(entries ...gatewayv1.ListenerEntry) func(*Facts) {
	g := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: "public"}}
	for _, e := range entries {
		g.Spec.Listeners = append(g.Spec.Listeners, gatewayv1.Listener{Protocol: e.Protocol, Port: e.Port, Hostname: e.Hostname})
	}
	return func(f *Facts) { f.AddGateway(g) }
}

// shopSet is the ListenerSet shop/web.
func shopSet(entries ...gatewayv1.ListenerEntry) func(*Facts) {
	set := &gatewayv1.ListenerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	set.Spec.Listeners = entries
	return func(f *Facts) { f.AddListenerSet(set) }
}

func TestListenersOfOthers(t *testing.T) {
	gateway, set := claim.GatewayHolder("edge", "public"), claim.ListenerSetHolder("shop", "web")
	key := types.NamespacedName{Namespace: "edge", Name: "public"}
	whole, udp, hosts := claim.Listener(key, v1beta1.TCP, 80), claim.Listener(key, v1beta1.UDP, 80), claim.Listener(key, claim.HTTPListener, 80)
	host, all := claim.HostListener(key, claim.HTTPListener, 80, "a.io"), claim.HostListener(key, claim.TLSListener, 80, claim.AllHosts)
	login := claim.HTTP("a.io", "/login").OnGateway(key)
	inside := claim.HTTP("a.io", "/login").OnGateway(types.NamespacedName{Namespace: "edge", Name: "inside"})
	const gone = "which is not there or does not ask for it"
	type facts []func(*Facts)
	for name, tc := range map[string]struct {
		facts facts
		want  []string
	}{
		"a Gateway that listens":                {facts: facts{held(whole, gateway), edgePublic(listening("TCP", 80))}},
		"a ListenerSet that listens":            {facts: facts{held(udp, set), shopSet(listening("UDP", 80))}},
		"listeners without a claim":             {facts: facts{edgePublic(listening("TCP", 80)), shopSet(listening("TCP", 80), listening("HTTP", 80))}},
		"a Gateway that is gone":                {facts: facts{held(whole, gateway)}, want: []string{"gateway/edge/public TCP/80 is claimed for Gateway edge/public, " + gone}},
		"a Gateway that may be about to come":   {facts: facts{promised(whole, gateway)}},
		"a Gateway without the listener":        {facts: facts{held(whole, gateway), edgePublic(listening("TCP", 81))}, want: []string{"gateway/edge/public TCP/80 is claimed for Gateway edge/public, " + gone}},
		"a Gateway without any":                 {facts: facts{held(whole, gateway), edgePublic()}, want: []string{"gateway/edge/public TCP/80 is claimed for Gateway edge/public, " + gone}},
		"a listener of somebody else":           {facts: facts{held(whole, gateway), edgePublic(), shopSet(listening("TCP", 80))}, want: []string{"gateway/edge/public TCP/80 is claimed for Gateway edge/public, " + gone}},
		"a listener of the other protocol":      {facts: facts{held(whole, set), shopSet(listening("UDP", 80))}, want: []string{"gateway/edge/public TCP/80 is claimed for ListenerSet shop/web, " + gone}},
		"a listener of a protocol that is both": {facts: facts{held(whole, set), held(udp, set), shopSet(listening("example.com/quic", 80))}},
		"a host name":                           {facts: facts{held(host, set), held(hosts, gateway), shopSet(listening("HTTP", 80, "a.io"))}},
		"a host name that is another by now":    {facts: facts{held(host, set), shopSet(listening("HTTP", 80, "b.io"))}, want: []string{"gateway/edge/public/80 HTTP/a.io is claimed for ListenerSet shop/web, " + gone}},
		"a host name, and it has the port whole by now": {facts: facts{held(host, set), shopSet(listening("TCP", 80))},
			want: []string{"gateway/edge/public/80 HTTP/a.io is claimed for ListenerSet shop/web, " + gone}},
		"a port whole, and it has a host name by now": {facts: facts{held(whole, set), shopSet(listening("TLS", 80, "a.io"))},
			want: []string{"gateway/edge/public TCP/80 is claimed for ListenerSet shop/web, " + gone}},
		"all host names":                            {facts: facts{held(all, set), shopSet(listening("HTTPS", 80))}},
		"all host names, by an empty one":           {facts: facts{held(all, set), shopSet(listening("TLS", 80, ""))}},
		"that host names share a port":              {facts: facts{held(hosts, gateway), held(host, set), edgePublic(), shopSet(listening("HTTP", 80, "a.io"))}},
		"that they do, of a Gateway that is gone":   {facts: facts{held(hosts, gateway), promised(host, set)}},
		"that they do, and nobody has one any more": {facts: facts{held(hosts, gateway), edgePublic(listening("HTTP", 80))}, want: []string{"gateway/edge/public HTTP/80 is claimed for Gateway edge/public, " + gone}},
		"that they do at the next port":             {facts: facts{held(hosts, gateway), held(claim.HostListener(key, claim.HTTPListener, 81, "a.io"), set), shopSet(listening("HTTP", 81, "a.io"))}, want: []string{"gateway/edge/public HTTP/80 is claimed for Gateway edge/public, " + gone}},
		"what says so by a promise":                 {facts: facts{promised(hosts, gateway)}},
		"a name that the namespace uses":            {facts: facts{held(claim.Hostname("a.io"), claim.NamespaceHolder("shop")), using("shop", "a.io")}},
		"a name that was promised":                  {facts: facts{promised(claim.Hostname("a.io"), claim.NamespaceHolder("shop"))}},
		"a name that the namespace does not use":    {facts: facts{held(claim.Hostname("a.io"), claim.NamespaceHolder("shop")), using("shop", "b.io"), using("blog", "a.io")}, want: []string{"hostname a.io is claimed for Namespace shop, " + gone}},
		"a path that the namespace serves":          {facts: facts{held(login, claim.NamespaceHolder("shop")), pathed("shop", login)}},
		"a path that it serves on another Gateway": {facts: facts{held(login, claim.NamespaceHolder("shop")), held(inside, claim.NamespaceHolder("blog")), pathed("shop", inside)},
			want: []string{"http/gateway/edge/inside a.io/login is claimed for Namespace blog, " + gone, "http/gateway/edge/public a.io/login is claimed for Namespace shop, " + gone}},
		"a path that was promised":          {facts: facts{promised(login, claim.NamespaceHolder("shop"))}},
		"a path without a claim":            {facts: facts{pathed("shop", login)}, want: []string{"http/gateway/edge/public a.io/login stands in HTTPRoute shop/web and has no claim"}},
		"a path that another namespace has": {facts: facts{held(login, claim.NamespaceHolder("shop")), pathed("shop", login), pathed("blog", login)}},
		"a Gateway of the name of a ListenerSet": {facts: facts{held(whole, claim.GatewayHolder("shop", "web")), shopSet(listening("TCP", 80))},
			want: []string{"gateway/edge/public TCP/80 is claimed for Gateway shop/web, " + gone}},
	} {
		t.Run(name, func(t *testing.T) {
			f := NewFacts()
			for _, add := range claimsFirst(tc.facts) {
				add(f)
			}
			var got []string
			for _, d := range f.Disagreements() {
				got = append(got, d.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// using says that a namespace uses a host name.
func using(namespace, host string) func(*Facts) {
	return func(f *Facts) { f.AddNames(namespace, map[string]bool{host: true}, nil) }
}

// pathed says that a route of a namespace serves a path on a Gateway.
func pathed(namespace string, at claim.Coordinate) func(*Facts) {
	return func(f *Facts) {
		f.AddNames(namespace, nil, map[claim.Coordinate]bool{at: true})
		f.AddRoutePath(Object{Holder: claim.RouteHolder("HTTPRoute", namespace, "web")}, at)
	}
}
