package main

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/test/bench/sample"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// demand is a number of Services that are created at once and ask for something.
type demand struct {
	// name of what is asked for.
	name string
	n    int
	// fill makes a Service ask.
	fill func(svc *corev1.Service)
	// list is the kind that shows that a Service has what it asks for, by an object that matches.
	list    client.ObjectList
	matches func(client.Object) bool
}

// supply is what became of a demand.
type supply struct {
	created sample.Sample
	// lastCreate and last are when the last Service was created and had what it asks for, counted from the first create.
	lastCreate, last time.Duration
	// writes are those of Portcullis.
	writes tally
}

// meet creates the Services, and waits until all have what they ask for.
func (s *stage) meet(d demand) (*supply, error) {
	clients, namespaces, err := s.clients("app", crowd)
	if err != nil {
		return nil, err
	}
	met, stop, err := s.tallying(d.list, d.matches)
	if err != nil {
		return nil, err
	}
	defer stop()
	before, err := s.written()
	if err != nil {
		return nil, err
	}
	defer s.b.reportProgress("Services have their "+d.name, d.n, met.count)()
	result := &supply{}
	began := time.Now()
	if err := result.created.Measure(crowd, d.n, func(worker, i int) error {
		svc := &corev1.Service{}
		svc.Namespace, svc.Name = namespaces[worker], fmt.Sprintf("app-%d", i)
		svc.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80}}
		d.fill(svc)
		return clients[worker].Create(s.b.ctx, svc)
	}); err != nil {
		return nil, err
	}
	result.lastCreate = time.Since(began)
	if err := s.until(func() (bool, error) { return met.count() >= d.n, nil }); err != nil {
		return nil, errors.Join(fmt.Errorf("%d of %d Services have their %s", met.count(), d.n, d.name), err)
	}
	result.last = time.Since(began)
	result.writes, err = s.since(before, harness.User)
	return result, err
}

// tallying counts the objects of a kind that once matched.
func (s *stage) tallying(list client.ObjectList, matches func(client.Object) bool) (*tallied, func(), error) {
	t := &tallied{seen: map[string]bool{}}
	_, stop, err := s.watching(list, func(e watch.Event) string {
		if obj, ok := e.Object.(client.Object); ok && matches(obj) {
			t.add(obj.GetNamespace() + "/" + obj.GetName())
		}
		return ""
	})
	return t, stop, err
}
