package integration

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// node makes a node that is ready, with addresses.
func (w *fixture) node(name string, addresses ...string) *corev1.Node {
	w.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	w.create(n)
	for _, address := range addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
	}
	w.setReady(n, corev1.ConditionTrue)
	return n
}

// setReady writes the status of a node.
func (w *fixture) setReady(n *corev1.Node, ready corev1.ConditionStatus) {
	w.t.Helper()
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	if err := w.Client.Status().Update(w.t.Context(), n); err != nil {
		w.t.Fatal(err)
	}
}

// endpoints are endpoints of a Service on nodes: "node" for one that is ready, "node!" for one that is not.
func endpoints(key, name string, nodes ...string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}
	var service string
	slice.Namespace, service, _ = strings.Cut(key, "/")
	slice.Name, slice.Labels = name, map[string]string{discoveryv1.LabelServiceName: service}
	for _, node := range nodes {
		ready := !strings.HasSuffix(node, "!")
		node = strings.TrimSuffix(node, "!")
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{"10.1.0.1"}, NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		})
	}
	return slice
}

// local keeps traffic on the node that it reaches.
func local(svc *corev1.Service) {
	svc.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
}

// TestNodeAddresses serves Services at the addresses of the nodes, whose ports they share.
func TestNodeAddresses(t *testing.T) {
	t.Parallel()
	w := balancing(t)
	w.create(namespace("nodes"), source("nodes", v1beta1.SourceNodeIP, forAll))
	early := balancer("nodes/early", ports(port("", 8080)))
	w.create(early)
	w.hasEvent(early, "Warning NoReadyNode", "no node of AddressPool nodes takes traffic")
	a, b := w.node("a", "192.0.2.11", "2001:db8::11"), w.node("b", "192.0.2.12")
	w.balances(early, "192.0.2.11 VIP TCP/8080\n192.0.2.12 VIP TCP/8080")

	web := balancer("nodes/web")
	w.create(web)
	w.balances(web, "192.0.2.11 VIP TCP/80\n192.0.2.12 VIP TCP/80")
	w.pointHeldBy("node.tcp.80", "Service nodes/web")

	t.Log("ports are refused at once: what another has, and what nodes need for themselves")
	_ = w.refusedSaying(balancer("nodes/other", ports(port("a", 443), port("b", 80))),
		`spec.ports[1].port: Duplicate value: "TCP/80": held by Service nodes/web since`,
		"on all nodes of AddressPool nodes; choose another port, or a pool with addresses")
	_ = w.refusedSaying(balancer("nodes/ssh", ports(port("", 22))),
		"spec.ports[0].port: Invalid value: 22: the nodes reserve this port for themselves")
	udp := balancer("nodes/udp", ports(port("", 80, UDP)))
	w.create(udp)
	w.balances(udp, "192.0.2.11 VIP UDP/80\n192.0.2.12 VIP UDP/80")
	w.editRefusedSaying(udp, ports(port("a", 80, UDP), port("b", 8080)), `"TCP/8080": held by Service nodes/early since`)
	edit(w, udp, ports(port("a", 81, UDP)))
	w.balances(udp, "192.0.2.11 VIP UDP/81\n192.0.2.12 VIP UDP/81")
	w.pointHeldBy("node.udp.80", "")

	t.Log("nodes come and go")
	w.setReady(b, corev1.ConditionFalse)
	w.balances(web, "192.0.2.11 VIP TCP/80")
	w.setReady(b, corev1.ConditionTrue)
	w.balances(web, "192.0.2.11 VIP TCP/80\n192.0.2.12 VIP TCP/80")
	edit(w, a, func(n *corev1.Node) { metav1.SetMetaDataLabel(&n.ObjectMeta, corev1.LabelNodeExcludeBalancers, "") })
	w.balances(web, "192.0.2.12 VIP TCP/80")
	c := w.node("c", "192.0.2.13")
	w.balances(web, "192.0.2.12 VIP TCP/80\n192.0.2.13 VIP TCP/80")
	edit(w, a, func(n *corev1.Node) { delete(n.Labels, corev1.LabelNodeExcludeBalancers) })
	w.delete(c)
	w.balances(web, "192.0.2.11 VIP TCP/80\n192.0.2.12 VIP TCP/80")

	t.Log("with externalTrafficPolicy Local only nodes with endpoints that are ready")
	edit(w, web, local)
	w.balances(web, "")
	w.hasEvent(web, "Warning NoReadyNode", "as externalTrafficPolicy is Local, has an endpoint that is ready")
	slice := endpoints("nodes/web", "web-1", "a!", "b")
	w.create(slice)
	w.balances(web, "192.0.2.12 VIP TCP/80")
	edit(w, slice, func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Ready = new(true) })
	w.balances(web, "192.0.2.11 VIP TCP/80\n192.0.2.12 VIP TCP/80")

	t.Log("both families, those of nodes that have them")
	both := balancer("nodes/both", ports(port("", 90)), dualStack(corev1.IPFamilyPolicyPreferDualStack))
	w.create(both)
	w.balances(both, "192.0.2.11 VIP TCP/90\n192.0.2.12 VIP TCP/90\n2001:db8::11 VIP TCP/90")
}

