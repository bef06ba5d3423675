package stream

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// web is who holds what the Service shop/web has.
var web = claim.ServiceHolder("shop", "web")

// balancer is the Service shop/web of type LoadBalancer, which is Portcullis' to serve.
func balancer() *corev1.Service {
	svc := &corev1.Service{}
	svc.Namespace, svc.Name = "shop", "web"
	svc.Spec.Type, svc.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new(v1beta1.LoadBalancerClass)
	return svc
}

// TestFront asks for ports of a proxy behind shop/web, which holds TCP/443 of an address, or of the nodes, that it shares
// with somebody who holds TCP/7000.
func TestFront(t *testing.T) {
	ip := netip.MustParseAddr("192.0.2.1")
	onAddress := func(port int32) claim.Coordinate { return claim.AddressPort(ip, "TCP", port) }
	onNodes := func(port int32) claim.Coordinate { return claim.NodePort("TCP", port) }
	theirs := claim.ServiceHolder("team", "theirs")
	shares := func(of func(int32) claim.Coordinate) map[claim.Coordinate]*v1beta1.EdgeClaim {
		return both(claims(web, of(443)), claims(theirs, of(7000)))
	}
	for name, tc := range map[string]struct {
		claims map[claim.Coordinate]*v1beta1.EdgeClaim
		change func(*corev1.Service)
		absent bool
		port   claim.Coordinate
		points int
		// says is a part of the refusal, empty for none.
		says string
		free bool
		// beside is another class.
		beside *v1beta1.StreamIngressClass
	}{
		"a free port":              {claims: shares(onAddress), port: tcp(7001), points: 1, free: true},
		"its own port":             {claims: shares(onAddress), port: tcp(443), points: 1, free: true},
		"the other protocol":       {claims: shares(onAddress), port: claim.Stream("public", v1beta1.UDP, 7000), points: 1, free: true},
		"a port of somebody":       {claims: shares(onAddress), port: tcp(7000), points: 1, says: "held by Service team/theirs since"},
		"a port of the nodes":      {claims: shares(onNodes), port: tcp(7000), points: 1, says: "on the nodes, which also serve Service shop/web"},
		"what the nodes reserve":   {claims: shares(onNodes), port: tcp(22), points: 1, says: "the nodes reserve this port"},
		"a free port of the nodes": {claims: shares(onNodes), port: tcp(7001), points: 1, free: true},
		"a port of a proxy there": {claims: both(shares(onNodes), claims(theirs, claim.Stream("other", v1beta1.TCP, 7001))), port: tcp(7001), points: 1,
			beside: class("other", onHostNetwork), says: "on the nodes, which also serve Service shop/web"},
		"a port of a proxy elsewhere": {claims: both(shares(onNodes), claims(theirs, claim.Stream("other", v1beta1.TCP, 7001))), port: tcp(7001), points: 1,
			beside: class("other"), free: true},
		"of both":         {claims: both(shares(onAddress), shares(onNodes)), port: tcp(7001), points: 2, free: true},
		"a whole address": {claims: claims(web, claim.Address(ip)), port: tcp(7000), free: true},
		"no load balancer": {claims: shares(onAddress), port: tcp(7000), free: true,
			change: func(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceTypeClusterIP }},
		"a port of somebody, while the proxy's Service does not exist": {claims: shares(onAddress), absent: true, port: tcp(7000), points: 1,
			says: "held by Service team/theirs since"},
		"its own port, while it does not exist": {claims: shares(onAddress), absent: true, port: tcp(443), points: 1, free: true},
		"of one that had nothing":               {claims: claims(theirs, onAddress(7000)), absent: true, port: tcp(7000), free: true},
	} {
		t.Run(name, func(t *testing.T) {
			proxy := balancer()
			if tc.change != nil {
				tc.change(proxy)
			}
			w := &facts{claims: tc.claims, services: map[string]*corev1.Service{"shop/web": proxy}}
			if tc.beside != nil {
				w.classes = append(w.classes, tc.beside)
			}
			if tc.absent {
				w.services = nil
			}
			class := &v1beta1.StreamIngressClass{}
			class.Spec.Service = &v1beta1.ObjectReference{Namespace: "shop", Name: "web"}
			front := FrontOf(w, class)
			if got := front.Points(tc.port.Protocol(), tc.port.Port()); len(got) != tc.points {
				t.Errorf("it takes %v, want %d", got, tc.points)
			}
			problems := front.Conflicts(w, tc.port)
			if said := problems.ErrorList().ToAggregate(); (said != nil) != (tc.says != "") || said != nil && !strings.Contains(said.Error(), tc.says) {
				t.Errorf("got %v, want %q", said, tc.says)
			}
			var ports PortSet
			ports.AddRange(1, 65535)
			front.Free(w, tc.port.Protocol(), &ports)
			if ports.Has(tc.port.Port()) != tc.free {
				t.Errorf("among those that are free: %v", ports.Has(tc.port.Port()))
			}
		})
	}
}

