package audit

import (
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
)

var (
	postgres = claim.StreamHolder("shop", "postgres")
	tcpMap   = claim.ConfigMapHolder("edge", "tcp")
	proxy    = claim.ServiceHolder("edge", "proxy")
	shopWeb  = claim.ServiceHolder("shop", "web")
	byHand   = claim.IngressHolder("shop", "by-hand")

	defaults = exposure.Defaults{Host: "{service}.example.com"}
)

func tcp(port int32) claim.Coordinate { return claim.Stream("public", v1beta1.TCP, port) }

// held adds a claim whose grace is over.
func held(at claim.Coordinate, by claim.Holder) func(*Facts) {
	return func(f *Facts) { f.AddClaim(claim.New(at, claim.Claimant{Holder: by}), false) }
}

// serving adds the claim of edge/proxy on a port of 192.0.2.1, for the proxy of a class.
func serving(class string, port int32) func(*Facts) {
	at := claim.AddressPort(netip.MustParseAddr("192.0.2.1"), "TCP", port)
	return func(f *Facts) { f.AddClaim(claim.New(at, claim.Claimant{Holder: proxy, ClassName: class}), false) }
}

// promised adds a claim whose holder may be about to be stored.
func promised(at claim.Coordinate, by claim.Holder) func(*Facts) {
	return func(f *Facts) { f.AddClaim(claim.New(at, claim.Claimant{Holder: by}), true) }
}

// asking adds the stream shop/postgres. The class and the port of the status are those that it was given.
func asking(change ...func(*v1beta1.StreamIngress)) func(*Facts) {
	s := &v1beta1.StreamIngress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "postgres"}}
	for _, c := range change {
		c(s)
	}
	return func(f *Facts) { f.AddStream(s) }
}

func listens(port int32) func(*v1beta1.StreamIngress) {
	return func(s *v1beta1.StreamIngress) { s.Spec.Listen = &port }
}

func ofClass(name string) func(*v1beta1.StreamIngress) {
	return func(s *v1beta1.StreamIngress) { s.Spec.ClassName = name }
}

func given(class string, port int32) func(*v1beta1.StreamIngress) {
	return func(s *v1beta1.StreamIngress) { s.Status.ClassName, s.Status.Listen = class, port }
}

func movesFrom(class string, port int32) func(*v1beta1.StreamIngress) {
	return func(s *v1beta1.StreamIngress) {
		s.Status.Previous = &v1beta1.PreviousDoor{ClassName: class, Protocol: v1beta1.TCP, Listen: port}
	}
}

// class is a class with what stands on its proxy.
func class(name string, accepted metav1.ConditionStatus, entries []string, ports ...corev1.ServicePort) func(*Facts) {
	c := &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Status.Conditions = []metav1.Condition{{Type: v1beta1.ConditionAccepted, Status: accepted}}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: "tcp"}, Data: map[string]string{}}
	for _, key := range entries {
		cm.Data[key] = "shop/postgres:5432"
	}
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: "proxy"}, Spec: corev1.ServiceSpec{Ports: ports}}
	return func(f *Facts) {
		f.AddClass(c, Targets{ConfigMaps: map[v1beta1.Protocol]*corev1.ConfigMap{v1beta1.TCP: cm, v1beta1.UDP: nil}, Service: svc})
	}
}

func public(entries ...string) func(*Facts) { return class("public", metav1.ConditionTrue, entries) }

func port(protocol corev1.Protocol, number int32) corev1.ServicePort {
	return corev1.ServicePort{Protocol: protocol, Port: number}
}

// web is the Service shop/web with a value of the annotation.
func web(value string) func(*Facts) {
	svc := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", Annotations: map[string]string{v1beta1.AnnotationHTTP: value},
	}}
	return func(f *Facts) { f.AddService(svc, defaults) }
}

// ingress serves / on a host. madeFor is the UID of the Service that it was made for, if it was.
func ingress(name, host string, madeFor types.UID, change ...func(*networkingv1.Ingress)) func(*Facts) {
	ing := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	ing.Spec.Rules = []networkingv1.IngressRule{{Host: host}}
	if madeFor != "" {
		exposure.Mark(ing, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, UID: madeFor}})
	}
	for _, c := range change {
		c(ing)
	}
	return func(f *Facts) { f.AddIngress(ing, 4) }
}

