package main

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/bench/report"
	"jeffthecoder.xyz/portcullis/test/bench/sample"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// balancers measures bursts of Services of type LoadBalancer, which get addresses of a pool.
func (b *bench) balancers() error {
	if help, _ := exec.CommandContext(b.ctx, b.binary, "--help").CombinedOutput(); !bytes.Contains(help, []byte("default-load-balancer")) {
		b.say("balancers: this version gives no addresses to Services")
		return nil
	}
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
		bursts = []burst{{200, "198.51.100.0/24"}, {200, "10.0.0.0/8"}}
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
	clients, namespaces, err := s.clients("balancers", crowd)
	if err != nil {
		return nil, err
	}
	served, stop, err := s.tallying(&corev1.ServiceList{}, func(obj client.Object) bool {
		svc, ok := obj.(*corev1.Service)
		return ok && len(svc.Status.LoadBalancer.Ingress) > 0
	})
	if err != nil {
		return nil, err
	}
	defer stop()
	before, err := s.written()
	if err != nil {
		return nil, err
	}
	defer s.b.reportProgress("Services served", n, served.count)()
	var created sample.Sample
	began := time.Now()
	if err := created.Measure(crowd, n, func(worker, i int) error {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespaces[worker], Name: fmt.Sprintf("app-%d", i)}}
		svc.Spec.Type, svc.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new(v1beta1.LoadBalancerClass)
		svc.Spec.AllocateLoadBalancerNodePorts = new(false)
		svc.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80}}
		return clients[worker].Create(s.b.ctx, svc)
	}); err != nil {
		return nil, err
	}
	lastCreate := time.Since(began)
	if err := s.until(func() (bool, error) { return served.count() >= n, nil }); err != nil {
		return nil, errors.Join(fmt.Errorf("%d of %d Services are served", served.count(), n), err)
	}
	all := time.Since(began)
	writes, err := s.since(before, harness.User)
	if err != nil {
		return nil, err
	}
	name := func(what string) string { return fmt.Sprintf("%d Services from %s: %s", n, addresses, what) }
	claims, statuses := float64(writes.granted["edgeclaims"])/float64(n), float64(writes.granted["status"])/float64(n)
	return []report.Figure{
		{Name: name("creates per second"), Value: created.Rate(), Unit: "1/s"},
		{Name: name("first create to last address"), Value: all.Seconds(), Unit: "s"},
		{Name: name("last create to last address"), Value: (all - lastCreate).Seconds(), Unit: "s"},
		report.Figure{Name: name("writes of status each"), Value: statuses, Unit: "writes"}.AtMost(1.5, ""),
		report.Figure{Name: name("writes of status and claims each"), Value: claims + statuses, Unit: "writes"}.AtMost(2.5, ""),
	}, nil
}
