package integration

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// TestHandOverInTheKernel hands a port of a class without a proxy over to a stream of another namespace: at every version the nodes are told
// to forward it somewhere.
func TestHandOverInTheKernel(t *testing.T) {
	w := shared(t)
	const address = "198.18.76.0"
	class := kernelClass("handkernel", "handkernel")
	w.create(namespace(class.Name), addressPool("handkernel", []string{address}, onRequest), class)
	for i, ns := range []string{"handkernel-a", "handkernel-b"} {
		backend, ip := pod(ns+"/web-0"), fmt.Sprintf("10.9.7.%d", i+1)
		w.create(namespace(ns), service(ns+"/web", port("http", 80)), backend)
		w.runs(backend, ip)
		w.create(sliceOf(ns+"/web-x", "web", "http", 8080, endpoint(ip, backend)))
	}
	w.classHas(class, v1beta1.ConditionProgrammed, "True Programmed")
	giver := sti("handkernel-a/old", of(class.Name), tcp(5432), to("web", 80))
	heir := sti("handkernel-b/new", of(class.Name), tcp(5432), to("web", 80))
	w.create(giver)
	w.forwards(class.Name, TCP, 5432, address+" -> 10.9.7.1:8080")
	name := v1beta1.StreamServiceName(class.Name, TCP, 5432)
	history := newHistory(t, w.Harness, func() moment { return &forwardedMoment{namespace: class.Name, service: name, slices: map[string]int{}} },
		&corev1.ServiceList{}, &discoveryv1.EndpointSliceList{})
	edit(w, giver, handsOverTo[*v1beta1.StreamIngress]("handkernel-b/new"))
	w.create(heir)
	w.programmed(heir)
	w.forwards(class.Name, TCP, 5432, address+" -> 10.9.7.2:8080")
	w.has(giver, v1beta1.ConditionAccepted, "False HandedOver")
	history.mustHold(w)
	w.delete(giver)
	w.delete(heir)
	w.forwards(class.Name, TCP, 5432, "closed")
}

// forwardedMoment is what the nodes are told of a port at a version.
type forwardedMoment struct {
	namespace, service string
	isOpen             bool
	// slices are the EndpointSlices of the port, by how many endpoints they have.
	slices map[string]int
}

func (m *forwardedMoment) apply(e happening) []types.NamespacedName {
	if e.stored.GetNamespace() != m.namespace {
		return nil
	}
	switch stored := e.stored.(type) {
	case *corev1.Service:
		if stored.Name == m.service {
			m.isOpen = !e.gone && len(stored.Status.LoadBalancer.Ingress) > 0
		}
	case *discoveryv1.EndpointSlice:
		if m.slices[stored.Name] = len(stored.Endpoints); e.gone || stored.Labels[discoveryv1.LabelServiceName] != m.service {
			delete(m.slices, stored.Name)
		}
	}
	return m.everybody()
}

func (m *forwardedMoment) everybody() []types.NamespacedName {
	return []types.NamespacedName{{Name: m.service}}
}

func (m *forwardedMoment) check(types.NamespacedName) error {
	endpoints := 0
	for _, n := range m.slices {
		endpoints += n
	}
	if !m.isOpen || endpoints == 0 {
		return fmt.Errorf("it is open: %v, and has the endpoints %v", m.isOpen, m.slices)
	}
	return nil
}

func (m *forwardedMoment) around([]happening, int, types.NamespacedName) string { return "" }

// TestHandOverOnAGateway hands a port of a class with a Gateway over to a stream of another namespace: at every version there is a listener
// that is open to a namespace, and a route there that leads from it.
func TestHandOverOnAGateway(t *testing.T) {
	w := gateways(t, harness.Options{Replicas: 2})
	class := gatewayClass("handgate")
	w.create(class)
	for _, ns := range []string{"handgate-a", "handgate-b"} {
		w.create(namespace(ns), service(ns+"/web", port("http", 80)))
	}
	w.newGateway(class, "192.0.2.9")
	giver := sti("handgate-a/old", of(class.Name), tcp(5432), to("web", 80))
	heir := sti("handgate-b/new", of(class.Name), tcp(5432), to("web", 80))
	w.create(giver)
	w.programmed(giver)
	history := newHistory(t, w.Harness, func() moment { return &routedMoment{class: class, routes: map[string]*gatewayv1.TCPRoute{}} },
		&gatewayv1.ListenerSetList{}, &gatewayv1.TCPRouteList{})
	edit(w, giver, handsOverTo[*v1beta1.StreamIngress]("handgate-b/new"))
	w.create(heir)
	w.programmed(heir)
	w.routes(class, TCP, 5432, "handgate-b", "web:80")
	w.eventually("the route of who has given to go", func() error { return w.noRoute(class, TCP, 5432, "handgate-a") })
	w.has(giver, v1beta1.ConditionAccepted, "False HandedOver")
	history.mustHold(w)

	t.Log("to one that leads nowhere yet: nobody's traffic goes on to who has given")
	nowhere := sti("handgate-a/nowhere", of(class.Name), tcp(5432), func(s *v1beta1.StreamIngress) {
		to("none", 0)(s)
		s.Spec.Upstream.Port.Type, s.Spec.Upstream.Port.StrVal = 1, "http"
	})
	edit(w, heir, handsOverTo[*v1beta1.StreamIngress]("handgate-a/nowhere"))
	w.create(nowhere)
	w.heldBy(class.Name, TCP, 5432, "StreamIngress handgate-a/nowhere")
	w.eventually("the route of who has given to go", func() error { return w.noRoute(class, TCP, 5432, "handgate-b") })
}

// routedMoment is what leads from a port of a Gateway at a version.
type routedMoment struct {
	class  *v1beta1.StreamIngressClass
	opens  string
	routes map[string]*gatewayv1.TCPRoute
}

func (m *routedMoment) apply(e happening) []types.NamespacedName {
	switch stored := e.stored.(type) {
	case *gatewayv1.ListenerSet:
		m.opens = ""
		for _, l := range stored.Spec.Listeners {
			if l.Port == 5432 && !e.gone {
				m.opens = l.AllowedRoutes.Namespaces.Selector.MatchLabels[corev1.LabelMetadataName]
			}
		}
	case *gatewayv1.TCPRoute:
		if m.routes[stored.Namespace] = stored; e.gone {
			delete(m.routes, stored.Namespace)
		}
	}
	return m.everybody()
}

func (m *routedMoment) everybody() []types.NamespacedName {
	return []types.NamespacedName{{Name: m.class.Name}}
}

func (m *routedMoment) check(types.NamespacedName) error {
	if m.opens == "" || m.routes[m.opens] == nil {
		return fmt.Errorf("the listener is open to %q, and routes are in %d namespaces", m.opens, len(m.routes))
	}
	return nil
}

func (m *routedMoment) around([]happening, int, types.NamespacedName) string { return "" }
