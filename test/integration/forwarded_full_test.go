package integration

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// smallCluster is a cluster of one IP family with so few cluster IPs that a dozen streams take them all.
func smallCluster(t *testing.T) *fixture {
	t.Helper()
	t.Parallel()
	return newFixture(t, start(t, harness.Options{Replicas: 1, ControlPlane: controlplane.Options{
		APIServerFlags: []string{"--service-cluster-ip-range=10.96.0.0/28"},
	}}))
}

// TestForwardedOnASmallCluster has streams take the last cluster IP, wait for one, and get it.
func TestForwardedOnASmallCluster(t *testing.T) {
	w := smallCluster(t)
	pool := addressPool("full", []string{"198.18.70.0/30", "2001:db8:70::/126"}, onRequest)
	class := kernelClass("full", "full", autoAssign(8000, 8010))
	web := service("full-a/web", port("http", 80))
	web.Spec.ClusterIP = corev1.ClusterIPNone
	w.create(namespace("full"), namespace("full-a"), web, pool, class)
	w.classHas(class, v1beta1.ConditionProgrammed, "True Programmed")
	if err := is(strings.Join(class.Status.Addresses, ","), "198.18.70.0,2001:db8:70::"); err != nil {
		t.Error("the addresses of the class: ", err)
	}

	// Admission knows of a full range from when the class says so, which is not at once: an API server that has just begun says the same.
	streams := w.fillUp(class, "full-a", 16)
	mustContain(t, w.refusedAtLast(class, "full-a").Error(), "spec.className", "takes a cluster IP, and the cluster has none left", "delete Services")
	open, waiting := w.sortedOut(class, streams)
	if len(open) == 0 || len(waiting) == 0 {
		t.Fatalf("%d streams are open, and %d wait", len(open), len(waiting))
	}
	t.Logf("%d streams are open, %d wait: %s", len(open), len(waiting), messageOf(waiting[0].Status.Conditions, v1beta1.ConditionProgrammed))
	w.waitsForClusterIP(class, waiting)
	// A pool of both families on a cluster of one: the address of the other is that of no Service.
	w.forwards("full", TCP, *open[0].Spec.Listen, "198.18.70.0 -> ")

	t.Log("new streams are refused, in whichever way they ask; those that are there go on")
	mustContain(t, w.refusal(w.try(sti("full-a/auto", of("full"), auto(TCP)))).Error(), "takes a cluster IP", "ServiceCIDR")
	mustContain(t, w.refusal(w.try(sti("full-a/udp", of("full"), udp(53)))).Error(), "takes a cluster IP")
	for _, s := range []*v1beta1.StreamIngress{open[0], waiting[0]} {
		edit(w, s, to("other", 81))
		edit(w, s, func(s *v1beta1.StreamIngress) { s.Labels = map[string]string{"a": "b"} })
	}
	w.programmed(open[0])
	w.has(waiting[0], v1beta1.ConditionProgrammed, "False ClusterIPsExhausted")

	t.Log("streams that go make room for those that wait, and for new ones")
	for _, s := range open[:len(waiting)+1] {
		w.delete(s)
		w.forwards("full", TCP, *s.Spec.Listen, "closed")
	}
	open = open[len(waiting)+1:]
	w.programmed(waiting...)
	w.classHas(class, v1beta1.ConditionProgrammed, "True Programmed")
	open = append(open, waiting...)
	late := sti("full-a/late", of("full"), auto(TCP))
	w.eventually("a new stream to be let in", func() error { return w.try(late) })
	w.programmed(late)
	open = append(open, late)

	t.Log("a further range of cluster IPs does, too")
	last := sti("full-a/last", of("full"), tcp(2000))
	w.create(last)
	w.has(last, v1beta1.ConditionProgrammed, "False ClusterIPsExhausted")
	w.extend("10.97.0.0/24")
	w.programmed(append(open, last)...)
	w.classHas(class, v1beta1.ConditionProgrammed, "True Programmed")
	w.eventually("a new stream to be let in", func() error { return w.try(sti("full-a/more", of("full"), udp(53))) })
	w.programmed(sti("full-a/more"))

	w.poolThatVanishes(class, pool, open[0])
}

// TestForwardedWithoutNodePorts has streams take the last node port, each for its health check: others are refused, and open when one
// goes.
func TestForwardedWithoutNodePorts(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 1, ControlPlane: controlplane.Options{
		APIServerFlags: []string{"--service-node-port-range=30000-30003"},
	}}))
	class := kernelClass("health", "health", func(c *v1beta1.StreamIngressClass) { c.Spec.ExternalTrafficPolicy = v1beta1.ExternalTrafficLocal })
	w.create(namespace("health"), namespace("health-a"), service("health-a/web", port("http", 80)),
		addressPool("health", []string{"198.18.70.8"}, onRequest), class)
	w.classHas(class, v1beta1.ConditionProgrammed, "True Programmed")
	streams := w.fillUp(class, "health-a", 16)
	mustContain(t, w.refusedAtLast(class, "health-a").Error(), "spec.className", "takes a node port for its health check (externalTrafficPolicy: Local)", "none left")
	var open, waiting []*v1beta1.StreamIngress
	w.eventually("each stream to be open, or to wait", func() (err error) {
		open, waiting, err = w.apart(streams, v1beta1.ReasonNodePortsExhausted)
		return cmp.Or(err, is(len(open), 4))
	})
	w.classHas(class, v1beta1.ConditionProgrammed, "False NodePortsExhausted")
	t.Logf("%d streams wait: %s", len(waiting), messageOf(waiting[0].Status.Conditions, v1beta1.ConditionProgrammed))
	for _, s := range waiting[1:] {
		w.delete(s)
	}
	w.delete(open[0])
	w.programmed(append(open[1:], waiting[0])...)
	w.classHas(class, v1beta1.ConditionProgrammed, "True Programmed")
}

