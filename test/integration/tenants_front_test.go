package integration

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// TestTheProxyKeepsItsAddress has a proxy share its address with Services of tenants. What is opened on the proxy is opened
// on the address, so that a port which a tenant has there is no stream's, and the other way round.
func TestTheProxyKeepsItsAddress(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 2}))
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
	e := &edge{fixture: w, class: class, namespace: "front"}
	theirs := balancer("tenant/theirs", inPool("front"), ports(port("theirs", 6999)))
	w.create(theirs)
	w.balances(theirs, "198.51.100.9 VIP TCP/6999")

	t.Log("a stream is refused the port, inline")
	taken := sti("front/taken", of("front"), tcp(6999))
	w.everyReplica("a port of the address to be refused", func() error {
		return says(w.Client.Create(t.Context(), taken.DeepCopy(), client.DryRunAll), "held by Service tenant/theirs")
	})
	w.toldOf(taken, "spec.listen: Duplicate value", "held by Service tenant/theirs",
		"198.51.100.9", "Service kube-system/front", "nearby: ")
	t.Log("a drawn one is given another")
	drawn := sti("front/drawn", of("front"), auto(TCP))
	w.create(drawn)
	e.leads(TCP, 7000, "front/web:80")
	mustContain(t, w.refusal(w.try(sti("front/none", of("front"), auto(TCP)))).Error(), "spec.listen")

	t.Log("the port of a stream is nobody else's on the address")
	w.balances(proxy, "198.51.100.9 VIP TCP/443 TCP/7000")
	w.pointHeldBy("addr.198-51-100-9.tcp.7000", "Service kube-system/front")
	_ = w.refusedSaying(balancer("tenant/late", wants("198.51.100.9"), ports(port("late", 7000))), "held by Service kube-system/front")

	t.Log("past admission, the port stays closed and the proxy keeps its address")
	restore := w.withoutWebhooks()
	bypass := sti("front/bypass", of("front"), tcp(6999))
	w.create(bypass)
	w.has(bypass, v1beta1.ConditionAccepted, "False PortConflict")
	restore()
	w.balances(proxy, "198.51.100.9 VIP TCP/443 TCP/7000")
	w.balances(theirs, "198.51.100.9 VIP TCP/6999")

	t.Log("nor does a proxy lose its address to a stream that had its port before the proxy shared an address")
	late := func(c *v1beta1.StreamIngressClass) {
		c.Spec.Service = &v1beta1.ObjectReference{Namespace: "kube-system", Name: "late-front"}
	}
	waits := sti("front/waits", of("late-front"), tcp(6999))
	w.create(namespace("late-front"), streamClass("late-front", "late-front", late))
	w.admitted(waits)
	w.has(waits, v1beta1.ConditionProgrammed, "False ServiceNotFound")
	w.delete(streamClass("late-front", "late-front"))
	w.has(waits, v1beta1.ConditionAccepted, "False ClassNotFound")
	lateProxy := balancer("kube-system/late-front", inPool("front"), ports(port("https", 444)))
	w.create(lateProxy)
	w.balances(lateProxy, "198.51.100.9 VIP TCP/444")
	w.create(streamClass("late-front", "late-front", late))
	w.has(waits, v1beta1.ConditionProgrammed, "False PortRefused")
	mustContain(t, messageOf(waits.Status.Conditions, v1beta1.ConditionProgrammed), "Service kube-system/late-front", "TCP/6999", "held by Service tenant/theirs")
	w.has(waits, v1beta1.ConditionAccepted, "True Accepted")
	w.balances(lateProxy, "198.51.100.9 VIP TCP/444")
	w.balances(theirs, "198.51.100.9 VIP TCP/6999")

	t.Log("free on both when the stream goes")
	w.delete(drawn)
	w.pointHeldBy("addr.198-51-100-9.tcp.7000", "")
	next := balancer("tenant/late", inPool("front"), ports(port("late", 7000)))
	w.create(next)
	w.balances(next, "198.51.100.9 VIP TCP/7000")
	w.balances(proxy, "198.51.100.9 VIP TCP/443")
}

// TestTheProxyOnTheNodes is the same for a proxy that has the nodes' addresses.
func TestTheProxyOnTheNodes(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 2}))
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
	taken := sti("nodes/taken", of("nodes"), tcp(6999))
	w.everyReplica("a port of the nodes to be refused", func() error {
		return says(w.Client.Create(t.Context(), taken.DeepCopy(), client.DryRunAll), "held by Service tenant/theirs")
	})
	w.toldOf(taken, "held by Service tenant/theirs", "on the nodes")
	mustContain(t, w.refusal(w.try(sti("nodes/kubelet", of("nodes"), tcp(10250)))).Error(), "the nodes reserve this port")
	w.create(sti("nodes/s", of("nodes"), tcp(7000)))
	w.balances(proxy, "10.0.0.1 VIP TCP/443 TCP/7000")
	_ = w.refusedSaying(balancer("tenant/late", from("nodes"), ports(port("late", 7000))), "held by Service kube-system/nodes")
}

