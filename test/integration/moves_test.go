package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// classPair are a class with a proxy and one without, for streams that move from one to the other.
type classPair struct {
	*edge
	kernel *v1beta1.StreamIngressClass
	// upstream is namespace/service, and answers is what the kernel is told to lead a port to.
	upstream, answers string
}

// newClassPair makes both classes, named <name> and <name>-kernel, and an upstream in namespace <name>-a.
func (w *fixture) newClassPair(name, address string) *classPair {
	w.t.Helper()
	p := &classPair{edge: w.newEdge(name, autoAssign(30000, 30999)), upstream: name + "-a/web", answers: address + " -> 10.9.3.1:8080"}
	p.kernel = kernelClass(name+"-kernel", name, autoAssign(30000, 30999))
	backend := pod(name + "-a/web-0")
	w.create(namespace(p.kernel.Name), namespace(name+"-a"), addressPool(name, []string{address}, onRequest), p.kernel,
		service(p.upstream, port("http", 80)), backend)
	w.runs(backend, "10.9.3.1")
	w.create(sliceOf(p.upstream+"-x", "web", "http", 8080, endpoint("10.9.3.1", backend)))
	w.classHas(p.kernel, v1beta1.ConditionProgrammed, "True Programmed")
	return p
}

// stream is one of the class with a proxy.
func (p *classPair) stream(name string, options ...streamOption) *v1beta1.StreamIngress {
	ns, _, _ := strings.Cut(p.upstream, "/")
	return sti(ns+"/"+name, append([]streamOption{of(p.class.Name), to("web", 80)}, options...)...)
}

// moved waits until a stream is open behind a class, and nowhere else. The stream is read anew.
func (w *fixture) moved(s *v1beta1.StreamIngress, class string) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%s to have moved to %s", s.Name, class), func() error {
		w.get(s)
		if p := s.Status.Previous; p != nil || s.Status.ClassName != class || !isProgrammed(s) {
			return fmt.Errorf("it is of class %s, moves from %v, with %v", s.Status.ClassName, p, s.Status.Conditions)
		}
		return nil
	})
}

func isProgrammed(s *v1beta1.StreamIngress) bool {
	c := meta.FindStatusCondition(s.Status.Conditions, v1beta1.ConditionProgrammed)
	return c != nil && c.Status == "True" && c.ObservedGeneration == s.Generation
}

// saysStaysOpen fails the test unless a stream says that a door stays open.
func (w *fixture) saysStaysOpen(s *v1beta1.StreamIngress, door string) {
	w.t.Helper()
	if c := meta.FindStatusCondition(s.Status.Conditions, v1beta1.ConditionProgrammed); c != nil {
		mustContain(w.t, c.Message, door+" stays open until it is")
	}
}