// fillUp creates so many streams of a class, or fewer if it takes no more: it does not before one waits for room.
func (w *fixture) fillUp(class *v1beta1.StreamIngressClass, namespace string, n int32) (streams []*v1beta1.StreamIngress) {
	w.t.Helper()
	for i := range n {
		s := sti(fmt.Sprintf("%s/s%d", namespace, i), of(class.Name), tcp(1000+i))
		if w.try(s) != nil {
			break
		}
		streams = append(streams, s)
	}
	return streams
}

// refusedAtLast waits until a class takes no more streams, and returns what it says.
func (w *fixture) refusedAtLast(class *v1beta1.StreamIngressClass, namespace string) *apierrors.StatusError {
	w.t.Helper()
	var err error
	w.eventually("a stream to be refused", func() error {
		err = w.Client.Create(w.t.Context(), sti(namespace+"/another", of(class.Name), tcp(999)), client.DryRunAll)
		return is(err != nil, true)
	})
	return w.refusal(err)
}

// sortedOut waits until each of some streams of a class is open, or waits for a cluster IP, and returns both.
func (w *fixture) sortedOut(class *v1beta1.StreamIngressClass, streams []*v1beta1.StreamIngress) (open, waiting []*v1beta1.StreamIngress) {
	w.t.Helper()
	w.eventually("all streams to be open or to wait", func() (err error) {
		open, waiting, err = w.apart(streams, v1beta1.ReasonClusterIPsExhausted)
		w.get(class)
		return cmp.Or(err, is(len(class.Status.Refused), len(waiting)))
	})
	return open, waiting
}

// waitsForClusterIP looks at streams without a Service, and at what their class says of them.
func (w *fixture) waitsForClusterIP(class *v1beta1.StreamIngressClass, waiting []*v1beta1.StreamIngress) {
	w.t.Helper()
	for _, s := range waiting {
		w.has(s, v1beta1.ConditionAccepted, "True Accepted")
		w.heldBy(class.Name, TCP, *s.Spec.Listen, "StreamIngress "+s.Namespace+"/"+s.Name)
		w.forwards(class.Name, TCP, *s.Spec.Listen, "closed")
		mustContain(w.t, messageOf(s.Status.Conditions, v1beta1.ConditionProgrammed), "no cluster IP left", "range is full")
	}
	w.classHas(class, v1beta1.ConditionAccepted, "True Accepted")
	w.classHas(class, v1beta1.ConditionProgrammed, "False ClusterIPsExhausted")
	mustContain(w.t, messageOf(class.Status.Conditions, v1beta1.ConditionProgrammed), fmt.Sprintf("%d port(s)", len(waiting)),
		fmt.Sprintf("TCP/%d", *waiting[0].Spec.Listen), "no cluster IP left")
	other := func(p v1beta1.RefusedPort) bool { return p.Reason != v1beta1.ReasonClusterIPsExhausted }
	if slices.ContainsFunc(class.Status.Refused, other) {
		w.t.Errorf("got the refused ports %+v", class.Status.Refused)
	}
}

// extend adds a range of cluster IPs, and says that it may be used, as the controller manager would.
func (w *fixture) extend(cidr string) {
	w.t.Helper()
	more := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "more"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{cidr}}}
	w.create(more)
	more.Status.Conditions = []metav1.Condition{{
		Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.Now(),
	}}
	if err := w.Client.Status().Update(w.t.Context(), more); err != nil {
		w.t.Fatal(err)
	}
}

// poolThatVanishes deletes the pool of a class past admission: what it gave is lost, as that of a Service would be, and when it is back,
// the class has an address again. Its streams keep their ports all the time.
func (w *fixture) poolThatVanishes(class *v1beta1.StreamIngressClass, pool *v1beta1.AddressPool, s *v1beta1.StreamIngress) {
	w.t.Helper()
	at := *s.Spec.Listen
	if s.Spec.Listen == nil {
		at = s.Status.Listen
	}
	mustContain(w.t, w.Client.Delete(w.t.Context(), pool).Error(), "would lose their address", "StreamIngressClass full")
	restore := w.withoutWebhooks()
	w.delete(pool)
	w.classHas(class, v1beta1.ConditionProgrammed, "False NoAddress")
	mustContain(w.t, messageOf(class.Status.Conditions, v1beta1.ConditionProgrammed), "full")
	w.has(s, v1beta1.ConditionProgrammed, "False NoAddress")
	w.forwards(class.Name, TCP, at, " -> ")
	w.heldBy(class.Name, TCP, at, "StreamIngress "+s.Namespace+"/"+s.Name)
	w.pointHeldBy("addr.198-18-70-0", "")
	w.create(addressPool(pool.Name, pool.Spec.Addresses, onRequest))
	restore()
	w.classHas(class, v1beta1.ConditionProgrammed, "True Programmed")
	w.programmed(s)
	address := netip.MustParseAddr(class.Status.Addresses[0]) // any that is free
	w.forwards(class.Name, TCP, at, address.String()+" -> ")
	w.pointHeldBy(claim.Address(address).Name(), "StreamIngressClass full")
}
