package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/bench/report"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// onGateway is a class in front of a Gateway that nobody serves.
var onGateway = way{
	title: "gateway", list: &gatewayv1.TCPRouteList{}, said: isTold,
	isWritten: func(obj client.Object) bool { return obj.GetLabels()[v1beta1.LabelClass] != "" },
	resources: []string{"edgeclaims", "listenersets", "tcproutes", "status", "events"},
	limits:    map[string]float64{"listenersets": 0.3, "tcproutes": 1.1},
	byHand:    routeByHand,
	late:      "the listeners of a class are written together, at intervals that grow with what a look at the class takes",
	slow:      "a look at a class takes longer the more streams it has, and the clients share the machine",
}

// gateway measures a class in front of a Gateway while it fills.
func (b *bench) gateway() error {
	section := report.Section{
		Title: "Streams behind a Gateway",
		About: fmt.Sprintf("A class with a gateway is filled by %d clients, which together create %d streams a second. Each needs a listener "+
			"and a TCPRoute, which is written last. No controller serves the Gateway: what it takes is the same for each. "+
			"In between, streams are created one after the other, and, to compare with, a client makes a ListenerSet with one "+
			"listener and a TCPRoute by itself. Writes are those of Portcullis, counted at the API server.", crowd, steady),
	}
	sizes := []int{1000, 10000}
	if b.quick {
		sizes = []int{100}
	}
	err := b.on(1, harness.Options{ControlPlane: controlplane.Options{Audit: true}, Flags: b.profileFlags()}, func(s *stage) (err error) {
		if err := s.InstallGateways(b.ctx); err != nil {
			return err
		}
		if err := s.unservedGateway(); err != nil {
			return err
		}
		section.Figures, err = s.fillUp(onGateway, sizes)
		return err
	})
	b.add(section)
	return err
}

// isTold says whether a stream waits for nothing but the controller of its Gateway.
func isTold(si *v1beta1.StreamIngress) bool {
	c := meta.FindStatusCondition(si.Status.Conditions, v1beta1.ConditionProgrammed)
	return c != nil && meta.IsStatusConditionTrue(si.Status.Conditions, v1beta1.ConditionAccepted)
}

// gatewayOf makes a Gateway of a GatewayClass, and a class in front of it, both of one name.
func (s *stage) gatewayOf(name, of string) (*gatewayv1.Gateway, error) {
	gateway := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: edge(name), Name: name}}
	gateway.Spec.GatewayClassName = gatewayv1.ObjectName(of)
	gateway.Spec.Listeners = []gatewayv1.Listener{{Name: "own", Port: 65535, Protocol: gatewayv1.TCPProtocolType}}
	gateway.Spec.AllowedListeners = &gatewayv1.AllowedListeners{
		Namespaces: &gatewayv1.ListenerNamespaces{From: ptr.To(gatewayv1.NamespacesFromSame)},
	}
	class := &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	class.Spec.Gateway = &v1beta1.ObjectReference{Namespace: gateway.Namespace, Name: gateway.Name}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: gateway.Namespace}}, gateway, class,
	} {
		if err := s.Client.Create(s.b.ctx, object); err != nil {
			return nil, err
		}
	}
	return gateway, nil
}

// unservedGateway makes a Gateway that is said to be served, and a class in front of it.
func (s *stage) unservedGateway() error {
	accepted := metav1.Condition{
		Type: "Accepted", Status: metav1.ConditionTrue, Reason: "Accepted", LastTransitionTime: metav1.Now(),
	}
	of := &gatewayv1.GatewayClass{ObjectMeta: metav1.ObjectMeta{Name: onGateway.title}}
	of.Spec.ControllerName = "example.com/nobody"
	if err := s.Client.Create(s.b.ctx, of); err != nil {
		return err
	}
	of.Status.Conditions = []metav1.Condition{accepted}
	if err := s.Client.Status().Update(s.b.ctx, of); err != nil {
		return err
	}
	gateway, err := s.gatewayOf(onGateway.title, of.Name)
	if err != nil {
		return err
	}
	gateway.Status.Conditions = []metav1.Condition{accepted}
	gateway.Status.Addresses = []gatewayv1.GatewayStatusAddress{{Value: "198.51.100.1"}}
	if err := s.Client.Status().Update(s.b.ctx, gateway); err != nil {
		return err
	}
	return s.untilServed(onGateway.title)
}

// untilServed waits until a class says that it serves.
func (s *stage) untilServed(class string) error {
	return s.until(func() (bool, error) {
		c := &v1beta1.StreamIngressClass{}
		err := s.Client.Get(s.b.ctx, client.ObjectKey{Name: class}, c)
		return meta.IsStatusConditionTrue(c.Status.Conditions, v1beta1.ConditionProgrammed), err
	})
}

// routeByHand makes a listener and a route as a stream needs them.
func routeByHand(h *steadyHouse, port int32) error {
	set := &gatewayv1.ListenerSet{ObjectMeta: metav1.ObjectMeta{Namespace: edge(h.title), Name: fmt.Sprintf("by-hand-%d", port)}}
	set.Spec.ParentRef.Name = "by-hand" // it is foreign to no class
	set.Spec.Listeners = []gatewayv1.ListenerEntry{{Name: "s", Port: port, Protocol: gatewayv1.TCPProtocolType}}
	if err := h.Client.Create(h.b.ctx, set); err != nil {
		return err
	}
	route := &gatewayv1.TCPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespaces[0], Name: set.Name}}
	route.Spec.ParentRefs = []gatewayv1.ParentReference{{
		Kind: ptr.To(gatewayv1.Kind("ListenerSet")), Namespace: ptr.To(gatewayv1.Namespace(set.Namespace)),
		Name: gatewayv1.ObjectName(set.Name),
	}}
	backend := gatewayv1.BackendRef{BackendObjectReference: gatewayv1.BackendObjectReference{Name: "web", Port: ptr.To(int32(80))}}
	route.Spec.Rules = []gatewayv1.TCPRouteRule{{BackendRefs: []gatewayv1.BackendRef{backend}}}
	return h.Client.Create(h.b.ctx, route)
}
