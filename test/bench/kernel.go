package main

import (
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/bench/report"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// kernel measures a class whose streams the nodes forward, while it fills.
func (b *bench) kernel() error {
	section := report.Section{
		Title: "Streams without a proxy",
		About: fmt.Sprintf("A class with an addressPool is filled by %d clients, which together create %d streams a second. Each stream leads "+
			"to a Service with one Pod, and needs a Service and an EndpointSlice of its own. Written is when the status of its Service has "+
			"the address, which comes last. In between, streams are created one after the other, and, to compare with, a client makes "+
			"such a Service, EndpointSlice and status by itself. Writes are those of Portcullis, counted at the API server.", crowd, steady),
	}
	sizes := []int{1000, 10000, 30000}
	if b.quick {
		sizes = []int{100}
	}
	err := b.on(1, harness.Options{ControlPlane: controlplane.Options{Audit: true}, Flags: b.profileFlags()}, func(s *stage) (err error) {
		if err := s.kernelClass(); err != nil {
			return err
		}
		section.Figures, err = s.fillUp(inKernel, sizes)
		return err
	})
	b.add(section)
	return err
}

// inKernel is a class without a proxy.
var inKernel = way{
	title: "kernel", list: &corev1.ServiceList{}, said: isOpen,
	isWritten: func(obj client.Object) bool {
		svc, ok := obj.(*corev1.Service)
		return ok && svc.Namespace == edge("kernel") && len(svc.Status.LoadBalancer.Ingress) > 0
	},
	resources: []string{"edgeclaims", "services", "endpointslices", "status", "events"},
	byHand:    serviceByHand,
	late: "for each Service with a cluster IP, the API server lists all cluster IPs that it has given, and it, etcd and " +
		"the clients share the machine",
	slow: "what the API server takes for a Service with a cluster IP grows with their number, see what it takes by hand",
}

// kernelClass makes the class, and waits until it has its address.
func (s *stage) kernelClass() error {
	pool := &v1beta1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: inKernel.title}}
	pool.Spec.Addresses = []string{"198.51.100.1/32"}
	class := &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: inKernel.title}}
	class.Spec.AddressPool = &v1beta1.ClassAddressPool{Name: pool.Name, Namespace: edge(inKernel.title)}
	at := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: edge(inKernel.title)}}
	for _, object := range []client.Object{at, pool, class} {
		if err := s.Client.Create(s.b.ctx, object); err != nil {
			return err
		}
	}
	return s.until(func() (bool, error) {
		err := s.Client.Get(s.b.ctx, client.ObjectKeyFromObject(class), class)
		return len(class.Status.Addresses) > 0, err
	})
}

// endpoint gives the Service "web" of a namespace a Pod that runs, and an EndpointSlice with it.
func (s *stage) endpoint(namespace, ip string) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web-0"}}
	pod.Spec.Containers = []corev1.Container{{Name: "web", Image: "web"}}
	if err := s.Client.Create(s.b.ctx, pod); err != nil {
		return err
	}
	pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, ip, []corev1.PodIP{{IP: ip}}
	if err := s.Client.Status().Update(s.b.ctx, pod); err != nil {
		return err
	}
	slice := sliceTo("web", "", 80, ip)
	slice.Namespace, slice.Name = namespace, "web-0"
	slice.Endpoints[0].TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: pod.Name, UID: pod.UID}
	return s.Client.Create(s.b.ctx, slice)
}

// sliceTo is an EndpointSlice of a Service with one endpoint.
func sliceTo(service, name string, port int32, ip string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: service}
	slice.Ports = []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: new(corev1.ProtocolTCP)}}
	slice.Endpoints = []discoveryv1.Endpoint{{
		Addresses: []string{ip}, NodeName: new("node-a"),
		Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
	}}
	return slice
}

// serviceByHand makes a Service as a stream needs it.
func serviceByHand(h *steadyHouse, port int32) error {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespaces[0], Name: fmt.Sprintf("by-hand-%d", port)}}
	svc.Spec.Type, svc.Spec.AllocateLoadBalancerNodePorts = corev1.ServiceTypeLoadBalancer, new(false)
	svc.Spec.LoadBalancerClass = new("example.com/by-hand")
	svc.Spec.Ports = []corev1.ServicePort{{Name: "s", Port: port, TargetPort: intstr.FromInt32(port)}}
	if err := h.Client.Create(h.b.ctx, svc); err != nil {
		return err
	}
	slice := sliceTo(svc.Name, "s", 80, "10.244.0.1")
	slice.Namespace, slice.Name = svc.Namespace, svc.Name
	if err := h.Client.Create(h.b.ctx, slice); err != nil {
		return err
	}
	patch := fmt.Appendf(nil, `{"status":{"loadBalancer":{"ingress":[{"ip":"203.0.113.%d"}]}}}`, 1+port%int32(math.MaxUint8-1))
	return h.Client.Status().Patch(h.b.ctx, svc, client.RawPatch(types.MergePatchType, patch))
}