// TestListedPortsAreNotFree asks for ports of a class at an address that Services list and do not hold.
func TestListedPortsAreNotFree(t *testing.T) {
	listing := func(name string, port int32) *corev1.Service {
		svc := balancer()
		svc.Name = name
		svc.Spec.Ports = []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: port}}
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
		return svc
	}
	moved := listing("moved", 7001)
	moved.Labels = map[string]string{"moved": "a moment ago"}
	class := &v1beta1.StreamIngressClass{}
	class.Name, class.Status.Addresses = "public", []string{"192.0.2.1"}
	class.Spec.AddressPool = &v1beta1.ClassAddressPool{Name: "pool", Namespace: "streams"}
	w := &facts{services: map[string]*corev1.Service{"shop/web": listing("web", 7000), "shop/moved": moved}}
	front := FrontOf(w, class)
	var free PortSet
	free.AddRange(1, 65535)
	front.Free(w, v1beta1.TCP, &free)
	for port, says := range map[int32]string{7000: "held by Service shop/web, on 192.0.2.1", 7001: "", 7002: ""} {
		problems := front.Conflicts(w, tcp(port))
		if says == "" && len(problems) > 0 || says != "" && (len(problems) != 1 || !strings.Contains(problems[0].Err.Detail, says)) {
			t.Errorf("%d: %v", port, problems)
		}
		if want := port == 7002; free.Has(port) != want {
			t.Errorf("%d is among those that are free: %v", port, !want)
		}
	}
	if held := front.Listed(w, claim.NodePort("TCP", 7000)); held != nil {
		t.Errorf("a port of the nodes will be held by %s", held.Spec.HeldBy)
	}
	w.services["shop/web"].Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "10.0.0.1"}, {IP: "10.0.0.2"}}
	onNodes := &Front{class: class, Nodes: true}
	for port, want := range map[int32]int{7000: 1, 7002: 0} {
		if problems := onNodes.Conflicts(w, tcp(port)); len(problems) != want {
			t.Errorf("%d on the nodes: %v", port, problems)
		}
	}
	w.services["shop/web"].Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	own := &Front{class: class, Service: w.services["shop/web"]}
	if held := own.Listed(w, claim.AddressPort(netip.MustParseAddr("192.0.2.1"), "TCP", 7000)); held != nil {
		t.Errorf("its own port will be held by %s", held.Spec.HeldBy)
	}
}