// manyPaths makes an Ingress serve more paths than the ledger keeps of one: / and /0 to /4.
func manyPaths(ing *networkingv1.Ingress) {
	http := &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{Path: "/"}}}
	for i := range 5 {
		http.Paths = append(http.Paths, networkingv1.HTTPIngressPath{Path: fmt.Sprintf("/%d", i)})
	}
	ing.Spec.Rules[0].HTTP = http
}

// manyHosts makes an Ingress serve more hosts than the ledger enters.
func manyHosts(ing *networkingv1.Ingress) {
	for i := range exposure.MostEntries {
		ing.Spec.Rules = append(ing.Spec.Rules, networkingv1.IngressRule{Host: fmt.Sprintf("h%d.io", i)})
	}
}

// eachPath adds claims on all of them on the host a.io.
func eachPath(by claim.Holder) []func(*Facts) {
	claims := []func(*Facts){held(claim.HTTP("a.io", "/"), by)}
	for i := range 5 {
		claims = append(claims, held(claim.HTTP("a.io", fmt.Sprintf("/%d", i)), by))
	}
	return claims
}

var (
	lan      = claim.Address(netip.MustParseAddr("192.0.2.1"))
	other    = claim.Address(netip.MustParseAddr("192.0.2.2"))
	lanPort  = claim.AddressPort(lan.Address(), "TCP", 80)
	nodePort = claim.NodePort("TCP", 80)
)

// loadBalancer is the Service shop/<name> of type LoadBalancer with port 80 and addresses in its status.
func loadBalancer(name string, change func(*corev1.Service), addresses ...string) func(*Facts) {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	svc.Spec = corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{port("TCP", 80)}, ClusterIPs: []string{"10.96.0.7"},
	}
	for _, ip := range addresses {
		svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
	}
	if change != nil {
		change(svc)
	}
	return func(f *Facts) { f.AddLoadBalancer(svc) }
}

// ours is of Portcullis' class.
func ours(svc *corev1.Service) {
	svc.Spec.LoadBalancerClass = new(v1beta1.LoadBalancerClass)
}

// names has a Service of another type name addresses in spec.externalIPs, and balancerNaming one of Portcullis' class.
func names(addresses ...string) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		svc.Spec.Type, svc.Spec.ExternalIPs = corev1.ServiceTypeClusterIP, addresses
	}
}

func balancerNaming(addresses ...string) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		ours(svc)
		svc.Spec.ExternalIPs = addresses
	}
}

func http(host string) claim.Coordinate { return claim.HTTP(host, "/") }

const (
	noHolder = "is claimed for StreamIngress shop/postgres, which is not there or does not ask for it"
	noClaim  = "has no claim"
)

// pool is a pool of a source.
func pool(source v1beta1.AddressSource, accepted metav1.ConditionStatus) func(*Facts) {
	p := &v1beta1.AddressPool{Spec: v1beta1.AddressPoolSpec{Source: source}}
	p.Status.Conditions = []metav1.Condition{{Type: v1beta1.ConditionAccepted, Status: accepted}}
	return func(f *Facts) { f.AddPool(p) }
}

// behindService is a class whose proxy has a Service, and with it nothing of the nodes by itself.
func behindService(entries ...string) func(*Facts) {
	c := &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: "public"}}
	c.Status.Conditions = []metav1.Condition{{Type: v1beta1.ConditionAccepted, Status: metav1.ConditionTrue}}
	c.Spec.Service = &v1beta1.ObjectReference{Namespace: "edge", Name: "proxy"}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: "tcp"}, Data: map[string]string{}}
	for _, key := range entries {
		cm.Data[key] = "shop/postgres:5432"
	}
	return func(f *Facts) {
		f.AddClass(c, Targets{ConfigMaps: map[v1beta1.Protocol]*corev1.ConfigMap{v1beta1.TCP: cm}, Service: &corev1.Service{}})
	}
}

