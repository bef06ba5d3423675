package main

import (
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/bench/process"
	"jeffthecoder.xyz/portcullis/test/bench/report"
	"jeffthecoder.xyz/portcullis/test/bench/sample"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

const (
	// kernelClass is the class without a proxy.
	kernelClass = "kernel"
	// steady is how many streams are created in a second while it fills.
	steady = 50
	// singles are the ports of streams that are created one after the other, and of Services made by hand.
	singles, byHand = 60000, 62000
)

// kernelHouse is a class without a proxy that is filled step by step.
type kernelHouse struct {
	*stage
	clients    []client.Client
	namespaces []string
	// open counts the Services of streams that have an address, and seen tells when they had it.
	open *tallied
	seen *sightings
	// streams is how many there are, and opened how many single ones.
	streams, opened int
}

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
		sizes = []int{200}
	}
	err := b.on(1, harness.Options{ControlPlane: controlplane.Options{Audit: true}, Flags: b.profileFlags()}, func(s *stage) error {
		h, stop, err := s.kernelHouse()
		if err != nil {
			return err
		}
		defer stop()
		var before *sample.Sample
		for _, n := range sizes {
			filled, err := h.fill(n)
			section.Figures = append(section.Figures, filled...)
			if err != nil {
				return err
			}
			figures, took, err := h.single(before)
			section.Figures = append(section.Figures, figures...)
			if err != nil {
				return err
			}
			before = took
		}
		return nil
	})
	b.add(section)
	return err
}

// kernelHouse makes the class, and users with an upstream each.
func (s *stage) kernelHouse() (h *kernelHouse, stop func(), err error) {
	pool := &v1beta1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: kernelClass}}
	pool.Spec.Addresses = []string{"198.51.100.1/32"}
	class := &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: kernelClass}}
	class.Spec.AddressPool = &v1beta1.ClassAddressPool{Name: pool.Name, Namespace: edge(kernelClass)}
	at := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: edge(kernelClass)}}
	for _, object := range []client.Object{at, pool, class} {
		if err := s.Client.Create(s.b.ctx, object); err != nil {
			return nil, nil, err
		}
	}
	if err := s.until(func() (bool, error) {
		err := s.Client.Get(s.b.ctx, client.ObjectKeyFromObject(class), class)
		return len(class.Status.Addresses) > 0, err
	}); err != nil {
		return nil, nil, err
	}
	h = &kernelHouse{stage: s, open: &tallied{seen: map[string]bool{}}}
	if h.clients, h.namespaces, err = s.clients("user", crowd); err != nil {
		return nil, nil, err
	}
	for i, ns := range h.namespaces {
		if err := s.endpoint(ns, fmt.Sprintf("10.244.0.%d", 1+i)); err != nil {
			return nil, nil, err
		}
	}
	h.seen, stop, err = s.watching(&corev1.ServiceList{}, func(e watch.Event) string {
		svc, ok := e.Object.(*corev1.Service)
		if !ok || svc.Namespace != edge(kernelClass) || len(svc.Status.LoadBalancer.Ingress) == 0 {
			return ""
		}
		h.open.add(svc.Name)
		return svc.Name
	})
	return h, stop, err
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