// TestFrontOnTheNodes asks for ports of a proxy on the host network, beside another one and a Service with the nodes' addresses.
func TestFrontOnTheNodes(t *testing.T) {
	onNodes := func(port int32) claim.Coordinate { return claim.NodePort("TCP", port) }
	w := &facts{claims: both(claims(claim.ServiceHolder("team", "theirs"), onNodes(7000)), claims(claim.ClassHolder("other"), onNodes(7001)))}
	class := &v1beta1.StreamIngressClass{}
	class.Name = "public"
	if front := FrontOf(w, class); front != nil {
		t.Errorf("without a pool of the nodes' addresses: %v", front)
	}
	w.givesNodes = true
	front := FrontOf(w, class)
	if front.Holder() != claim.ClassHolder("public") || front.Claimant(claim.NodePort("TCP", 1)).Holder != front.Holder() {
		t.Errorf("it is held by %s", front.Holder())
	}
	var free PortSet
	free.AddRange(1, 65535)
	front.Free(w, v1beta1.TCP, &free)
	for port, says := range map[int32]string{7000: "held by Service team/theirs since", 7001: "", 7002: "", 22: ""} {
		problems := front.Conflicts(w, tcp(port))
		if says == "" && len(problems) > 0 || says != "" && (len(problems) != 1 || !strings.Contains(problems[0].Err.Detail, says)) {
			t.Errorf("%d: %v", port, problems)
		}
		if free.Has(port) != (says == "") {
			t.Errorf("%d is free: %v", port, free.Has(port))
		}
	}
}

// TestFrontOfAGateway has an address of a Gateway shared by its own Service, which has the port of one of its listeners there, and by that
// of a tenant, who has the port of another, which the Gateway's does not have; and another class at the address.
func TestFrontOfAGateway(t *testing.T) {
	ip := netip.MustParseAddr("192.0.2.1")
	onGateway := func(name, address string) *v1beta1.StreamIngressClass {
		c := &v1beta1.StreamIngressClass{}
		c.Name, c.Spec.Gateway = name, &v1beta1.ObjectReference{Namespace: "shop", Name: name}
		c.Status.Addresses = []string{address}
		return c
	}
	public, theirs := onGateway("public", ip.String()), claim.ServiceHolder("team", "theirs")
	own := claims(claim.GatewayHolder("shop", "public"), tcp(80), tcp(443))
	tenant := balancer()
	tenant.Namespace, tenant.Name = "team", "theirs"
	services := map[string]*corev1.Service{"shop/web": balancer(), "team/theirs": tenant}
	at := func(holder claim.Holder, port int32) map[claim.Coordinate]*v1beta1.EdgeClaim {
		return claims(holder, claim.AddressPort(ip, "TCP", port))
	}
	for name, tc := range map[string]struct {
		claims map[claim.Coordinate]*v1beta1.EdgeClaim
		others []*v1beta1.StreamIngressClass
		// holder of what a port takes, zero where it takes nothing.
		holder claim.Holder
		points int
	}{
		"its Service":                    {claims: both(own, at(web, 80)), holder: web, points: 1},
		"a tenant's has another port":    {claims: both(both(own, at(theirs, 80)), at(web, 443)), holder: web, points: 1},
		"a tenant's only":                {claims: both(own, at(theirs, 80))},
		"another class at the address":   {claims: own, others: []*v1beta1.StreamIngressClass{onGateway("other", ip.String())}, holder: claim.ClassHolder("public"), points: 1},
		"another class at another":       {claims: own, others: []*v1beta1.StreamIngressClass{onGateway("other", "192.0.2.2")}},
		"its Service, and another class": {claims: both(own, at(web, 80)), others: []*v1beta1.StreamIngressClass{onGateway("other", ip.String())}, holder: web, points: 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := &facts{claims: tc.claims, services: services, classes: append([]*v1beta1.StreamIngressClass{public}, tc.others...)}
			front := FrontOf(w, public)
			points := front.Points(v1beta1.TCP, 5432)
			if len(points) != tc.points {
				t.Fatalf("it takes %v, want %d", points, tc.points)
			}
			if tc.points > 0 {
				if got := front.Claimant(points[0]).Holder; got != tc.holder {
					t.Errorf("%v is claimed for %s, want %s", points[0], got, tc.holder)
				}
			}
		})
	}
}