// claimsFirst are facts in their order, but for claims and pools, which are added before all else.
func claimsFirst(facts []func(*Facts)) (ordered []func(*Facts)) {
	var others []func(*Facts)
	for _, add := range facts {
		f := NewFacts()
		add(f)
		if len(f.claims) > 0 || f.sharesNodes {
			ordered = append(ordered, add)
		} else {
			others = append(others, add)
		}
	}
	return append(ordered, others...)
}

func TestDisagreements(t *testing.T) {
	type facts []func(*Facts)
	for name, tc := range map[string]struct {
		facts facts
		want  []string
	}{
		"nothing at all": {},
		"a stream, its claim and its port": {
			facts: facts{held(tcp(5432), postgres), asking(ofClass("public"), listens(5432)), public("5432")},
		},
		"a claim whose holder is gone": {
			facts: facts{held(tcp(5432), postgres), public()}, want: []string{"stream/public TCP/5432 " + noHolder},
		},
		"a claim whose holder is gone, in its grace": {
			facts: facts{promised(tcp(5432), postgres), public()},
		},
		"a claim of a stream that moved to another port": {
			facts: facts{held(tcp(5432), postgres), held(tcp(5433), postgres), asking(ofClass("public"), listens(5433))},
			want:  []string{"stream/public TCP/5432 " + noHolder},
		},
		"a claim of a stream that moved to another class": {
			facts: facts{held(tcp(5432), postgres), asking(ofClass("internal"), listens(5432), given("public", 5432))},
			want:  []string{"stream/public TCP/5432 " + noHolder},
		},
		"a claim of a stream that is open there until it has moved to another class": {
			facts: facts{
				held(tcp(5432), postgres), held(claim.Stream("internal", v1beta1.TCP, 5432), postgres), public("5432"),
				asking(ofClass("internal"), listens(5432), given("internal", 5432), movesFrom("public", 5432)),
			},
		},
		"a claim on another port of the class that a stream moves from": {
			facts: facts{held(tcp(5433), postgres), asking(ofClass("internal"), listens(5432), movesFrom("public", 5432))},
			want:  []string{"stream/public TCP/5433 " + noHolder},
		},
		"a port of the nodes that a proxy has there for a stream": {
			facts: facts{held(claim.NodePort("TCP", 5432), claim.ClassHolder("other")), held(tcp(5432), postgres), asking(listens(5432)), public("5432")},
		},
		"a port of the nodes that a proxy has there for nobody": {
			facts: facts{held(claim.NodePort("TCP", 5433), claim.ClassHolder("public")), held(tcp(5432), postgres), asking(listens(5432)), public("5432")},
			want:  []string{"node TCP/5433 is claimed for StreamIngressClass public, which is not there or does not ask for it"},
		},
		"a port of a proxy on the nodes, which a pool shares": {
			facts: facts{pool(v1beta1.SourceNodeIP, metav1.ConditionTrue), held(tcp(5432), postgres), asking(listens(5432)), public("5432")},
			want:  []string{"node TCP/5432 stands in ConfigMap edge/tcp and " + noClaim},
		},
		"a Service has it": {
			facts: facts{pool(v1beta1.SourceNodeIP, metav1.ConditionTrue), held(claim.NodePort("TCP", 80), shopWeb), loadBalancer("web", ours),
				held(tcp(80), tcpMap), public("80")},
			want: []string{"node TCP/80 stands in ConfigMap edge/tcp and is claimed for Service shop/web"},
		},
		"a class has it": {
			facts: facts{pool(v1beta1.SourceNodeIP, metav1.ConditionTrue), held(claim.NodePort("TCP", 80), claim.ClassHolder("other")),
				held(tcp(80), tcpMap), public("80")},
		},
		"the proxy has a Service": {
			facts: facts{pool(v1beta1.SourceNodeIP, metav1.ConditionTrue), held(tcp(80), tcpMap), behindService("80")},
		},
		"the proxy is another class's": {
			facts: facts{pool(v1beta1.SourceNodeIP, metav1.ConditionTrue), held(tcp(80), tcpMap), class("late", metav1.ConditionFalse, []string{"80"}), public("80"),
				held(claim.NodePort("TCP", 80), claim.ClassHolder("public"))},
		},
		"a pool shares addresses, and another is not accepted": {
			facts: facts{pool(v1beta1.SourceAddresses, metav1.ConditionTrue), pool(v1beta1.SourceNodeIP, metav1.ConditionFalse), held(tcp(80), tcpMap), public("80")},
		},
		"a claim of a stream of another protocol": {
			facts: facts{held(claim.Stream("public", v1beta1.UDP, 5432), postgres), asking(ofClass("public"), listens(5432))},
			want:  []string{"stream/public UDP/5432 " + noHolder},
		},
		"a stream of the default class": {
			facts: facts{held(tcp(5432), postgres), asking(listens(5432), given("public", 5432))},
		},
		"a stream that was not looked at yet": {
			facts: facts{held(tcp(5432), postgres), asking()},
		},
		"a stream that was given its port": {
			facts: facts{held(tcp(20001), postgres), asking(given("public", 20001))},
		},
		"a second claim of a stream that was given its port": {
			facts: facts{held(tcp(20001), postgres), held(tcp(20002), postgres), asking(given("public", 20001))},
			want:  []string{"stream/public TCP/20002 " + noHolder},
		},
		"a claim that is not written as claims are": {
			facts: facts{func(f *Facts) {
				f.AddClaim(&v1beta1.EdgeClaim{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}, false)
			}},
		},

		"foreign entries and ports in the ledger": {
			facts: facts{held(tcp(9000), tcpMap), held(tcp(80), proxy), class("public", metav1.ConditionTrue, []string{"9000", "note"}, port("TCP", 80))},
		},
		"a foreign entry that went": {
			facts: facts{held(tcp(9000), tcpMap), public()},
			want:  []string{"stream/public TCP/9000 is claimed for ConfigMap edge/tcp, which is not there or does not ask for it"},
		},
		"a foreign entry of a class that went": {
			facts: facts{held(tcp(9000), tcpMap)},
			want:  []string{"stream/public TCP/9000 is claimed for ConfigMap edge/tcp, which is not there or does not ask for it"},
		},
		"an entry without a claim": {
			facts: facts{public("5432")}, want: []string{"stream/public TCP/5432 stands in ConfigMap edge/tcp and " + noClaim},
		},
		"an entry and a port without a claim are one point": {
			facts: facts{class("public", metav1.ConditionTrue, []string{"5432"}, port("TCP", 5432))},
			want:  []string{"stream/public TCP/5432 stands in ConfigMap edge/tcp and " + noClaim},
		},
		"a port of the Service without a claim": {
			facts: facts{class("public", metav1.ConditionTrue, nil, port("UDP", 53), port("SCTP", 54))},
			want:  []string{"stream/public UDP/53 stands in Service edge/proxy and " + noClaim},
		},
		"a port that is claimed in another class": {
			facts: facts{held(claim.Stream("internal", v1beta1.TCP, 5432), postgres), asking(ofClass("internal"), listens(5432)), public("5432")},
			want:  []string{"stream/public TCP/5432 stands in ConfigMap edge/tcp and " + noClaim},
		},
		"what stands where another class writes": {
			facts: facts{class("late", metav1.ConditionFalse, []string{"5432"})},
		},

		"a Service with its Ingress": {
			facts: facts{held(http("a.io"), shopWeb), web("host=a.io"), ingress("web", "a.io", "u1")},
		},
		"a Service that has no Ingress yet": {
			facts: facts{held(http("web.example.com"), shopWeb), web("")},
		},
		"a Service whose Ingress still serves what it no longer asks for": {
			facts: facts{held(http("a.io"), shopWeb), held(http("b.io"), shopWeb), web("host=b.io"), ingress("web", "a.io", "u1")},
		},
		"a Service that asks for another host": {
			facts: facts{held(http("a.io"), shopWeb), held(http("b.io"), shopWeb), web("host=b.io"), ingress("web", "b.io", "u1")},
			want:  []string{"http a.io/ is claimed for Service shop/web, which is not there or does not ask for it"},
		},
		"a Service whose annotation can't be read": {
			facts: facts{held(http("a.io"), shopWeb), web("host=!")},
		},
		"a Service without the annotation": {
			facts: facts{held(http("a.io"), shopWeb), func(f *Facts) { f.AddService(&metav1.ObjectMeta{Namespace: "shop", Name: "web"}, defaults) }},
			want:  []string{"http a.io/ is claimed for Service shop/web, which is not there or does not ask for it"},
		},
		"an Ingress that was made by hand": {
			facts: facts{held(http("a.io"), byHand), ingress("by-hand", "a.io", "")},
		},
		"an Ingress that serves what is another's, by hand": {
			facts: facts{held(http("a.io"), shopWeb), web("host=a.io"), ingress("by-hand", "a.io", "")},
		},
		"an Ingress without a claim": {
			facts: facts{ingress("by-hand", "a.io", ""), ingress("later", "a.io", "")},
			want:  []string{"http a.io/ stands in Ingress shop/by-hand and " + noClaim},
		},
		"an Ingress with many paths": {
			facts: facts{held(claim.Host("a.io"), byHand), ingress("by-hand", "a.io", "", manyPaths)},
		},
		"an Ingress with many paths, on a host that another Ingress has": {
			facts: facts{held(claim.Host("a.io"), claim.IngressHolder("shop", "first")), ingress("first", "a.io", "", manyPaths), ingress("by-hand", "a.io", "", manyPaths)},
		},
		"an Ingress with many paths, without a claim": {
			facts: facts{held(http("a.io"), byHand), ingress("by-hand", "a.io", "", manyPaths)},
			want:  []string{"http a.io stands in Ingress shop/by-hand and " + noClaim},
		},
		"an Ingress with many paths, and a claim on each": {
			facts: append(eachPath(shopWeb), ingress("web", "a.io", "u1", manyPaths)),
		},
		"an Ingress with too many hosts": {
			facts: facts{ingress("by-hand", "a.io", "", manyHosts)},
		},
		"an Ingress with too many hosts, and claims": {
			facts: facts{
				held(http("a.io"), byHand), held(claim.HTTP("a.io", "/x"), byHand), held(claim.Host("h7.io"), byHand),
				ingress("by-hand", "a.io", "", manyHosts),
			},
			want: []string{
				"http a.io/x is claimed for Ingress shop/by-hand, which is not there or does not ask for it",
				"http h7.io is claimed for Ingress shop/by-hand, which is not there or does not ask for it",
			},
		},
		"an Ingress that has few paths by now": {
			facts: facts{held(claim.Host("a.io"), byHand), held(http("a.io"), byHand), ingress("by-hand", "a.io", "")},
			want:  []string{"http a.io is claimed for Ingress shop/by-hand, which is not there or does not ask for it"},
		},
		"an Ingress that is being deleted": {
			facts: facts{ingress("by-hand", "a.io", "", func(ing *networkingv1.Ingress) { ing.DeletionTimestamp = new(metav1.Now()) })},
			want:  []string{"http a.io/ stands in Ingress shop/by-hand and " + noClaim},
		},
		"a load balancer with an address of its own": {
			facts: facts{held(lan, shopWeb), loadBalancer("web", ours, "192.0.2.1")},
		},
		"a load balancer that shares an address": {
			facts: facts{held(lanPort, shopWeb), loadBalancer("web", ours, "192.0.2.1")},
		},
		"a load balancer on the nodes": {
			facts: facts{held(nodePort, shopWeb), loadBalancer("web", ours, "10.0.0.1", "10.0.0.2")},
		},
		"a load balancer at its cluster IP": {facts: facts{loadBalancer("web", ours, "10.96.0.7")}},
		"a load balancer that waits":        {facts: facts{held(lan, shopWeb), held(nodePort, shopWeb), loadBalancer("web", ours)}},
		"a load balancer of others":         {facts: facts{loadBalancer("web", nil, "192.0.2.1")}},
		"an address without a claim": {
			facts: facts{loadBalancer("web", ours, "192.0.2.1", "10.96.0.7")},
			want:  []string{"addr 192.0.2.1 stands in Service shop/web and " + noClaim},
		},
		"an address in two load balancers": {
			facts: facts{held(lan, shopWeb), loadBalancer("web", ours, "192.0.2.1"), loadBalancer("other", ours, "192.0.2.1")},
			want:  []string{"addr 192.0.2.1 stands in Service shop/other and is claimed for Service shop/web"},
		},
		"an address that its load balancer does not list": {
			facts: facts{held(lan, shopWeb), held(other, shopWeb), loadBalancer("web", ours, "192.0.2.1")},
			want:  []string{"addr 192.0.2.2 is claimed for Service shop/web, which is not there or does not ask for it"},
		},
		"ports that their load balancer does not have": {
			facts: facts{held(claim.NodePort("UDP", 80), shopWeb), held(nodePort, shopWeb), loadBalancer("web", ours)},
			want:  []string{"node UDP/80 is claimed for Service shop/web, which is not there or does not ask for it"},
		},
		"a Service that is no load balancer any longer": {
			facts: facts{
				held(lan, shopWeb), held(nodePort, shopWeb),
				loadBalancer("web", func(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceTypeClusterIP }),
			},
			want: []string{
				"node TCP/80 is claimed for Service shop/web, which is not there or does not ask for it",
				"addr 192.0.2.1 is claimed for Service shop/web, which is not there or does not ask for it",
			},
		},
		"a port of an address that its Service names": {facts: facts{held(lanPort, shopWeb), loadBalancer("web", names("192.0.2.1"))}},
		"a port of one that its Service names in other words": {
			facts: facts{held(lanPort, shopWeb), loadBalancer("web", names("203.0.113.1", "::ffff:192.0.02.1"))},
		},
		"a port of one that its load balancer names, too": {
			facts: facts{held(lanPort, shopWeb), held(claim.Address(other.Address()), shopWeb), loadBalancer("web", balancerNaming("192.0.2.1"), "192.0.2.2")},
		},
		"a port of one that its load balancer names no longer": {
			facts: facts{held(lanPort, shopWeb), held(claim.Address(other.Address()), shopWeb), loadBalancer("web", ours, "192.0.2.2")},
			want:  []string{"addr/192.0.2.1 TCP/80 is claimed for Service shop/web, which is not there or does not ask for it"},
		},
		"a port of one that its Service names no longer": {
			facts: facts{held(lanPort, shopWeb), loadBalancer("web", names("192.0.2.2"))},
			want:  []string{"addr/192.0.2.1 TCP/80 is claimed for Service shop/web, which is not there or does not ask for it"},
		},
		"another port of one that its Service names": {
			facts: facts{held(claim.AddressPort(lan.Address(), "UDP", 80), shopWeb), loadBalancer("web", names("192.0.2.1"))},
			want:  []string{"addr/192.0.2.1 UDP/80 is claimed for Service shop/web, which is not there or does not ask for it"},
		},
		"all of one that its Service names": {
			facts: facts{held(lan, shopWeb), loadBalancer("web", names("192.0.2.1"))},
			want:  []string{"addr 192.0.2.1 is claimed for Service shop/web, which is not there or does not ask for it"},
		},
		"a port of one that another Service names": {
			facts: facts{held(lanPort, shopWeb), loadBalancer("other", names("192.0.2.1"))},
			want:  []string{"addr/192.0.2.1 TCP/80 is claimed for Service shop/web, which is not there or does not ask for it"},
		},
		"one that a Service names without a claim": {facts: facts{loadBalancer("web", names("192.0.2.1"))}}, // the guard tells of it
		"what a Service shares that a class names, and that does not exist": {
			facts: facts{held(lan, proxy), held(nodePort, proxy), func(f *Facts) {
				c := &v1beta1.StreamIngressClass{}
				c.Spec.Service = &v1beta1.ObjectReference{Namespace: "edge", Name: "proxy"}
				f.AddClass(c, Targets{})
			}},
		},
		"a port of the nodes of a class that went, and a stream's": {
			facts: facts{held(claim.NodePort("TCP", 5432), claim.ClassHolder("public")), held(tcp(5432), postgres), asking(listens(5432))},
		},
		"a port of the nodes that is still told to a proxy there": {
			facts: facts{held(claim.NodePort("TCP", 9000), claim.ClassHolder("other")), held(tcp(9000), tcpMap), public("9000"),
				held(claim.NodePort("TCP", 9001), claim.ClassHolder("other"))},
			want: []string{"node TCP/9001 is claimed for StreamIngressClass other, which is not there or does not ask for it"},
		},
		"a port of an address for a class that went, and a stream's": {
			facts: facts{serving("public", 5432), held(tcp(5432), postgres), asking(listens(5432))},
		},
		"a port of an address for a class that went, and nobody's": {
			facts: facts{serving("public", 5432)},
			want:  []string{"addr/192.0.2.1 TCP/5432 is claimed for Service edge/proxy, which is not there or does not ask for it"},
		},
		"a port of an address for a class that has another Service": {
			facts: facts{serving("public", 5432), held(tcp(5432), postgres), asking(listens(5432)), public("5432")},
			want:  []string{"addr/192.0.2.1 TCP/5432 is claimed for Service edge/proxy, which is not there or does not ask for it"},
		},
		"both kinds, by point": {
			facts: facts{public("5432", "80"), held(tcp(443), postgres)},
			want: []string{
				"stream/public TCP/80 stands in ConfigMap edge/tcp and " + noClaim,
				"stream/public TCP/443 " + noHolder,
				"stream/public TCP/5432 stands in ConfigMap edge/tcp and " + noClaim,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, order := range []string{"as given", "the other way round"} {
				f := NewFacts()
				for _, add := range claimsFirst(tc.facts) {
					add(f)
				}
				var got []string
				for _, d := range f.Disagreements() {
					got = append(got, d.String())
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("added %s (-want +got):\n%s", order, diff)
				}
				if name != "an Ingress without a claim" { // there the first one is named
					slices.Reverse(tc.facts)
				}
			}
		})
	}
}

