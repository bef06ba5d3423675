package integration

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/controlplane"
)

// front is a class with the Service of a proxy that stands in front of it.
func (w *fixture) front(class string, proxy *corev1.Service) *edge {
	w.t.Helper()
	e := &edge{fixture: w, namespace: class, class: streamClass(class, class)}
	e.class.Spec.Service = &v1beta1.ObjectReference{Namespace: proxy.Namespace, Name: proxy.Name}
	w.create(namespace(class), e.class)
	w.classHas(e.class, v1beta1.ConditionAccepted, "True Accepted")
	return e
}

// TestAddressesOutliveTheProxysService has the Services in front of three proxies be made anew: one shares an address with tenants,
// one has an address to itself, and one shares the nodes. What they have is nobody else's meanwhile.
func TestAddressesOutliveTheProxysService(t *testing.T) {
	t.Parallel()
	options := auditOptions(3 * time.Second)
	options.ControlPlane = controlplane.Options{Audit: true}
	w := newFixture(t, start(t, options))
	w.create(namespace("edge"), namespace("tenant"))
	w.node("one", "10.0.0.1")
	w.unguarded(addressPool("shared", []string{"198.51.100.9/32"}, sharesPorts, forAll, onRequest),
		addressPool("whole", []string{"198.51.100.10/32"}, forAll, onRequest), source("nodes", v1beta1.SourceNodeIP))
	// Two are in a namespace that the webhook for Services leaves out.
	proxies := map[string]func() *corev1.Service{
		"shared": func() *corev1.Service {
			return balancer("kube-system/shared", inPool("shared"), ports(port("https", 443)))
		},
		"whole": func() *corev1.Service {
			return balancer("edge/whole", inPool("whole"), ports(port("https", 443)))
		},
		"nodes": func() *corev1.Service {
			return balancer("kube-system/nodes", from("nodes"), ports(port("https", 443)))
		},
	}
	at := map[string]string{"shared": "198.51.100.9", "whole": "198.51.100.10", "nodes": "10.0.0.1"}
	asking := map[string]balancerOption{"shared": wants("198.51.100.9"), "whole": wants("198.51.100.10"), "nodes": from("nodes")}
	edges := map[string]*edge{}
	for name, proxy := range proxies {
		w.create(proxy())
		w.balances(proxy(), at[name]+" VIP TCP/443")
		edges[name] = w.front(name, proxy())
		w.create(sti(name+"/s", of(name), tcp(7000)))
		w.balances(proxy(), at[name]+" VIP TCP/443 TCP/7000")
	}
	theirs := balancer("tenant/theirs", asking["shared"], ports(numberedPort(6999)))
	w.create(theirs)
	w.balances(theirs, "198.51.100.9 VIP TCP/6999")
	refused := func(name string, port int32) {
		t.Helper()
		by := "held by Service " + proxies[name]().Namespace + "/" + name + " since "
		mustContain(t, w.refusal(w.try(balancer("tenant/late", asking[name], ports(numberedPort(port))))).Error(), by)
	}

	t.Log("the Services are deleted")
	bystander := balancer("tenant/bystander", asking["shared"], ports(numberedPort(6998)))
	w.create(bystander)
	w.balances(bystander, "198.51.100.9 VIP TCP/6998")
	for _, proxy := range proxies {
		w.delete(proxy())
	}
	w.delete(bystander)
	w.pointHeldBy("addr.198-51-100-9.tcp.6998", "")
	w.settles(5 * time.Second)
	for name := range proxies {
		refused(name, 443)
		refused(name, 7000)
	}

	t.Log("a stream that comes meanwhile has its port on the address, too, if it is free there")
	w.create(sti("shared/later", of("shared"), tcp(7001)), sti("nodes/later", of("nodes"), tcp(7001)))
	refused("shared", 7001)
	refused("nodes", 7001)
	w.toldOf(sti("shared/taken", of("shared"), tcp(6999)), "spec.listen: Duplicate value", "held by Service tenant/theirs", "Service kube-system/shared")
	w.disagree(0, 0)

	t.Log("the Services have what they had when they are back, without a warning")
	k := w.warned()
	for _, proxy := range proxies {
		must(w, k.Create(t.Context(), proxy()))
	}
	if said := k.said(); said != "" {
		t.Errorf("warned: %s", said)
	}
	w.balances(proxies["shared"](), "198.51.100.9 VIP TCP/443 TCP/7000 TCP/7001")
	w.balances(proxies["whole"](), "198.51.100.10 VIP TCP/443 TCP/7000")
	w.balances(proxies["nodes"](), "10.0.0.1 VIP TCP/443 TCP/7000 TCP/7001")
	w.balances(theirs, "198.51.100.9 VIP TCP/6999")

	t.Log("all is free when no class names them any longer")
	w.delete(sti("shared/s"), sti("shared/later"), sti("nodes/s"), sti("nodes/later"), sti("whole/s"))
	for name, proxy := range proxies {
		w.delete(proxy())
		w.delete(edges[name].class)
	}
	for _, point := range []string{"addr.198-51-100-9.tcp.443", "addr.198-51-100-9.tcp.7000", "addr.198-51-100-10", "node.tcp.443", "node.tcp.7001"} {
		w.pointHeldBy(point, "")
	}
	for name, option := range asking {
		late := balancer("tenant/"+name, option, ports(numberedPort(443)))
		w.admitted(late)
		w.balances(late, at[name]+" VIP TCP/443")
	}
	w.disagree(0, 0)
}

