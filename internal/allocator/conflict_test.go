package allocator

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// heldByX is how a conflict begins that the Service shop/x is in.
const heldByX = "held by Service shop/x since 2026-07-01T12:30:00Z"

// orHandedOver is how a conflict ends where the holder could hand over what it has to shop/web.
const orHandedOver = "; or have its holder hand it over, by the annotation nginx-stream.jeffthecoder.xyz/hand-over-to: shop/web"

func addressTaken(ip, text string) []verdict {
	return []verdict{{v1beta1.ReasonAddressConflict,
		`metadata.annotations[nginx-stream.jeffthecoder.xyz/addresses]: Duplicate value: "` + ip + `": ` + text}}
}

func portTaken(path, port, text string) verdict {
	return verdict{v1beta1.ReasonPortConflict, path + `: Duplicate value: "` + port + `": ` + text}
}

func TestAddressConflict(t *testing.T) {
	const asked = "192.0.2.1"
	const instead = "; free in AddressPool a is 192.0.2.2, or leave the address out to be given one"
	free := addressTaken(asked, heldByX+instead+orHandedOver)
	olderField := func(s *corev1.Service) { s.Spec.LoadBalancerIP = asked }
	held := func(more ...*v1beta1.AddressPool) *cluster {
		return clusterWith(append(more, pool("a", "192.0.2.1,192.0.2.2"))...).taken("x", at(asked))
	}
	checkAll(t, map[string]allocated{
		"another is free":            {in: held(), svc: asking(forAddresses(asked)), why: free},
		"of a pool":                  {in: held(), svc: asking(forAddresses(asked), forPool("a")), why: free},
		"another pool is no way out": {in: held(pool("b", "198.51.100.1")), svc: asking(forAddresses(asked)), why: free},
		"nor are ports of the nodes": {in: held(pool("nodes", "")), svc: asking(forAddresses(asked)), why: free},
		"nor is the cluster IP": {in: held(clusterIPPool("own")), svc: asking(forAddresses(asked), withClusterIPs("10.96.0.9")),
			why: free},
		"nor is an address of the other family": {in: held(pool("six", "2001:db8::1")), svc: asking(forAddresses(asked), eitherFamily), why: free},
		"no other is free": {in: held().taken("y", at("192.0.2.2")), svc: asking(forAddresses(asked)),
			why: addressTaken(asked, heldByX+"; AddressPool a has no other that is free"+orHandedOver)},
		"a port of it is held": {in: clusterWith(pool("a", "192.0.2.1,192.0.2.2")).taken("x", portAt(asked, 443)), svc: asking(forAddresses(asked)),
			why: addressTaken(asked, heldByX+instead)},
		"it was asked for with the older field": {in: held(), svc: asking(olderField), why: []verdict{{v1beta1.ReasonAddressConflict,
			`spec.loadBalancerIP: Duplicate value: "192.0.2.1": ` + heldByX + instead + orHandedOver}}},
		"it has another, and does not get this": {in: held(), svc: asking(forAddresses(asked)), held: []claim.Coordinate{at("192.0.2.2")},
			why: addressTaken(asked, heldByX+"; AddressPool a has no other that is free"+orHandedOver)},
		"its cluster IP is held": {in: clusterWith(clusterIPPool("own")).taken("x", at("10.96.0.9")), svc: asking(withClusterIPs("10.96.0.9")),
			why: addressTaken("10.96.0.9", heldByX)},
	})
}

