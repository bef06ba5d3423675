package integration

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// promiseInVain has an object be promised what another one hands over to it, and be refused by a quota then; the promise is withdrawn.
func (w *fixture) promiseInVain(point string, heir client.Object, withdraw func()) *v1beta1.EdgeClaim {
	w.t.Helper()
	c := &v1beta1.EdgeClaim{}
	c.Name = point
	w.eventually(point+" to be promised to who is named", func() error {
		if err := w.try(heir.DeepCopyObject().(client.Object)); !apierrors.IsForbidden(err) {
			return fmt.Errorf("not refused by the quota: %w", err)
		}
		w.get(c)
		return is(c.Spec.Heir != nil && c.Spec.Heir.UID != "", true)
	})
	withdraw()
	return c
}

// TestWithdrawnPromiseIsNobodys has an address and a port be promised to objects that a quota keeps from being stored, and their holders take
// the promise back. Others of those names, which get past admission within the grace, have nothing of it.
func TestWithdrawnPromiseIsNobodys(t *testing.T) {
	w := newFixture(t, start(t, harness.Options{Replicas: 1, Flags: []string{"--claim-grace=1h"}}))
	e := w.newEdge("withdrawn", autoAssign(20000, 20999))
	w.create(namespace("withdrawn-a"), namespace("withdrawn-b"), namespace("withdrawn-c"),
		addressPool("withdrawn", []string{"198.18.78.0/30"}, forAll, onRequest))
	w.without("withdrawn-b", "services", func() error {
		w.setsQuota("withdrawn-b")
		probe := service("withdrawn-b/probe", port("", 1))
		defer func() { _ = w.Client.Delete(t.Context(), probe) }()
		return w.try(probe)
	})
	w.without("withdrawn-c", "count/streamingresses.nginx-stream.jeffthecoder.xyz", func() error {
		w.setsQuota("withdrawn-c")
		probe := sti("withdrawn-c/probe", of("withdrawn"), udp(1))
		defer func() { _ = w.Client.Delete(t.Context(), probe) }()
		return w.try(probe)
	})
	giver, heir := balancer("withdrawn-a/old", inPool("withdrawn")), balancer("withdrawn-b/new", wants("198.18.78.0"))
	stream, next := sti("withdrawn-a/db", of("withdrawn"), tcp(5432), to("db", 5432)), sti("withdrawn-c/db", of("withdrawn"), tcp(5432), to("db", 5432))
	w.admitted(giver)
	w.create(stream)
	w.balances(giver, "198.18.78.0 VIP TCP/80")
	w.programmed(stream)
	w.serviceHandsOverTo(giver, "withdrawn-b/new")
	edit(w, stream, handsOverTo[*v1beta1.StreamIngress]("withdrawn-c/db"))
	address := w.promiseInVain("addr.198-18-78-0", heir, func() { w.serviceHandsOverTo(giver, "") })
	port := w.promiseInVain(claim.Stream("withdrawn", TCP, 5432).Name(), next, func() { edit(w, stream, handsOverTo[*v1beta1.StreamIngress]("")) })
	for _, in := range []string{"withdrawn-b", "withdrawn-c"} {
		w.delete(&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "none"}})
	}

	t.Log("others of those names, past admission")
	restore := w.withoutWebhooks()
	w.eventually("the Service to be stored", func() error { return w.try(heir) })
	w.eventually("the stream to be stored", func() error { return w.try(next) })
	w.hasEvent(heir, "Warning "+v1beta1.ReasonAddressConflict, "held by Service withdrawn-a/old since")
	w.has(next, "Accepted", "False PortConflict")
	restore()
	for _, c := range []*v1beta1.EdgeClaim{address, port} {
		w.get(c)
		if c.Spec.Holder.Namespace != "withdrawn-a" {
			t.Errorf("%s is held by %s", c.Name, c.Spec.HeldBy)
		}
	}
	w.balances(giver, "198.18.78.0 VIP TCP/80")
	w.balances(heir, "")
	e.leads(TCP, 5432, "withdrawn-a/db:5432")
}

// TestPromiseThatWasToldStands has an heir be stored while nobody reconciles, and the promise be taken back then: it was told yes.
func TestPromiseThatWasToldStands(t *testing.T) {
	w := newFixture(t, start(t, harness.Options{Replicas: 1, Flags: append([]string{"--claim-grace=1h"}, shortLease...)}))
	w.create(namespace("told-a"), namespace("told-b"), addressPool("told", []string{"198.18.78.8/30"}, forAll, onRequest))
	giver, heir := balancer("told-a/old", inPool("told")), balancer("told-b/new", wants("198.18.78.8"))
	w.admitted(giver)
	w.balances(giver, "198.18.78.8 VIP TCP/80")
	w.serviceHandsOverTo(giver, "told-b/new")
	w.create(heir)
	w.serviceHandsOverTo(giver, "")
	w.balances(heir, "198.18.78.8 VIP TCP/80")
	w.pointHeldBy("addr.198-18-78-8", "Service told-b/new")
	w.balances(giver, "198.18.78.9 VIP TCP/80")
}
