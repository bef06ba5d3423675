package integration

import (
	"fmt"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// everyReplica waits until each replica answers as check wants it: the API server's next connection is to the next of them.
func (w *fixture) everyReplica(what string, check func() error) {
	w.t.Helper()
	for range w.Replicas {
		w.Reconnect()
		w.eventually(what+", with each replica", check)
	}
}

// TestParkedServicesGetNoPortOfAStream has a tenant's Services wait for the first pool of the nodes' addresses, each on the port of
// a stream of a proxy that listens on the nodes. When the pool comes, they and the class are looked at in the same moment.
func TestParkedServicesGetNoPortOfAStream(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 2}))
	e := w.newEdge("parked", hostNetwork)
	w.create(namespace("parked"), namespace("data"), namespace("tenant"))
	w.node("one", "10.0.0.1")
	const first, streams = 5000, 40
	all := make([]*v1beta1.StreamIngress, streams)
	parked := make([]*corev1.Service, streams)
	for i := range all {
		port := first + int32(i)
		all[i] = sti(fmt.Sprintf("parked/s%d", i), of("parked"), tcp(port))
		parked[i] = balancer(fmt.Sprintf("tenant/p%d", i), from("nodes"), ports(numberedPort(port)))
		w.create(all[i], parked[i])
	}
	w.programmed(all...)
	t.Log("one is without consent, and keeps its port for when it has it again")
	consent := grant("data/consent", "parked")
	w.create(consent)
	withdrawn := sti("parked/withdrawn", of("parked"), tcp(4999), to("data/db", 80))
	w.eventually("the consent to be known", func() error { return w.try(withdrawn) })
	e.leads(TCP, 4999, "data/db:80")
	w.delete(consent)
	e.leads(TCP, 4999, "closed")

	events := w.followServices("tenant")
	w.create(source("nodes", v1beta1.SourceNodeIP))
	for i, svc := range parked {
		w.balances(svc, fmt.Sprintf("TCP/%d!PortConflict", first+int32(i)))
	}
	for port := int32(4999); port < first+streams; port++ {
		w.pointHeldBy(claim.NodePort("TCP", port).Name(), "StreamIngressClass parked")
	}
	w.programmed(all...)
	w.patch(parked[0], `{"metadata":{"annotations":{"end":""}}}`)
	ended := false
	for svc := range events {
		if listed := loadbalancer.Listed(svc.Status.LoadBalancer.Ingress); len(listed) > 0 {
			t.Errorf("Service %s had %s, and with it the port of a stream", svc.Name, listed)
		}
		if _, ended = svc.Annotations["end"]; ended {
			break
		}
	}
	if !ended {
		t.Error("the watch of Services ended")
	}

	t.Log("what the class has on the nodes comes back when somebody deletes it")
	onNodes := &v1beta1.EdgeClaim{}
	onNodes.Name = claim.NodePort("TCP", first).Name()
	w.get(onNodes)
	before := onNodes.UID
	w.delete(onNodes)
	w.eventually("the port to be claimed again", func() error {
		again := &v1beta1.EdgeClaim{}
		if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(onNodes), again); err != nil {
			return err
		}
		return is(again.Spec.HeldBy != "" && again.UID != before, true)
	})
	w.pointHeldBy(onNodes.Name, "StreamIngressClass parked")

	t.Log("a Service that waits has the port when the stream gives it up")
	w.delete(all[0])
	w.balances(parked[0], "10.0.0.1 VIP TCP/5000")
}

// TestAProxyThatMovesToTheNodes has a class lose its Service, past admission: its proxy listens on the nodes then, where a tenant
// has the port of one of its streams.
func TestAProxyThatMovesToTheNodes(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, auditOptions(3*time.Second)))
	e := w.newEdge("moves")
	w.create(namespace("moves"), namespace("tenant"), source("nodes", v1beta1.SourceNodeIP))
	w.node("one", "10.0.0.1")
	theirs := balancer("tenant/theirs", from("nodes"), ports(numberedPort(7100)))
	w.create(theirs)
	w.balances(theirs, "10.0.0.1 VIP TCP/7100")
	s, other := sti("moves/s", of("moves"), tcp(7100)), sti("moves/other", of("moves"), tcp(7101))
	w.create(s, other)
	w.programmed(s, other)

	restore := w.withoutWebhooks()
	edit(w, e.class, hostNetwork)
	restore()
	w.pointHeldBy("node.tcp.7101", "StreamIngressClass moves")
	w.classHas(e.class, v1beta1.ConditionProgrammed, "False PortRefused")
	taken := []string{"held by Service tenant/theirs", "on the nodes"}
	mustContain(t, messageOf(e.class.Status.Conditions, v1beta1.ConditionProgrammed), append(taken, "TCP/7100")...)
	w.has(s, v1beta1.ConditionProgrammed, "False PortRefused")
	mustContain(t, messageOf(s.Status.Conditions, v1beta1.ConditionProgrammed), taken...)
	w.balances(theirs, "10.0.0.1 VIP TCP/7100")
	w.disagree(0, 1)
	w.told("StreamIngressClass", "moves", v1beta1.ReasonPointWithoutClaim, "node TCP/7100", "Service tenant/theirs")

	t.Log("its owner leads it elsewhere, and the proxy goes on listening")
	edit(w, s, to("elsewhere", 80))
	e.leads(TCP, 7100, "moves/elsewhere:80")
	w.has(s, v1beta1.ConditionProgrammed, "False PortRefused")

	t.Log("a stream that comes back is not opened beside the Service")
	edit(w, s, tcp(7102))
	e.leads(TCP, 7100, "closed")
	w.programmed(s)
	w.toldOf(sti("moves/late", of("moves"), tcp(7100)), taken...)

	t.Log("one that waits has the port when the Service is gone")
	restore = w.withoutWebhooks()
	waits := sti("moves/waits", of("moves"), tcp(7100))
	w.create(waits)
	w.has(waits, v1beta1.ConditionAccepted, "False PortConflict")
	restore()
	w.delete(theirs)
	w.programmed(waits)
	w.pointHeldBy("node.tcp.7100", "StreamIngressClass moves")
	w.classHas(e.class, v1beta1.ConditionProgrammed, "True Programmed")
	w.disagree(0, 0)
}