func TestPortConflict(t *testing.T) {
	shared := func() *cluster { return clusterWith(pool("s", "192.0.2.1,192.0.2.2", sharesPorts)) }
	free := "; free in AddressPool s is 192.0.2.2"
	nodes := func() *cluster { return clusterWith(pool("nodes", "")) }
	onNodes := heldByX + " on all nodes of AddressPool nodes; choose another port, or a pool with addresses"
	// proxied are the nodes, and a proxy on which somebody has TCP/443, which it has not claimed there yet.
	proxied := func(by claim.Holder) *cluster {
		w := nodes()
		w.classes, w.claims = []*v1beta1.StreamIngressClass{class("other", onHostNetwork), class("public", onHostNetwork)}, claims(by, tcp(443))
		return w
	}
	behindService := func() *cluster {
		w := proxied(claim.StreamHolder("shop", "postgres"))
		w.classes = []*v1beta1.StreamIngressClass{class("public")}
		return w
	}
	isSCTP := func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolSCTP }
	onProxy := ` since 2026-07-01T12:30:00Z on class "public", whose proxy listens on all nodes of AddressPool nodes; ` +
		"choose another port, or a pool with addresses"
	onShared := heldByX + " on 192.0.2.1 of AddressPool s; choose another port" + free
	checkAll(t, map[string]allocated{
		"of an address that is asked for": {in: shared().taken("x", portAt("192.0.2.1", 443)), svc: asking(forAddresses("192.0.2.1"), onPorts(80, 443)),
			why: []verdict{portTaken("spec.ports[1].port", "TCP/443", onShared+", or leave the address out to be given one"+orHandedOver)}},
		"of an address that it has": {in: shared().taken("x", portAt("192.0.2.1", 443)), svc: asking(onPorts(80, 443)),
			held: []claim.Coordinate{portAt("192.0.2.1", 80)}, why: []verdict{portTaken("spec.ports[1].port", "TCP/443", onShared+orHandedOver+", with 192.0.2.1 asked for by name")}},
		"the whole address is held": {in: shared().taken("x", at("192.0.2.1")), svc: asking(forAddresses("192.0.2.1")),
			why: []verdict{portTaken("spec.ports[0].port", "TCP/80", onShared+", or leave the address out to be given one")}},
		"of the nodes": {in: nodes().taken("x", claim.NodePort("TCP", 443)), svc: asking(onPorts(80, 443)),
			why: []verdict{portTaken("spec.ports[1].port", "TCP/443", onNodes)}},
		"several of the nodes": {in: nodes().taken("x", claim.NodePort("TCP", 80), claim.NodePort("TCP", 443)), svc: asking(onPorts(80, 443)),
			why: []verdict{portTaken("spec.ports[0].port", "TCP/80", onNodes), portTaken("spec.ports[1].port", "TCP/443", onNodes)}},
		"one comes that is held": {in: nodes().taken("x", claim.NodePort("TCP", 443)), svc: asking(onPorts(80, 443)),
			held: []claim.Coordinate{claim.NodePort("TCP", 80)}, why: []verdict{portTaken("spec.ports[1].port", "TCP/443", onNodes)}},
		"of a stream, and about to be claimed on the nodes": {in: proxied(claim.StreamHolder("shop", "postgres")), svc: asking(onPorts(80, 443)),
			why: []verdict{portTaken("spec.ports[1].port", "TCP/443", "held by StreamIngress shop/postgres"+onProxy)}},
		"of what is foreign on a proxy there": {in: proxied(claim.ConfigMapHolder("edge", "tcp")), svc: asking(onPorts(80, 443)),
			why: []verdict{portTaken("spec.ports[1].port", "TCP/443", "held by ConfigMap edge/tcp"+onProxy)}},
		"of a stream, and one that it has": {in: proxied(claim.StreamHolder("shop", "postgres")), svc: asking(onPorts(443)),
			held: []claim.Coordinate{claim.NodePort("TCP", 443)}, want: []string{"nodes node.tcp.443"}},
		"of another protocol on a proxy there": {in: proxied(claim.StreamHolder("shop", "postgres")), svc: asking(onPorts(443), isSCTP),
			want: []string{"nodes node.sctp.443"}},
		"of a proxy with a Service": {in: behindService(), svc: asking(onPorts(443)), want: []string{"nodes node.tcp.443"}},
		"the nodes reserve it": {in: nodes(), svc: asking(onPorts(80, 22)), why: []verdict{{v1beta1.ReasonPortReserved,
			"spec.ports[1].port: Invalid value: 22: the nodes reserve this port for themselves, and AddressPool nodes would open it on all of them"}}},
		"the nodes reserve what it has": {in: nodes(), svc: asking(onPorts(22)), held: []claim.Coordinate{claim.NodePort("TCP", 22)},
			want: []string{"nodes node.tcp.22"}},
		"addresses reserve nothing": {in: clusterWith(pool("a", "192.0.2.1")), svc: asking(onPorts(22)), want: []string{"a addr.192-0-2-1 auto-assigned"}},
		"the nodes' is held, and addresses are full": {in: clusterWith(pool("nodes", ""), pool("a", "192.0.2.1")).
			taken("x", claim.NodePort("TCP", 80), at("192.0.2.1")), svc: asking(), why: []verdict{{v1beta1.ReasonNoFreeAddress,
			`spec.type: Invalid value: "LoadBalancer": AddressPool a has no free address of IPv4 left`}}},
	})
}

