package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// progress follows what the proxy of a class is told: how many ports stand in its ConfigMap and on its Service.
type progress struct {
	mu sync.Mutex
	// entries and ports are what stands there now; ports does not count the one that was there before.
	entries, ports int
	// withService says that the class has a Service.
	withService bool
	steps       []step
	changed     chan struct{}
}

// step is how far it was at a time: so many ports were in the ConfigMap, and so many of them done.
type step struct {
	at            time.Time
	entries, done int
}

// follow begins to follow the proxy of a class. The caller calls stop.
func (s *stage) follow(class string, withService bool) (p *progress, stop func(), err error) {
	p = &progress{withService: withService, changed: make(chan struct{}, 1)}
	var configMapsNow corev1.ConfigMapList
	configMaps, err := s.watch(&configMapsNow, client.InNamespace(edge(class)))
	if err != nil {
		return nil, nil, err
	}
	var servicesNow corev1.ServiceList
	services, err := s.watch(&servicesNow, client.InNamespace(edge(class)))
	if err != nil {
		configMaps.Stop()
		return nil, nil, err
	}
	for i := range configMapsNow.Items {
		p.note(&configMapsNow.Items[i])
	}
	for i := range servicesNow.Items {
		p.note(&servicesNow.Items[i])
	}
	for _, w := range []watch.Interface{configMaps, services} {
		go func() {
			for e := range w.ResultChan() {
				p.note(e.Object)
			}
		}()
	}
	return p, func() { configMaps.Stop(); services.Stop() }, nil
}

// note notes a version of the ConfigMap or of the Service.
func (p *progress) note(obj runtime.Object) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch obj := obj.(type) {
	case *corev1.ConfigMap:
		p.entries = len(obj.Data)
	case *corev1.Service:
		p.ports = len(obj.Spec.Ports) - 1
	}
	p.steps = append(p.steps, step{time.Now(), p.entries, p.now()})
	select {
	case p.changed <- struct{}{}:
	default: // somebody has been told already
	}
}

// now is how far it is; p.mu is held.
func (p *progress) now() int {
	if !p.withService {
		return p.entries
	}
	return min(p.entries, p.ports)
}

// done is how far it is.
func (p *progress) done() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now()
}

// history is how far it was at which time.
func (p *progress) history() []step {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.steps)
}

// reached is when there were so many first, false when there are not.
func reached(steps []step, n int, of func(step) int) (time.Time, bool) {
	for _, s := range steps {
		if of(s) >= n {
			return s.at, true
		}
	}
	return time.Time{}, false
}

// errTooLong says that something was not waited for any longer.
var errTooLong = errors.New("it takes too long")

// wait waits until n are done, and returns when that was. The error is errTooLong after limit.
func (p *progress) wait(ctx context.Context, n int, limit time.Duration) (time.Time, error) {
	timeout := time.After(limit)
	for {
		if at, ok := reached(p.history(), n, func(s step) int { return s.done }); ok {
			return at, nil
		}
		select {
		case <-p.changed:
		case <-timeout:
			return time.Time{}, fmt.Errorf("%d of %d ports are programmed: %w", p.done(), n, errTooLong)
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		}
	}
}
