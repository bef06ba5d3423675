package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/bench/report"
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
		sizes = []int{100}
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
	got, err := s.meet(demand{
		name: "Ingress", n: n, list: &networkingv1.IngressList{},
		fill: func(svc *corev1.Service) {
			svc.Annotations = map[string]string{v1beta1.AnnotationHTTP: fmt.Sprintf("class=nginx, host=%s.example.com", svc.Name)}
			svc.Spec.ClusterIP = corev1.ClusterIPNone // for each other, the API server lists all addresses that it has given
		},
		matches: func(client.Object) bool { return true },
	})
	if err != nil {
		return nil, err
	}
	name := func(what string) string { return fmt.Sprintf("%d Services: %s", n, what) }
	return []report.Figure{
		{Name: name("creates per second"), Value: got.created.Rate(), Unit: "1/s"},
		{Name: name("create, p99"), Value: got.created.At(99), Unit: "ms"},
		{Name: name("first create to last Ingress"), Value: got.last.Seconds(), Unit: "s"},
		{Name: name("last create to last Ingress"), Value: (got.last - got.lastCreate).Seconds(), Unit: "s"},
		{Name: name("writes of claims each"), Value: float64(got.writes.granted["edgeclaims"]) / float64(n), Unit: "writes"},
		{Name: name("writes of Ingresses each"), Value: float64(got.writes.granted["ingresses"]) / float64(n), Unit: "writes"},
	}, nil
}