func TestNoFreeAddress(t *testing.T) {
	full := func(path, text string) []verdict {
		return []verdict{{v1beta1.ReasonNoFreeAddress, path + ": Invalid value: " + text}}
	}
	checkAll(t, map[string]allocated{
		"the pool is full": {in: clusterWith(pool("a", "192.0.2.1")).taken("x", at("192.0.2.1")), svc: asking(),
			why: full("spec.type", `"LoadBalancer": AddressPool a has no free address of IPv4 left`)},
		"all are": {in: clusterWith(pool("b", "192.0.2.1"), pool("a", "192.0.2.2")).taken("x", at("192.0.2.1"), at("192.0.2.2")), svc: asking(),
			why: full("spec.type", `"LoadBalancer": the AddressPools a, b have no free address of IPv4 left`)},
		"all ports are taken": {in: clusterWith(pool("s", "192.0.2.1", sharesPorts)).taken("x", portAt("192.0.2.1", 80)), svc: asking(),
			why: full("spec.type", `"LoadBalancer": AddressPool s has no free address of IPv4 left with these ports`)},
		"the pool that is asked for is": {in: clusterWith(pool("a", "192.0.2.1"), pool("b", "192.0.2.2")).taken("x", at("192.0.2.1")), svc: asking(forPool("a")),
			why: full(poolPath, `"a": AddressPool a has no free address of IPv4 left`)},
		"the pool that is asked for has none of the family": {in: clusterWith(pool("a", "192.0.2.1")), svc: asking(forPool("a"), ipv6Only),
			why: full(poolPath, `"a": AddressPool a has no free address of IPv6 left`)},
		"of neither family": {in: clusterWith(pool("a", "192.0.2.1,2001:db8::1")).taken("x", at("192.0.2.1"), at("2001:db8::1")), svc: asking(eitherFamily),
			why: full("spec.type", `"LoadBalancer": AddressPool a has no free address of IPv4 and IPv6 left`)},
		"it keeps nothing of a pool that is no longer its": {in: clusterWith(pool("a", "192.0.2.1", forTeam("b")), pool("b", "198.51.100.1")).
			taken("x", at("198.51.100.1")), svc: asking(), held: []claim.Coordinate{at("192.0.2.1")},
			why: full("spec.type", `"LoadBalancer": AddressPool b has no free address of IPv4 left`)},
	})
}

// TestHeldForWhatIsGone asks who holds an address whose holder does not ask for it any longer, or is not Portcullis' at all.
func TestHeldForWhatIsGone(t *testing.T) {
	gone := "held for Service shop/x, which is not stored or no longer asks for it; it is free again "
	w := clusterWith(pool("a", "192.0.2.1"))
	x := w.serviceHolds("x", "")
	foreign := claim.Holder{Kind: "VirtualIP", Namespace: "shop", Name: "x"}
	for name, tc := range map[string]struct {
		stored   bool
		is       corev1.ServiceType
		by       claim.Holder
		left     time.Duration
		wantText string
		named    bool
		wantEnd  string
	}{
		"it asks":           {true, corev1.ServiceTypeLoadBalancer, serviceX, time.Minute, heldByX, false, orHandedOver},
		"it is not stored":  {false, "", serviceX, 90 * time.Second, gone + "in at most 1m30s, try again then", false, ""},
		"its time is over":  {false, "", serviceX, 0, gone + "within seconds, try again then", false, ""},
		"it no longer asks": {true, corev1.ServiceTypeClusterIP, serviceX, time.Minute, gone + "in at most 1m0s, try again then", false, ""},
		"it is no Service":  {false, "", foreign, 0, "held by VirtualIP shop/x since 2026-07-01T12:30:00Z", false, ""},
		"nor has it one":    {true, corev1.ServiceTypeClusterIP, foreign, 0, "held by VirtualIP shop/x since 2026-07-01T12:30:00Z", false, ""},
		"a class names it":  {false, "", serviceX, 0, heldByX, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			delete(w.services, "shop/x")
			w.classes = nil
			if tc.named {
				w.classes = append(w.classes, class("public", func(c *v1beta1.StreamIngressClass) {
					c.Spec.Service = &v1beta1.ObjectReference{Namespace: "shop", Name: "x"}
				}))
			}
			if tc.stored {
				x.Spec.Type, w.services["shop/x"] = tc.is, x
			}
			w.claims, w.grace = claims(tc.by, at("192.0.2.1")), tc.left
			got := Allocate(w, subjectOf(t, asking(forAddresses("192.0.2.1"))), w.graceLeft).Problems
			if diff := cmp.Diff(addressTaken("192.0.2.1", tc.wantText+"; AddressPool a has no other that is free"+tc.wantEnd), verdicts(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

var serviceX = claim.ServiceHolder("shop", "x")