// TestAProxyOnTheHostNetwork has streams of a proxy that listens on the nodes, and Services that get the nodes' addresses: one
// port is one of theirs.
func TestAProxyOnTheHostNetwork(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 2}))
	e := w.newEdge("host", hostNetwork, autoAssign(7000, 7001))
	foreign := configMap(e.namespace+"/tcp-services", nil)
	w.create(namespace("host"), namespace("tenant"))
	w.node("one", "10.0.0.1")
	before := sti("host/before", of("host"), tcp(5432))
	w.create(before)
	w.programmed(before)
	edit(w, foreign, func(cm *corev1.ConfigMap) { cm.Data["9000"] = manual })

	t.Log("whoever makes the first pool of the nodes' addresses is told to reserve what the proxy has anyway")
	k := w.warned()
	pool := source("nodes", v1beta1.SourceNodeIP)
	w.eventually("the class to be known", func() error {
		must(w, k.Create(t.Context(), pool.DeepCopy(), client.DryRunAll))
		return is(strings.Contains(k.said(), "class host has no service"), true)
	})
	edit(w, e.class, reserved(80, 80))
	w.unguarded(pool)

	t.Log("what the proxy has then is no Service's")
	w.pointHeldBy("node.tcp.5432", "StreamIngressClass host")
	w.pointHeldBy("node.tcp.9000", "StreamIngressClass host")
	refused := func(port int32, why string) {
		t.Helper()
		late := balancer("tenant/late", from("nodes"), ports(numberedPort(port)))
		w.everyReplica(fmt.Sprintf("a Service with port %d to be refused", port), func() error {
			return says(w.Client.Create(t.Context(), late.DeepCopy(), client.DryRunAll), why)
		})
		mustContain(t, w.refusal(w.try(late)).Error(), why)
	}
	refused(5432, "held by StreamIngressClass host")
	refused(9000, "held by StreamIngressClass host")
	w.eventually("what the class reserves to count", func() error {
		return says(w.Client.Create(t.Context(), balancer("tenant/late", from("nodes"), ports(numberedPort(80))), client.DryRunAll), "the nodes reserve this port")
	})

	t.Log("and the other way round")
	theirs := balancer("tenant/theirs", from("nodes"), ports(numberedPort(7000)))
	w.create(theirs)
	w.balances(theirs, "10.0.0.1 VIP TCP/7000")
	w.toldOf(sti("host/taken", of("host"), tcp(7000)), "spec.listen: Duplicate value", "held by Service tenant/theirs", "on the nodes")
	drawn := sti("host/drawn", of("host"), auto(TCP))
	w.create(drawn)
	e.leads(TCP, 7001, "host/web:80")

	t.Log("past admission, the Service keeps its port and the stream is told")
	restore := w.withoutWebhooks()
	bypass := sti("host/bypass", of("host"), tcp(7000))
	w.create(bypass)
	w.has(bypass, v1beta1.ConditionAccepted, "False PortConflict")
	restore()
	w.balances(theirs, "10.0.0.1 VIP TCP/7000")

	t.Log("of many that ask for one port at once, only one kind gets it")
	for port := int32(8000); port < 8020; port++ {
		var both sync.WaitGroup
		var admitted [2]error
		both.Go(func() { admitted[0] = w.try(sti(fmt.Sprintf("host/r%d", port), of("host"), tcp(port))) })
		both.Go(func() {
			admitted[1] = w.try(balancer(fmt.Sprintf("tenant/r%d", port), from("nodes"), ports(numberedPort(port))))
		})
		both.Wait()
		if admitted[0] == nil && admitted[1] == nil {
			t.Errorf("port %d is a stream's and a Service's", port)
		}
	}

	t.Log("a port is free when its stream is gone, whichever class it was of")
	other := w.newEdge("other", hostNetwork)
	twin := sti("host/twin", of("other"), tcp(5432))
	w.eventually("the class to be known", func() error { return w.try(twin) })
	other.leads(TCP, 5432, "host/web:80")
	w.delete(before)
	e.leads(TCP, 5432, "closed")
	refused(5432, "held by StreamIngressClass ")
	w.delete(twin)
	w.pointHeldBy("node.tcp.5432", "")
	late := balancer("tenant/late", from("nodes"), ports(numberedPort(5432)))
	w.admitted(late)
	w.balances(late, "10.0.0.1 VIP TCP/5432")
}

func numberedPort(number int32) corev1.ServicePort { return port(fmt.Sprintf("p%d", number), number) }