// TestMoves moves a stream from a class with a proxy to one without, and back; to one that can't open it, and back; and on from one to
// the next.
func TestMoves(t *testing.T) {
	w := shared(t)
	p := w.newClassPair("moves", "198.18.72.0")
	s := p.stream("s", tcp(5432))
	w.create(s)
	w.programmed(s)
	own := "StreamIngress moves-a/s"

	t.Log("both doors are open, and held, for five seconds")
	edit(w, s, of("moves-kernel"))
	w.forwards("moves-kernel", TCP, 5432, p.answers)
	w.programmed(s)
	opened := meta.FindStatusCondition(s.Status.Conditions, v1beta1.ConditionProgrammed).LastTransitionTime
	p.leads(TCP, 5432, "closed")
	if open := time.Since(opened.Time); open < 5*time.Second {
		t.Errorf("the former door is closed %v after the new one was opened", open)
	}
	w.moved(s, "moves-kernel")
	p.heldBy("moves", TCP, 5432, "")
	p.heldBy("moves-kernel", TCP, 5432, own)

	t.Log("to another number, and back before anything was opened")
	edit(w, s, func(s *v1beta1.StreamIngress) { of("moves")(s); tcp(5433)(s) })
	p.leads(TCP, 5433, p.upstream+":80")
	edit(w, s, func(s *v1beta1.StreamIngress) { of("moves-kernel")(s); tcp(5432)(s) })
	p.leads(TCP, 5433, "closed")
	p.heldBy("moves", TCP, 5433, "")
	w.moved(s, "moves-kernel")
	w.forwards("moves-kernel", TCP, 5432, p.answers)

	t.Log("to a class that has no address: the door stays open, and is held")
	nowhere := kernelClass("moves-nowhere", "moves-no-pool")
	w.create(nowhere)
	w.classHas(nowhere, v1beta1.ConditionProgrammed, "False NoAddress")
	edit(w, s, of("moves-nowhere"))
	w.has(s, v1beta1.ConditionProgrammed, "False NoAddress")
	w.saysStaysOpen(s, "TCP/5432 of class moves-kernel")
	p.heldBy("moves-nowhere", TCP, 5432, own)
	mustContain(t, w.refusal(w.try(p.stream("rival", of("moves-kernel"), tcp(5432)))).Error(), "held by "+own)

	t.Log("and from there on to the next")
	edit(w, s, of("moves"))
	w.moved(s, "moves")
	p.leads(TCP, 5432, p.upstream+":80")
	w.forwards("moves-kernel", TCP, 5432, "closed")
	p.heldBy("moves-nowhere", TCP, 5432, "")
	p.heldBy("moves-kernel", TCP, 5432, "")

	t.Log("a stream that is being deleted, and kept by its owner, keeps one door")
	edit(w, s, func(s *v1beta1.StreamIngress) { of("moves-kernel")(s); finalizer("example.com/mine")(s) })
	w.forwards("moves-kernel", TCP, 5432, p.answers)
	must(w, w.Client.Delete(t.Context(), s))
	p.leads(TCP, 5432, "closed")
	p.heldBy("moves", TCP, 5432, "")
	w.forwards("moves-kernel", TCP, 5432, p.answers)
	edit(w, s, func(s *v1beta1.StreamIngress) { s.Finalizers = nil })
	w.forwards("moves-kernel", TCP, 5432, "closed")
	p.leads(TCP, 5432, "closed")
	p.heldBy("moves", TCP, 5432, "")
	p.heldBy("moves-kernel", TCP, 5432, "")
}

// TestMovesAmidFailures moves many streams from a class with a proxy to one without, and some of them back, while leaders die and leave.
// At no version was a stream that had been open without a door, or with more than two, or with one that it had no claim on.
func TestMovesAmidFailures(t *testing.T) {
	t.Parallel()
	h := start(t, raceOptions())
	p := newFixture(t, h).newClassPair("movers", "198.18.72.1")
	p.moveAmidFailures(h, "movers-a", p.kernel, &corev1.ServiceList{})
	p.eventually("the doors without a proxy to be exact", p.kernelExactly)
}

// TestMovesToAGatewayAmidFailures does the same with a class in front of a Gateway.
func TestMovesToAGatewayAmidFailures(t *testing.T) {
	t.Parallel()
	h := start(t, raceOptions())
	w := newFixture(t, h)
	must(w, h.InstallGateways(t.Context()))
	e, class := w.newEdge("gwmovers", autoAssign(30000, 30999)), gatewayClass("gwmoved", autoAssign(30000, 30999))
	w.create(class, namespace("gwmovers-a"), service("gwmovers-a/web", port("http", 80)))
	s := &gatewayStorm{churn: &churn{edge: &edge{fixture: w, class: class}}, gateway: w.newGateway(class, "192.0.2.14")}
	w.classHas(class, v1beta1.ConditionProgrammed, "True Programmed")
	e.moveAmidFailures(h, "gwmovers-a", class, &corev1.ServiceList{}, &gatewayv1.ListenerSetList{}, &gatewayv1.TCPRouteList{},
		&gatewayv1.UDPRouteList{})
	w.eventually("the doors of the Gateway to be exact", s.doorsAreThose)
}

