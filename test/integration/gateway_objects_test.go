package integration

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// TestGatewayObjectsAreTaken has the API server judge, by the CRDs of the Gateway API, the ListenerSets and routes that Portcullis would
// write in combinations drawn at random, the shortest and the longest names among them: none is refused, and each is stored as it was
// written, so that it would not be written again.
func TestGatewayObjectsAreTaken(t *testing.T) {
	const rounds = 150
	w := gateways(t, harness.Options{})
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	name := func(most int) string {
		switch random.IntN(4) {
		case 0:
			return "a"
		case 1:
			return strings.Repeat("z", most)
		default:
			return fmt.Sprintf("n%d-%s9", random.IntN(1000), strings.Repeat("x-", random.IntN(most/4)))
		}
	}
	protocols := []v1beta1.Protocol{TCP, UDP}
	w.create(namespace("objects"))
	for range rounds {
		class := name(63)
		gateway := v1beta1.ObjectReference{Namespace: name(63), Name: name(253)}
		var all []stream.Listener
		ports := map[stream.PortKey]bool{}
		for range 1 + random.IntN(40) {
			port := stream.PortKey{Protocol: protocols[random.IntN(2)], Port: 1 + random.Int32N(65535)}
			if random.IntN(5) == 0 {
				port.Port = []int32{1, 65535}[random.IntN(2)]
			}
			if !ports[port] {
				all = append(all, stream.Listener{Port: port, Namespace: name(63)})
			}
			ports[port] = true
		}
		for _, planned := range stream.PlanListeners(class, nil, all) {
			set := &gatewayv1.ListenerSet{
				ObjectMeta: metav1.ObjectMeta{Namespace: "objects", Name: planned.Name, Labels: map[string]string{v1beta1.LabelClass: class}},
				Spec:       stream.ListenerSetSpec(gateway, planned.Listeners),
			}
			must(w, w.Client.Create(t.Context(), set, client.DryRunAll))
			if stored := stream.StoredSetOf(set, gateway); stored.Foreign || len(stored.Listeners) != len(planned.Listeners) {
				t.Errorf("it is stored as %+v", set.Spec)
			}
		}
		for _, l := range all[:min(len(all), 4)] {
			route := stream.Route{
				Port: l.Port, Key: types.NamespacedName{Namespace: "objects", Name: v1beta1.StreamServiceName(class, l.Port.Protocol, l.Port.Port)},
				Set:     types.NamespacedName{Namespace: gateway.Namespace, Name: class + "-0"},
				Service: name(63), ServicePort: 1 + random.Int32N(65535),
			}
			object := route.Object()
			must(w, w.Client.Create(t.Context(), object, client.DryRunAll))
			if !route.IsWritten(object) {
				t.Errorf("it is stored as %+v", object)
			}
		}
	}
}

// TestMovesToAGateway moves a stream from a class with a proxy to one with a Gateway, and back: the former door stays open, and held, until
// the new one is, and closes then.
func TestMovesToAGateway(t *testing.T) {
	w := gateways(t, harness.Options{Replicas: 2})
	e := w.newEdge("leaves")
	class := gatewayClass("arrives")
	w.create(class, namespace("leaves-a"), service("leaves-a/web", port("http", 80)))
	s := sti("leaves-a/s", of("leaves"), tcp(5432))
	w.create(s)
	w.programmed(s)

	t.Log("while there is no Gateway, the stream is where it was")
	edit(w, s, of("arrives"))
	w.has(s, v1beta1.ConditionProgrammed, "False GatewayNotFound")
	w.saysStaysOpen(s, "TCP/5432 of class leaves")
	e.leads(TCP, 5432, "leaves-a/web:80")
	w.heldBy("arrives", TCP, 5432, "StreamIngress leaves-a/s")
	w.heldBy("leaves", TCP, 5432, "StreamIngress leaves-a/s")

	t.Log("when there is one, it moves")
	w.newGateway(class, "192.0.2.9")
	w.moved(s, "arrives")
	w.routes(class, TCP, 5432, "leaves-a", "web:80")
	e.leads(TCP, 5432, "closed")
	w.heldBy("leaves", TCP, 5432, "")

	t.Log("and back")
	edit(w, s, of("leaves"))
	w.moved(s, "leaves")
	e.leads(TCP, 5432, "leaves-a/web:80")
	w.routes(class, TCP, 5432, "leaves-a", "")
	w.heldBy("arrives", TCP, 5432, "")
}

// TestGatewayUninstallation deletes the kinds of Portcullis under a running leader: what is open on a Gateway stays so, until it is taken
// out as docs/operations.md says.
func TestGatewayUninstallation(t *testing.T) {
	w := gateways(t, harness.Options{Replicas: 1, Flags: shortLease})
	class := gatewayClass("stays")
	w.create(class, namespace("stays-a"), service("stays-a/web", port("http", 80), port("http-udp", 80, UDP)))
	w.newGateway(class, "192.0.2.10")
	s, u := sti("stays-a/s", of("stays"), tcp(5432)), sti("stays-a/u", of("stays"), udp(53))
	w.create(s, u)
	w.programmed(s, u)
	args := []string{"delete", "crd", "--timeout=" + patience.String()}
	for _, kind := range kinds {
		args = append(args, definition(kind))
	}
	w.mustKubectl("", args...)
	w.eventually("the leader to leave everything", func() error { return saysAll(w.Replicas[0].LogTail(1<<24), leaves) })
	for range 5 {
		w.routes(class, TCP, 5432, "stays-a", "web:80")
		w.routes(class, UDP, 53, "stays-a", "web:80")
		time.Sleep(time.Second)
	}
	w.mustKubectl("", "delete", "tcproutes,udproutes,listenersets", "-A", "-l", v1beta1.LabelClass)
	w.routes(class, TCP, 5432, "stays-a", "")
	w.routes(class, UDP, 53, "stays-a", "")
}
