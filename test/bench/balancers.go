package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/bench/report"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// balancers measures bursts of Services of type LoadBalancer, which get addresses of a pool.
func (b *bench) balancers() error {
	section := report.Section{
		Title: "Addresses of LoadBalancer Services",
		About: fmt.Sprintf("Services of type LoadBalancer are created by %d clients as fast as they can. "+
			"Writes are those of Portcullis, counted at the API server. For each Service with a cluster IP, the API server lists all cluster "+
			"IPs that it has given: with thousands of them, that is most of what a create takes.", crowd),
	}
	type burst struct {
		n    int
		pool string
	}
	bursts := []burst{{200, "198.51.100.0/24"}, {200, "10.0.0.0/8"}, {1000, "10.0.0.0/8"}, {10000, "10.0.0.0/8"}}
	if b.quick {
		bursts = []burst{{100, "10.0.0.0/8"}}
	}
	for _, burst := range bursts {
		err := b.on(1, harness.Options{ControlPlane: controlplane.Options{Audit: true}}, func(s *stage) error {
			figures, err := s.addresses(burst.n, burst.pool)
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

// addresses measures one burst.
func (s *stage) addresses(n int, addresses string) ([]report.Figure, error) {
	s.b.say("balancers: %d Services by %d clients, from %s", n, crowd, addresses)
	pool := &v1beta1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: "bench"}}
	pool.Spec.Addresses = []string{addresses}
	if err := s.Client.Create(s.b.ctx, pool); err != nil {
		return nil, err
	}
	got, err := s.meet(demand{
		name: "address", n: n, list: &corev1.ServiceList{},
		fill: func(svc *corev1.Service) {
			svc.Spec.Type, svc.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new(v1beta1.LoadBalancerClass)
			svc.Spec.AllocateLoadBalancerNodePorts = new(false)
		},
		matches: func(obj client.Object) bool {
			svc, ok := obj.(*corev1.Service)
			return ok && len(svc.Status.LoadBalancer.Ingress) > 0
		},
	})
	if err != nil {
		return nil, err
	}
	name := func(what string) string { return fmt.Sprintf("%d Services from %s: %s", n, addresses, what) }
	claims, statuses := float64(got.writes.granted["edgeclaims"])/float64(n), float64(got.writes.granted["status"])/float64(n)
	again := fmt.Sprintf("some were written more than once, %d after a conflict", got.writes.conflicts)
	return []report.Figure{
		{Name: name("creates per second"), Value: got.created.Rate(), Unit: "1/s"},
		{Name: name("first create to last address"), Value: got.last.Seconds(), Unit: "s"},
		{Name: name("last create to last address"), Value: (got.last - got.lastCreate).Seconds(), Unit: "s"},
		report.Figure{Name: name("writes of status each"), Value: statuses, Unit: "writes"}.AtMost(1.5, again),
		report.Figure{Name: name("writes of status and claims each"), Value: claims + statuses, Unit: "writes"}.AtMost(2.5, again),
	}, nil
}
