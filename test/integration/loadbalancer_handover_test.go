package integration

import (
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// gives writes the status of a Service as another controller would.
func (w *fixture) gives(svc *corev1.Service, ips ...string) {
	w.t.Helper()
	vip := corev1.LoadBalancerIPModeVIP
	svc.Status.LoadBalancer.Ingress = nil
	for _, ip := range ips {
		svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip, IPMode: &vip})
	}
	if err := w.Client.Status().Update(w.t.Context(), svc); err != nil {
		w.t.Fatal(err)
	}
}

// TestOtherControllers has Services that others serve, or did.
func TestOtherControllers(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{}))
	w.create(namespace("other"))
	w.unguarded(addressPool("other", []string{"192.0.2.0/28"}, forAll))
	theirs := balancer("other/theirs", func(svc *corev1.Service) { svc.Spec.LoadBalancerClass = new("example.com/other") })
	foreign, adopted, twice := balancer("other/foreign", classless), balancer("other/adopted", classless), balancer("other/twice", classless)
	w.create(theirs, foreign, adopted, twice)
	w.gives(theirs, "192.0.2.1")
	w.gives(foreign, "203.0.113.1")
	w.gives(adopted, "192.0.2.5")
	w.gives(twice, "192.0.2.6", "192.0.2.7")

	t.Log("Services without a class are not ours")
	first, err := w.StartReplica(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mine := balancer("other/mine")
	w.create(mine)
	w.balances(mine, "192.0.2.0 VIP TCP/80")
	w.balances(adopted, "192.0.2.5 VIP")
	if err := first.Terminate(); err != nil {
		t.Fatal(err)
	}

	t.Log("Services without a class are ours: addresses that we can give are taken over, others are left alone")
	second, err := w.StartReplica(t.Context(), "--default-load-balancer")
	if err != nil {
		t.Fatal(err)
	}
	w.balances(adopted, "192.0.2.5 VIP TCP/80")
	w.pointHeldBy("addr.192-0-2-5", "Service other/adopted")
	w.hasEvent(foreign, "Normal ForeignLoadBalancer", "another controller has given it its addresses, and they are left alone")
	w.hasEvent(twice, "Normal ForeignLoadBalancer")
	w.balances(foreign, "203.0.113.1 VIP")
	w.balances(twice, "192.0.2.6 VIP\n192.0.2.7 VIP")
	w.balances(theirs, "192.0.2.1 VIP")
	fresh := balancer("other/fresh", classless)
	w.create(fresh)
	w.balances(fresh, "192.0.2.1 VIP TCP/80") // of theirs the ledger knows nothing
	t.Log("the other controller lets go of it")
	w.gives(foreign)
	w.balances(foreign, "192.0.2.2 VIP TCP/80")
	edit(w, foreign, annotated("note", "x"))
	if err := second.Terminate(); err != nil {
		t.Fatal(err)
	}

	t.Log("they are not ours any longer: what we gave them goes")
	if _, err := w.StartReplica(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.balances(fresh, "")
	w.balances(adopted, "")
	w.pointHeldBy("addr.192-0-2-5", "")
	w.pointHeldBy("addr.192-0-2-1", "")
	w.balances(twice, "192.0.2.6 VIP\n192.0.2.7 VIP")
	w.balances(mine, "192.0.2.0 VIP TCP/80")
}

// TestBypassedBalancers makes Services while no replica answers.
func TestBypassedBalancers(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Flags: shortLease}))
	w.create(namespace("bypass"))
	w.unguarded(source("bypass-nodes", v1beta1.SourceNodeIP), addressPool("bypass", []string{"192.0.2.0/29"}, forAll, onRequest))
	w.node("n", "198.51.100.1")
	first := balancer("bypass/a", from("bypass-nodes"), ports(port("http", 80), port("dns", 53, UDP)))
	second := balancer("bypass/b", from("bypass-nodes"), ports(port("ssh", 22), port("http", 80), port("other", 90)))
	broken := balancer("bypass/broken", wants("nonsense"))
	taken := balancer("bypass/taken", wants("192.0.2.3"))
	w.create(first)
	if err := w.try(claim.New(claim.Address(netip.MustParseAddr("192.0.2.3")), claim.Claimant{Holder: claim.ServiceHolder("bypass", "gone"), UID: "gone"})); err != nil {
		t.Fatal(err)
	}
	w.create(balancer("bypass/holder", wants("192.0.2.4")), broken, taken)
	if _, err := w.StartReplica(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.balances(first, "198.51.100.1 VIP TCP/80 UDP/53")
	w.balances(taken, "192.0.2.3 VIP TCP/80") // the claim of a Service that is gone is released
	w.hasEvent(broken, "Warning InvalidRequest", "is not an IP address")
	w.balances(broken, "")
	for _, r := range w.Replicas {
		_ = r.Kill()
	}
	w.create(second)
	if _, err := w.StartReplica(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.balances(second, "TCP/22!PortReserved TCP/80!PortConflict TCP/90")
	w.hasEvent(second, "Warning PortReserved", "held by Service bypass/a since")
	mustContain(t, w.mustKubectl("", "get", "-n", "bypass", "service", "b"), "<pending>")
	w.pointHeldBy("node.tcp.90", "")
	t.Log("it is served as soon as it can be")
	mustContain(t, w.refusal(tryEdit(w, second, ports(port("http", 80), port("other", 90)))).Error(), "held by Service bypass/a since")
	w.delete(first)
	w.pointHeldBy("node.tcp.80", "")
	w.eventually("the replica to know that the port is free", func() error {
		return tryEdit(w, second, ports(port("http", 80), port("other", 90)))
	})
	at := time.Now()
	w.balances(second, "198.51.100.1 VIP TCP/80 TCP/90")
	logTook(t, "the status after the ports are free", at)
}