// moveAmidFailures moves streams of a namespace, which has the Service "web", from the class of an edge to another one and some of them
// back. doors are the kinds of which the doors of both classes are.
func (e *edge) moveAmidFailures(h *harness.Harness, ns string, other *v1beta1.StreamIngressClass, doors ...client.ObjectList) {
	const streams = 60
	e.t.Helper()
	all := make([]*v1beta1.StreamIngress, streams)
	e.create(service(ns+"/web-udp", port("http", 80, UDP)))
	for i := range all {
		all[i] = sti(fmt.Sprintf("%s/mover-%d", ns, i), of(e.class.Name), to("web", 80), tcp(int32(20000+i)))
		switch i % 5 {
		case 3:
			auto(TCP)(all[i])
		case 4:
			auto(UDP)(all[i])
			to("web-udp", 80)(all[i])
		}
		e.create(all[i])
	}
	e.programmed(all...)
	c := doorHistory(h, e, other, doors...)

	e.t.Log("the leader dies while they move")
	for i, s := range all {
		edit(e.fixture, s, of(other.Name))
		if i == streams/2 {
			must(e.fixture, leader(e.fixture, h.Replicas...).Kill())
			_, err := h.StartReplica(e.t.Context())
			must(e.fixture, err)
		}
	}
	for _, s := range all {
		e.moved(s, other.Name)
	}

	e.t.Log("half of them go back while the next leader leaves, some change their mind")
	alive := others(h.Replicas, h.Replicas[0])
	for i, s := range all[:streams/2] {
		edit(e.fixture, s, of(e.class.Name))
		if i%3 == 0 {
			edit(e.fixture, s, of(other.Name))
		}
		if i == streams/4 {
			running := slices.DeleteFunc(slices.Clone(alive), hasEnded)
			leaves := leader(e.fixture, running...)
			must(e.fixture, leaves.Retire(e.t.Context()))
			_, err := h.StartReplica(e.t.Context())
			must(e.fixture, err)
		}
	}
	for i, s := range all {
		want := other.Name
		if i < streams/2 && i%3 != 0 {
			want = e.class.Name
		}
		e.moved(s, want)
	}
	e.isExact()
	c.mustHold(e.fixture)
}

// kernelExactly compares the Services and the claims of the class without a proxy with its streams.
func (p *classPair) kernelExactly() error {
	var streams v1beta1.StreamIngressList
	var services corev1.ServiceList
	var claims v1beta1.EdgeClaimList
	for list, in := range map[client.ObjectList]string{&streams: "", &services: p.kernel.Name, &claims: ""} {
		if err := p.Client.List(p.t.Context(), list, client.InNamespace(in)); err != nil {
			return err
		}
	}
	got, want := map[string]string{}, map[string]string{}
	for i := range streams.Items {
		if s := &streams.Items[i]; s.Spec.ClassName == p.kernel.Name {
			at := claim.Stream(p.kernel.Name, s.ProtocolOrDefault(), s.Status.Listen)
			want["Service "+v1beta1.StreamServiceName(at.Class(), at.Protocol(), at.Port())] = "open"
			want["claim "+at.Name()] = claim.StreamHolder(s.Namespace, s.Name).String()
		}
	}
	for i := range services.Items {
		got["Service "+services.Items[i].Name] = "closed"
		if len(services.Items[i].Status.LoadBalancer.Ingress) > 0 {
			got["Service "+services.Items[i].Name] = "open"
		}
	}
	for i := range claims.Items {
		if c := &claims.Items[i]; c.Spec.Scope == claim.StreamScope(p.kernel.Name) {
			got["claim "+c.Name] = c.Spec.HeldBy
		}
	}
	return same("class "+p.kernel.Name, got, want)
}
