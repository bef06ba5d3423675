package integration

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// TestGatewaysThatShareAnAddress has two classes whose Gateways list one address: a port of one is nobody's of the other.
func TestGatewaysThatShareAnAddress(t *testing.T) {
	const address = "192.0.2.15"
	w := gateways(t, harness.Options{Replicas: 2, Flags: []string{"--claim-grace=" + grace.String(), "--audit-interval=1s"}})
	left, right := gatewayClass("left", autoAssign(9000, 9003)), gatewayClass("right", autoAssign(9000, 9003))
	w.create(left, right, namespace("twins-a"), namespace("twins-b"), service("twins-a/web", port("http", 80)),
		service("twins-b/web", port("http", 80)))
	for _, class := range []*v1beta1.StreamIngressClass{left, right} {
		g := w.newGateway(class, address)
		if class == right {
			edit(w, g.gateway, func(gw *gatewayv1.Gateway) {
				gw.Spec.Listeners = append(gw.Spec.Listeners, gatewayv1.Listener{Name: "more", Port: 8080, Protocol: gatewayv1.HTTPProtocolType})
			})
		}
	}
	for _, class := range []*v1beta1.StreamIngressClass{left, right} {
		w.eventually("the class to say which address it has", func() error {
			w.get(class)
			return is(strings.Join(class.Status.Addresses, " "), address)
		})
	}

	t.Log("what one has, the other has not")
	s := sti("twins-a/s", of("left"), tcp(5432))
	w.create(s)
	w.programmed(s)
	w.heldBy("right", TCP, 5432, "StreamIngressClass left")
	mustContain(t, w.refusal(w.try(sti("twins-b/rival", of("right"), tcp(5432)))).Error(), "spec.listen", "held by StreamIngress twins-a/s",
		`of class "left", whose Gateway has the same address`)
	w.heldBy("left", TCP, 8080, "Gateway gw-right/right")
	mustContain(t, w.refusal(w.try(sti("twins-a/rival", of("left"), tcp(8080)))).Error(), "held by Gateway gw-right/right")

	t.Log("of those who ask at once, one at most has each port")
	const ports = 24
	var both sync.WaitGroup
	for i := range ports {
		for ns, class := range map[string]string{"twins-a": "left", "twins-b": "right"} {
			both.Go(func() { _ = w.try(sti(fmt.Sprintf("%s/r-%d", ns, i), of(class), tcp(int32(7000+i)))) })
		}
	}
	both.Wait()
	some := false
	w.eventually("nobody to share a port", func() error {
		var streams v1beta1.StreamIngressList
		if err := w.Client.List(t.Context(), &streams); err != nil {
			return err
		}
		open := map[int32]string{}
		for i := range streams.Items {
			one := &streams.Items[i]
			if !isProgrammed(one) {
				return fmt.Errorf("%s/%s is not open", one.Namespace, one.Name)
			}
			if other := open[one.Status.Listen]; other != "" {
				t.Fatalf("%s/%s and %s have port %d", one.Namespace, one.Name, other, one.Status.Listen)
			}
			open[one.Status.Listen] = one.Namespace + "/" + one.Name
		}
		some = len(open) > 1
		return nil
	})
	if !some {
		t.Error("nobody has any of the ports")
	}
	again := sti("twins-b/r-again", of("right"), tcp(7500))
	w.create(again)
	w.programmed(again)

	t.Log("ports that are assigned differ")
	var assigned []*v1beta1.StreamIngress
	for i := range 4 {
		class := map[bool]string{true: "left", false: "right"}[i%2 == 0]
		assigned = append(assigned, sti(fmt.Sprintf("twins-a/any-%d", i), of(class), auto(TCP)))
		w.create(assigned[i])
	}
	w.programmed(assigned...)
	mustContain(t, w.refusal(w.try(sti("twins-b/any", of("right"), auto(TCP)))).Error(), "spec.listen")
	w.agreesAtLast()

	t.Log("a port that is given up is free for both")
	w.delete(s)
	w.heldBy("right", TCP, 5432, "")
	next := sti("twins-b/next", of("right"), tcp(5432))
	w.create(next)
	w.programmed(next)
}

// TestGatewayOnASharedAddress has the Service of a Gateway at an address of a pool that others share: what they have there is nobody's on
// the Gateway, and a port of the Gateway's is the Service's before its controller asks for it.
func TestGatewayOnASharedAddress(t *testing.T) {
	const address = "198.18.73.1"
	w := gateways(t, harness.Options{Replicas: 2, Flags: []string{"--claim-grace=" + grace.String(), "--audit-interval=1s"}})
	class := gatewayClass("fronted")
	w.create(class, addressPool("fronted", []string{address}, sharesPorts), namespace("fronted-a"), service("fronted-a/web", port("http", 80)))
	w.newGateway(class, address)
	own := balancer("gw-fronted/gateway", from("fronted"))
	theirs := balancer("fronted-a/theirs", from("fronted"), ports(port("", 5433)))
	w.create(own, theirs)
	for _, svc := range []*corev1.Service{own, theirs} {
		w.eventually("the Service to have the address", func() error {
			w.get(svc)
			return saysAll(statusOf(svc), address)
		})
	}
	w.eventually("the class to say which address it has", func() error {
		w.get(class)
		return is(strings.Join(class.Status.Addresses, " "), address)
	})

	t.Log("what somebody has at the address is refused, and the other way round")
	mustContain(t, w.refusal(w.try(sti("fronted-a/rival", of("fronted"), tcp(5433)))).Error(), "spec.listen", "held by Service fronted-a/theirs",
		"Service gw-fronted/gateway, which stands in front of the class's Gateway")
	s := sti("fronted-a/s", of("fronted"), tcp(5432))
	w.create(s)
	w.programmed(s)
	rival := balancer("fronted-a/rival", from("fronted"), ports(port("", 5432)), wants(address))
	mustContain(t, w.refusal(w.try(rival)).Error(), "held by Service gw-fronted/gateway")
	edit(w, own, func(svc *corev1.Service) {
		svc.Spec.Ports = append(svc.Spec.Ports, port("s", 5432))
		svc.Spec.Ports[0].Name = "own"
	})
	w.eventually("the port to be open at the address", func() error {
		w.get(own)
		return saysAll(statusOf(own), "TCP/5432")
	})
	w.agreesAtLast()

	t.Log("once the stream is gone, and the Service has let go of the port, it is anybody's")
	w.delete(s)
	w.routes(class, TCP, 5432, "fronted-a", "")
	edit(w, own, func(svc *corev1.Service) { svc.Spec.Ports = svc.Spec.Ports[:1] })
	w.eventually("the port to be free", func() error { return w.try(rival) })
}

// agreesAtLast waits until some more comparisons of ledger and cluster have found no difference.
func (w *fixture) agreesAtLast() {
	w.t.Helper()
	done := func() float64 { return w.metric(`portcullis_ledger_audits_total{result="done"}`) }
	before := done()
	w.eventually("three more audits", func() error { return is(done() >= before+3, true) })
	w.disagree(0, 0)
}
