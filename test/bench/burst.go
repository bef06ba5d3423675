package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// crowd is how many users create streams at once.
const crowd = 32

// burst creates a thousand streams as fast as it can, and counts what Portcullis writes for them.
func (b *bench) burst() error {
	return b.on(harness.Options{ControlPlane: controlplane.Options{Audit: true}}, func(s *stage) error {
		n := 1000
		b.say("burst: %d streams by %d clients", n, crowd)
		if err := s.class("burst", true); err != nil {
			return err
		}
		before, err := s.Writes()
		if err != nil {
			return err
		}
		took, created, err := s.fill("burst", n)
		if err != nil {
			return err
		}
		writes, err := s.Writes()
		if err != nil {
			return err
		}
		counts, statuses := count(writes[len(before):])
		b.say("all are deleted")
		gone := time.Now()
		if err := s.empty("burst"); err != nil {
			return err
		}
		b.add(section{
			Title: "A burst of 1,000 streams",
			About: fmt.Sprintf("Created by %d clients as fast as they can, for one class with a Service. Writes are counted at the API server, "+
				"those of Portcullis only.", crowd),
			Figures: []figure{
				{Name: "all created", Value: created.elapsed, Unit: "s"},
				{Name: "all programmed", Value: took.Seconds(), Unit: "s"},
				{Name: "create p50", Value: created.at(50), Unit: "ms"},
				{Name: "create p99", Value: created.at(99), Unit: "ms"},
				{Name: "all deleted, and all ports free again", Value: time.Since(gone).Seconds(), Unit: "s"},
				{Name: "writes of ConfigMaps, in all", Value: float64(counts["configmaps"]), Unit: "writes"},
				{Name: "writes of the Service, in all", Value: float64(counts["services"]), Unit: "writes"},
				{Name: "writes of claims per stream", Value: float64(counts["edgeclaims"]) / float64(n), Unit: "writes"},
				{Name: "writes of status per stream", Value: float64(counts["status"]) / float64(n), Unit: "writes"},
				{Name: "writes of status of one stream, at most", Value: float64(statuses), Unit: "writes"},
			},
		})
		return nil
	})
}

// fill creates n streams of a class by many clients, and waits until all are programmed.
func (s *stage) fill(class string, n int) (took time.Duration, created *sample, err error) {
	clients, namespaces, err := s.clients(class, crowd)
	if err != nil {
		return 0, nil, err
	}
	created = &sample{}
	began := time.Now()
	err = created.measure(crowd, n, func(worker, i int) error {
		return clients[worker].Create(s.b.ctx, stream(namespaces[worker], fmt.Sprintf("%s-%d", class, i), class, 10000+i))
	})
	if err != nil {
		return 0, nil, err
	}
	s.b.say("all are created")
	for _, ns := range namespaces {
		if err := s.until(func() (bool, error) { return s.open(ns) }); err != nil {
			return 0, nil, errors.Join(fmt.Errorf("not all streams in %s are programmed", ns), err)
		}
	}
	return time.Since(began), created, nil
}

// empty deletes the streams that fill has created, and waits until their ports are free.
func (s *stage) empty(class string) error {
	for i := range crowd {
		if err := s.Client.DeleteAllOf(s.b.ctx, &v1beta1.StreamIngress{}, client.InNamespace(fmt.Sprintf("%s-%d", class, i))); err != nil {
			return err
		}
	}
	return s.calm(class)
}

// open says whether all streams of a namespace are programmed.
func (s *stage) open(namespace string) (bool, error) {
	var streams v1beta1.StreamIngressList
	if err := s.Client.List(s.b.ctx, &streams, client.InNamespace(namespace)); err != nil {
		return false, err
	}
	for i := range streams.Items {
		if !meta.IsStatusConditionTrue(streams.Items[i].Status.Conditions, v1beta1.ConditionProgrammed) {
			return false, nil
		}
	}
	return true, nil
}

// count counts what Portcullis was granted to write, by resource, and the most writes of one stream's status.
func count(writes []controlplane.Write) (counts map[string]int, most int) {
	counts = map[string]int{}
	statuses := map[string]int{}
	for _, w := range writes {
		if w.User != harness.User || w.Code >= 400 {
			continue
		}
		resource, _, _ := strings.Cut(w.Resource, ".")
		if strings.HasSuffix(w.Resource, "/status") {
			key := w.Namespace + "/" + w.Name
			statuses[key]++
			most = max(most, statuses[key])
			resource = "status"
		}
		counts[resource]++
	}
	return counts, most
}
