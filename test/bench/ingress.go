package main

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/bench/report"
	"jeffthecoder.xyz/portcullis/test/bench/sample"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// ingress measures bursts of Services that ask for an Ingress.
func (b *bench) ingress() error {
	section := report.Section{
		Title: "Ingresses of Services",
		About: fmt.Sprintf("Services with the annotation ingress/http are created by %d clients as fast as they can, each with a host of its "+
			"own. Writes are those of Portcullis, counted at the API server.", crowd),
	}
	sizes := []int{1000, 10000}
	if b.quick {
		sizes = []int{500}
	}
	for _, n := range sizes {
		err := b.on(1, harness.Options{ControlPlane: controlplane.Options{Audit: true}}, func(s *stage) error {
			figures, err := s.ingresses(n)
			section.Figures = append(section.Figures, figures...)
			return err
		})
		if err != nil {
			return err
		}
	}
	b.add(section)
	return nil
}

// ingresses measures one burst.
func (s *stage) ingresses(n int) ([]report.Figure, error) {
	s.b.say("ingress: %d Services by %d clients", n, crowd)
	class := &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "nginx"}}
	class.Spec.Controller = "example.com/nginx"
	if err := s.Client.Create(s.b.ctx, class); err != nil {
		return nil, err
	}
	clients, namespaces, err := s.clients("ingress", crowd)
	if err != nil {
		return nil, err
	}
	made, stop, err := s.tallying(&networkingv1.IngressList{}, func(client.Object) bool { return true })
	if err != nil {
		return nil, err
	}
	defer stop()
	before, err := s.written()
	if err != nil {
		return nil, err
	}
	defer s.b.reportProgress("Ingresses made", n, made.count)()
	var created sample.Sample
	began := time.Now()
	if err := created.Measure(crowd, n, func(worker, i int) error {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespaces[worker], Name: fmt.Sprintf("app-%d", i),
			Annotations: map[string]string{v1beta1.AnnotationHTTP: fmt.Sprintf("class=nginx, host=app-%d.example.com", i)},
		}}
		svc.Spec.ClusterIP = corev1.ClusterIPNone // for each other, the API server lists all addresses that it has given
		svc.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80}}
		return clients[worker].Create(s.b.ctx, svc)
	}); err != nil {
		return nil, err
	}
	lastCreate := time.Since(began)
	if err := s.until(func() (bool, error) { return made.count() >= n, nil }); err != nil {
		return nil, err
	}
	all := time.Since(began)
	writes, err := s.since(before, harness.User)
	if err != nil {
		return nil, err
	}
	name := func(what string) string { return fmt.Sprintf("%d Services: %s", n, what) }
	return []report.Figure{
		{Name: name("creates per second"), Value: created.Rate(), Unit: "1/s"},
		{Name: name("create, p99"), Value: created.At(99), Unit: "ms"},
		{Name: name("first create to last Ingress"), Value: all.Seconds(), Unit: "s"},
		{Name: name("last create to last Ingress"), Value: (all - lastCreate).Seconds(), Unit: "s"},
		{Name: name("writes of claims each"), Value: float64(writes.granted["edgeclaims"]) / float64(n), Unit: "writes"},
		{Name: name("writes of Ingresses each"), Value: float64(writes.granted["ingresses"]) / float64(n), Unit: "writes"},
	}, nil
}

// tallying counts the objects of a kind that once matched.
func (s *stage) tallying(list client.ObjectList, match func(client.Object) bool) (*tallied, func(), error) {
	t := &tallied{seen: map[string]bool{}}
	_, stop, err := s.watching(list, func(e watch.Event) string {
		if obj, ok := e.Object.(client.Object); ok && match(obj) {
			t.add(obj.GetNamespace() + "/" + obj.GetName())
		}
		return ""
	})
	return t, stop, err
}