// TestWhereToLook holds what a disagreement is told on.
func TestWhereToLook(t *testing.T) {
	f := NewFacts()
	c := claim.New(tcp(5432), claim.Claimant{Holder: postgres})
	c.UID = "claim"
	f.AddClaim(c, false)
	public("80")(f)
	ingress("by-hand", "a.io", "", func(ing *networkingv1.Ingress) { ing.UID = "ingress" })(f)
	want := map[string]Object{
		"EdgeClaim":          {claim.Holder{Group: v1beta1.GroupName, Kind: "EdgeClaim", Name: "stream.public.tcp.5432"}, "claim"},
		"StreamIngressClass": {claim.Holder{Group: v1beta1.GroupName, Kind: "StreamIngressClass", Name: "public"}, ""},
		"Ingress":            {byHand, "ingress"},
	}
	got := map[string]Object{}
	kinds := map[Kind]bool{}
	for _, d := range f.Disagreements() {
		got[d.Object.Kind], kinds[d.Kind] = d.Object, true
		if d.Kind == ClaimWithoutHolder && d.Holder != postgres {
			t.Errorf("%s names %v", d, d.Holder)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, kind := range Kinds {
		if !kinds[kind] || strings.Contains(string(kind), " ") {
			t.Errorf("no disagreement of kind %q", kind)
		}
	}
}

// TestManyPathsTakeNoMemory: an Ingress lists as many paths as it has room for, and the ledger has its host.
func TestManyPathsTakeNoMemory(t *testing.T) {
	const paths, bound = 30_000, 1 << 20
	f := NewFacts()
	held(claim.Host("a.io"), byHand)(f)
	before := inUse()
	ingress("by-hand", "a.io", "", func(ing *networkingv1.Ingress) {
		http := &networkingv1.HTTPIngressRuleValue{}
		for i := range paths {
			http.Paths = append(http.Paths, networkingv1.HTTPIngressPath{Path: fmt.Sprintf("/%d", i)})
		}
		ing.Spec.Rules[0].HTTP = http
	})(f)
	if kept := inUse() - before; kept > bound {
		t.Errorf("of %d paths, %d bytes are kept, want at most %d", paths, kept, bound)
	}
	if found := f.Disagreements(); len(found) > 0 {
		t.Errorf("they disagree: %v", found)
	}
}

// inUse is how much of the heap is in use, in bytes.
func inUse() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