// fill creates streams until there are so many, steadily, and waits until everything is written.
func (h *kernelHouse) fill(n int) ([]report.Figure, error) {
	h.b.say("kernel: %d streams, %d a second", n, steady)
	before, err := h.written()
	if err != nil {
		return nil, err
	}
	more, open := n-h.streams, h.open.count()
	used, profiled := h.computing(), h.b.profile(fmt.Sprintf("%s-%d", kernelClass, n))
	defer h.b.reportProgress("written", more, func() int { return h.open.count() - open })()
	pace := flowcontrol.NewTokenBucketRateLimiter(steady, 1)
	created := &sample.Sample{}
	if err := created.Measure(crowd, more, func(worker, i int) error {
		if err := pace.Wait(h.b.ctx); err != nil {
			return err
		}
		port := 1 + h.streams + i
		return h.clients[worker].Create(h.b.ctx, stream(h.namespaces[worker], fmt.Sprintf("s-%d", port), kernelClass, port))
	}); err != nil {
		return nil, err
	}
	lastCreate := time.Now()
	if err := h.until(func() (bool, error) { return h.open.count()-open >= more, nil }); err != nil {
		return nil, err
	}
	late := time.Since(lastCreate)
	if err := h.all(h.namespaces, isOpen); err != nil {
		return nil, err
	}
	reported := time.Since(lastCreate)
	profiled()
	h.streams = n
	writes, err := h.since(before, harness.User)
	if err != nil {
		return nil, err
	}
	name := func(what string) string { return fmt.Sprintf("%d streams: %s", n, what) }
	figures := []report.Figure{
		{Name: name("creates per second"), Value: created.Rate(), Unit: "1/s"},
		report.Figure{Name: name("last create to written"), Value: late.Seconds(), Unit: "s"}.AtMost(5, whyLateInKernel),
		{Name: name("last create to reported"), Value: reported.Seconds(), Unit: "s"},
	}
	figures = append(figures, kernelWrites(name, more, writes)...)
	for _, cost := range used(n) {
		cost.Name += fmt.Sprintf(", for %d of them", more)
		figures = append(figures, cost)
	}
	return append(figures, report.Figure{
		Name: name("memory of the manager"), Value: process.Memory(h.Replicas[0].PID()), Unit: "MiB",
	}), nil
}

// kernelWrites are what each of n streams has cost in writes.
func kernelWrites(name func(string) string, n int, writes tally) []report.Figure {
	var figures []report.Figure
	all := 0
	for _, resource := range []string{"edgeclaims", "services", "endpointslices", "status", "events"} {
		granted := writes.granted[resource]
		all += granted
		figures = append(figures, report.Figure{
			Name: name("writes of " + resource + " per stream"), Value: float64(granted) / float64(n), Unit: "writes",
		})
	}
	return append(figures, report.Figure{Name: name("writes per stream"), Value: float64(all) / float64(n), Unit: "writes"},
		report.Figure{Name: name("conflicts retried"), Value: float64(writes.conflicts), Unit: "writes"})
}

// whyLateInKernel explains what comes after the last create.
const whyLateInKernel = "for each Service with a cluster IP, the API server lists all cluster IPs that it has given, and it, etcd and " +
	"the clients share the machine"

// single creates streams one after the other, and Services by hand beside them. Before are the streams of a house with fewer, nil for none.
func (h *kernelHouse) single(before *sample.Sample) ([]report.Figure, *sample.Sample, error) {
	n := h.b.of(100, 5)
	h.b.say("kernel: %d streams, one after the other, among %d", n, h.streams)
	took, plain := &sample.Sample{}, &sample.Sample{}
	for range n {
		port := singles + h.opened
		h.opened++
		began := time.Now()
		if err := h.Client.Create(h.b.ctx, stream(h.namespaces[0], fmt.Sprintf("s-%d", port), kernelClass, port)); err != nil {
			return nil, nil, err
		}
		at, err := h.seen.wait(h.b.ctx, v1beta1.StreamServiceName(kernelClass, v1beta1.TCP, int32(port)))
		if err != nil {
			return nil, nil, err
		}
		took.Add(at.Sub(began))
		if err := harness.Pause(h.b.ctx, 250*time.Millisecond); err != nil { // the next one is no part of a burst
			return nil, nil, err
		}
		began = time.Now()
		if err := h.byHand(int32(byHand + h.opened)); err != nil {
			return nil, nil, err
		}
		plain.Add(time.Since(began))
	}
	const than = "by hand"
	name := func(what string) string {
		return fmt.Sprintf("one more of %d streams: create to written, %s", h.streams, what)
	}
	const why = "what the API server takes for a Service with a cluster IP grows with their number, see what it takes by hand"
	worst := report.Figure{Name: name("p99"), Value: took.At(99), Unit: "ms"}.Against(than, plain.At(99)).AtMost(500, why)
	figures := []report.Figure{
		report.Figure{Name: name("p50"), Value: took.At(50), Unit: "ms"}.Against(than, plain.At(50)), worst,
	}
	if before != nil {
		ratio := report.Figure{Name: name("p50, beside fewer streams"), Value: took.At(50), Unit: "ms"}.Against("fewer streams", before.At(50))
		figures = append(figures, ratio)
	}
	return figures, took, nil
}

// byHand makes what a stream needs, as one would without Portcullis.
func (h *kernelHouse) byHand(port int32) error {
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