// TestClusterIPs serves Services at their own cluster IPs.
func TestClusterIPs(t *testing.T) {
	t.Parallel()
	w := balancing(t)
	w.create(namespace("own"), source("own", v1beta1.SourceClusterIP, forAll))
	svc := balancer("own/web", dualStack(corev1.IPFamilyPolicyPreferDualStack))
	w.create(svc)
	w.eventually("the cluster IPs to be served", func() error {
		w.get(svc)
		return is(statusOf(svc), svc.Spec.ClusterIPs[0]+" Proxy TCP/80\n"+svc.Spec.ClusterIPs[1]+" Proxy TCP/80")
	})
	w.pointHeldBy("addr."+strings.ReplaceAll(svc.Spec.ClusterIP, ".", "-"), "Service own/web")
}

// TestBothFamilies gives Services an address of each of their families.
func TestBothFamilies(t *testing.T) {
	t.Parallel()
	w := balancing(t)
	mixed := addressPool("mixed", []string{"198.51.100.0/31", "2001:db8:46::/126"}, forAll)
	w.create(namespace("both"),
		addressPool("four", []string{"192.0.2.0/30"}, forAll),
		addressPool("six", []string{"2001:db8:6::/64"}, forAll, onRequest),
		mixed)
	one, two := balancer("both/one"), balancer("both/two", dualStack(corev1.IPFamilyPolicyRequireDualStack))
	swapped := balancer("both/swapped", dualStack(corev1.IPFamilyPolicyRequireDualStack, corev1.IPv6Protocol, corev1.IPv4Protocol))
	w.create(one)
	w.balances(one, "192.0.2.0 VIP TCP/80")
	w.create(two)
	w.balances(two, "198.51.100.0 VIP TCP/80\n2001:db8:46:: VIP TCP/80")
	w.create(swapped)
	w.balances(swapped, "2001:db8:46::1 VIP TCP/80\n198.51.100.1 VIP TCP/80")
	t.Log("no pool has both left: one of each")
	third := balancer("both/third", dualStack(corev1.IPFamilyPolicyRequireDualStack))
	w.create(third)
	w.balances(third, "192.0.2.1 VIP TCP/80\n2001:db8:46::2 VIP TCP/80")
	exact := balancer("both/exact", dualStack(corev1.IPFamilyPolicyPreferDualStack), wants("192.0.2.3, 2001:db8:6::7"))
	w.admitted(exact)
	w.balances(exact, "192.0.2.3 VIP TCP/80\n2001:db8:6::7 VIP TCP/80")
	t.Log("a family that is no longer asked for is given back, and one that is asked for added")
	w.counts(mixed, "5 of 6, 1")
	edit(w, two, func(svc *corev1.Service) {
		single := corev1.IPFamilyPolicySingleStack
		svc.Spec.IPFamilyPolicy, svc.Spec.IPFamilies, svc.Spec.ClusterIPs = &single, svc.Spec.IPFamilies[:1], svc.Spec.ClusterIPs[:1]
	})
	w.balances(two, "198.51.100.0 VIP TCP/80")
	w.pointHeldBy("addr.2001-db8-46--0", "")
	w.counts(mixed, "4 of 6, 2") // who gives addresses knows by now that it is free
	edit(w, one, dualStack(corev1.IPFamilyPolicyPreferDualStack))
	w.balances(one, "192.0.2.0 VIP TCP/80\n2001:db8:46:: VIP TCP/80")
}