// TestPortsOutliveTheirClass has classes go and come back: two whose proxies are on the nodes, and one whose Service shares an
// address. What streams have of them is nobody else's meanwhile.
func TestPortsOutliveTheirClass(t *testing.T) {
	t.Parallel()
	options := auditOptions(3 * time.Second)
	options.ControlPlane = controlplane.Options{Audit: true}
	w := newFixture(t, start(t, options))
	w.create(namespace("away"), namespace("tenant"))
	w.node("one", "10.0.0.1")
	host, other := w.newEdge("host", hostNetwork), w.newEdge("other", hostNetwork)
	proxy := balancer("kube-system/front", inPool("front"), ports(port("https", 443)))
	w.create(proxy)
	front := w.front("front", proxy)
	early, late := sti("away/early", of("front"), tcp(7000)), sti("away/late", of("front"), tcp(7001))
	w.create(early)
	front.leads(TCP, 7000, "away/web:80")
	w.unguarded(addressPool("front", []string{"198.51.100.9/32"}, sharesPorts, forAll, onRequest), source("nodes", v1beta1.SourceNodeIP))
	w.balances(proxy, "198.51.100.9 VIP TCP/443 TCP/7000")
	w.create(late)
	w.balances(proxy, "198.51.100.9 VIP TCP/443 TCP/7000 TCP/7001")
	s, twin := sti("away/s", of("host"), tcp(8080)), sti("away/twin", of("other"), tcp(8080))
	w.create(s, sti("away/u", of("host"), tcp(8081)), twin)
	w.programmed(s, twin)
	w.pointHeldBy("node.tcp.8081", "StreamIngressClass host")
	w.eventually("a class to hold what both have", func() error { return is(w.pointHolder("node.tcp.8080") != "", true) })
	refused := func(port int32, by string, option balancerOption) {
		t.Helper()
		mustContain(t, w.refusal(w.try(balancer("tenant/late", option, ports(numberedPort(port))))).Error(), "held by "+by)
	}
	isHeld := func() {
		t.Helper()
		w.settles(5 * time.Second)
		refused(7000, "Service kube-system/front", wants("198.51.100.9"))
		refused(7001, "Service kube-system/front", wants("198.51.100.9"))
		refused(8080, "StreamIngressClass ", from("nodes"))
		refused(8081, "StreamIngressClass host", from("nodes"))
		w.disagree(0, 0)
	}

	t.Log("the classes go")
	w.delete(host.class, front.class)
	w.balances(proxy, "198.51.100.9 VIP TCP/443")
	isHeld()
	t.Log("so does a stream of the other class on the nodes")
	w.delete(twin)
	other.leads(TCP, 8080, "closed")
	w.heldBy("other", TCP, 8080, "")
	isHeld()

	t.Log("the classes are back")
	host.class, front.class = streamClass("host", host.namespace, hostNetwork), streamClass("front", "front")
	front.class.Spec.Service = &v1beta1.ObjectReference{Namespace: "kube-system", Name: "front"}
	w.create(host.class, front.class)
	host.leads(TCP, 8080, "away/web:80")
	host.leads(TCP, 8081, "away/web:80")
	w.balances(proxy, "198.51.100.9 VIP TCP/443 TCP/7000 TCP/7001")
	w.programmed(s, early, late)
	w.disagree(0, 0)

	t.Log("ports whose streams go while their classes are away are free")
	w.delete(host.class, front.class)
	w.balances(proxy, "198.51.100.9 VIP TCP/443")
	isHeld()
	w.delete(s, early)
	for point, with := range map[int32]balancerOption{7000: wants("198.51.100.9"), 8080: from("nodes")} {
		free := balancer(fmt.Sprintf("tenant/free-%d", point), with, ports(numberedPort(point)))
		w.eventually("the port to be free", func() error { return w.try(free) })
	}
	refused(7001, "Service kube-system/front", wants("198.51.100.9"))
	refused(8081, "StreamIngressClass host", from("nodes"))
	t.Log("and those of a class that comes back with another Service")
	front.class = streamClass("front", "front")
	w.create(front.class)
	w.pointHeldBy("addr.198-51-100-9.tcp.7001", "")
	w.balances(proxy, "198.51.100.9 VIP TCP/443")
	w.disagree(0, 0)
}

// TestPortsOfTheNodesOutliveTheirStreams deletes a stream of a proxy on the nodes, whose entry can't be taken out of the ConfigMap.
func TestPortsOfTheNodesOutliveTheirStreams(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, auditOptions(3*time.Second)))
	e := w.newEdge("host", hostNetwork)
	w.create(namespace("away"), namespace("tenant"))
	w.node("one", "10.0.0.1")
	w.unguarded(source("nodes", v1beta1.SourceNodeIP))
	s := sti("away/s", of("host"), tcp(8080))
	w.create(s)
	e.leads(TCP, 8080, "away/web:80")
	w.pointHeldBy("node.tcp.8080", "StreamIngressClass host")

	allow := w.forbid("patch", "configmaps")
	w.delete(s)
	w.heldBy("host", TCP, 8080, "")
	w.disagree(0, 1) // the entry, which is nobody's, and nothing on the nodes
	theirs := balancer("tenant/theirs", from("nodes"), ports(numberedPort(8080)))
	mustContain(t, w.refusal(w.try(theirs)).Error(), "held by StreamIngressClass host")
	e.leads(TCP, 8080, "away/web:80")

	allow()
	e.leads(TCP, 8080, "closed")
	w.pointHeldBy("node.tcp.8080", "")
	w.admitted(theirs)
	w.balances(theirs, "10.0.0.1 VIP TCP/8080")
}
