package main

import (
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// scale measures the same creates with few streams and with many, and what many cost.
func (b *bench) scale() error {
	return b.on(harness.Options{}, func(s *stage) error {
		n, samples := b.of(10000, 2000), b.of(400, 100)
		b.say("scale: %d streams by %d clients", n, crowd)
		if err := s.class("scale", false); err != nil {
			return err
		}
		few, err := s.probe("few", samples)
		if err != nil {
			return err
		}
		took, created, err := s.fill("scale", n)
		if err != nil {
			return err
		}
		many, err := s.probe("many", samples)
		if err != nil {
			return err
		}
		figures := []figure{
			{Name: "all created", Value: created.elapsed, Unit: "s"},
			{Name: "all programmed", Value: took.Seconds(), Unit: "s"},
			{Name: "creates per second", Value: float64(n) / created.elapsed, Unit: "1/s"},
			{Name: "create with no other stream, p50", Value: few.at(50), Unit: "ms"},
			{Name: "create with no other stream, p99", Value: few.at(99), Unit: "ms"},
			{Name: "create with all of them, p50", Value: many.at(50), Unit: "ms"},
			{Name: "create with all of them, p99", Value: many.at(99), Unit: "ms"},
		}
		for i, r := range s.Replicas {
			figures = append(figures,
				figure{Name: fmt.Sprintf("memory of replica %d", i+1), Value: mebibytes(r.PID()), Unit: "MiB"},
				figure{Name: fmt.Sprintf("CPU time of replica %d", i+1), Value: cpuSeconds(r.PID()), Unit: "s"})
		}
		began := time.Now()
		if _, err := s.StartReplica(b.ctx); err != nil {
			return err
		}
		figures = append(figures, figure{Name: "another replica is ready", Value: time.Since(began).Seconds(), Unit: "s"})
		b.add(section{
			Title:   fmt.Sprintf("%d streams", n),
			About:   "In one class without a Service: an API object holds no Service with so many ports.",
			Figures: figures,
		})
		return nil
	})
}

// probe measures creates one at a time, and takes them back.
func (s *stage) probe(name string, n int) (*sample, error) {
	_, namespaces, err := s.clients("probe-"+name, 1)
	if err != nil {
		return nil, err
	}
	took := &sample{}
	err = took.measure(1, n, func(_, i int) error {
		return s.Client.Create(s.b.ctx, stream(namespaces[0], fmt.Sprintf("probe-%d", i), "scale", 1000+i))
	})
	if err != nil {
		return nil, err
	}
	if err := s.Client.DeleteAllOf(s.b.ctx, &v1beta1.StreamIngress{}, client.InNamespace(namespaces[0])); err != nil {
		return nil, err
	}
	return took, s.until(func() (bool, error) {
		var claims v1beta1.EdgeClaimList
		err := s.Client.List(s.b.ctx, &claims)
		for i := range claims.Items {
			if claims.Items[i].Spec.Holder.Namespace == namespaces[0] {
				return false, err
			}
		}
		return err == nil, err
	})
}
