package integration

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// TestTheProxyKeepsItsAddress has a proxy share its address with Services of tenants. What is opened on the proxy is opened
// on the address, so that a port which a tenant has there is no stream's, and the other way round.
func TestTheProxyKeepsItsAddress(t *testing.T) {
	t.Parallel()
	w := inWorld(t, start(t, harness.Options{Replicas: 2}))
	w.create(namespace("front"), namespace("tenant"))
	w.unguarded(addressPool("front", []string{"198.51.100.9/32"}, sharesPorts, forAll, onRequest))
	// In a namespace that the webhook for Services leaves out.
	proxy := balancer("kube-system/front", inPool("front"), ports(port("https", 443)))
	w.create(proxy)
	w.balances(proxy, "198.51.100.9 VIP TCP/443")
	class := streamClass("front", "front", autoAssign(6999, 7000))
	class.Spec.Service = &v1beta1.ObjectReference{Namespace: "kube-system", Name: "front"}
	w.create(class)
	w.classHas(class, v1beta1.ConditionAccepted, "True Accepted")
	e := &edge{world: w, class: class, namespace: "front"}
	theirs := balancer("tenant/theirs", inPool("front"), ports(port("theirs", 6999)))
	w.create(theirs)
	w.balances(theirs, "198.51.100.9 VIP TCP/6999")

	t.Log("a stream is refused the port, inline")
	w.toldOf(sti("front/taken", of("front"), tcp(6999)), "spec.listen: Duplicate value", "held by Service tenant/theirs",
		"198.51.100.9", "Service kube-system/front", "nearby: ")
	t.Log("a drawn one is given another")
	drawn := sti("front/drawn", of("front"), auto(TCP))
	w.create(drawn)
	e.leads(TCP, 7000, "front/web:80")
	mustContain(t, w.refusal(w.try(sti("front/none", of("front"), auto(TCP)))).Error(), "spec.listen")

	t.Log("the port of a stream is nobody else's on the address")
	w.balances(proxy, "198.51.100.9 VIP TCP/443 TCP/7000")
	w.pointHeldBy("addr.198-51-100-9.tcp.7000", "Service kube-system/front")
	mustContain(t, w.refusal(w.try(balancer("tenant/late", wants("198.51.100.9"), ports(port("late", 7000))))).Error(), "held by Service kube-system/front")

	t.Log("past admission, the port stays closed and the proxy keeps its address")
	restore := w.withoutWebhooks()
	bypass := sti("front/bypass", of("front"), tcp(6999))
	w.create(bypass)
	w.has(bypass, v1beta1.ConditionAccepted, "False PortConflict")
	restore()
	w.balances(proxy, "198.51.100.9 VIP TCP/443 TCP/7000")
	w.balances(theirs, "198.51.100.9 VIP TCP/6999")

	t.Log("free on both when the stream goes")
	w.delete(drawn)
	w.pointHeldBy("addr.198-51-100-9.tcp.7000", "")
	late := balancer("tenant/late", inPool("front"), ports(port("late", 7000)))
	w.create(late)
	w.balances(late, "198.51.100.9 VIP TCP/7000")
	w.balances(proxy, "198.51.100.9 VIP TCP/443")
}

// TestTheProxyOnTheNodes is the same for a proxy that has the nodes' addresses.
func TestTheProxyOnTheNodes(t *testing.T) {
	t.Parallel()
	w := inWorld(t, start(t, harness.Options{Replicas: 2}))
	w.create(namespace("nodes"), namespace("tenant"))
	w.unguarded(source("nodes", v1beta1.SourceNodeIP))
	w.node("one", "10.0.0.1")
	proxy := balancer("kube-system/nodes", from("nodes"), ports(port("https", 443)))
	theirs := balancer("tenant/theirs", from("nodes"), ports(port("theirs", 6999)))
	w.create(proxy, theirs)
	w.balances(proxy, "10.0.0.1 VIP TCP/443")
	w.balances(theirs, "10.0.0.1 VIP TCP/6999")
	class := streamClass("nodes", "nodes")
	class.Spec.Service = &v1beta1.ObjectReference{Namespace: "kube-system", Name: "nodes"}
	w.create(class)
	w.classHas(class, v1beta1.ConditionAccepted, "True Accepted")
	w.toldOf(sti("nodes/taken", of("nodes"), tcp(6999)), "held by Service tenant/theirs", "on the nodes")
	mustContain(t, w.refusal(w.try(sti("nodes/kubelet", of("nodes"), tcp(10250)))).Error(), "the nodes reserve this port")
	w.create(sti("nodes/s", of("nodes"), tcp(7000)))
	w.balances(proxy, "10.0.0.1 VIP TCP/443 TCP/7000")
	mustContain(t, w.refusal(w.try(balancer("tenant/late", from("nodes"), ports(port("late", 7000))))).Error(), "held by Service kube-system/nodes")

	t.Log("a proxy on the host network is not seen there: who makes the class or the pool is told so")
	k := w.warned()
	must(w, k.Create(t.Context(), streamClass("host", "host", hostNetwork)))
	mustContain(t, k.said(), "class host has no service", "AddressPool nodes", "--reserved-node-ports")
	w.eventually("the class to be known", func() error {
		must(w, k.Create(t.Context(), source("more", v1beta1.SourceNodeIP, onRequest), client.DryRunAll))
		return is(strings.Contains(k.said(), "class host has no service"), true)
	})
}
