package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// sightings tell when something was first seen in a watch, by name.
type sightings struct {
	mu   sync.Mutex
	seen map[string]chan time.Time
}

func (s *sightings) of(name string) chan time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[name] == nil {
		s.seen[name] = make(chan time.Time, 1)
	}
	return s.seen[name]
}

// wait returns when name was seen.
func (s *sightings) wait(ctx context.Context, name string) (time.Time, error) {
	select {
	case at := <-s.of(name):
		return at, nil
	case <-time.After(5 * time.Minute):
		return time.Time{}, errors.New("waited five minutes for " + name)
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
}

// watching notes when matching events of a kind are seen first; match returns the name, empty for no match.
func (s *stage) watching(list client.ObjectList, match func(watch.Event) string) (*sightings, func(), error) {
	watcher, err := client.NewWithWatch(s.Config(), client.Options{Scheme: harness.Scheme(), Mapper: s.Client.RESTMapper()})
	if err != nil {
		return nil, nil, err
	}
	w, err := watcher.Watch(s.b.ctx, list)
	if err != nil {
		return nil, nil, err
	}
	found := &sightings{seen: map[string]chan time.Time{}}
	go func() {
		for e := range w.ResultChan() {
			if name := match(e); name != "" {
				select {
				case found.of(name) <- time.Now():
				default: // it was seen before
				}
			}
		}
	}()
	return found, w.Stop, nil
}

// release measures how long a port is held after its stream is deleted.
func (b *bench) release() error {
	return b.on(harness.Options{}, func(s *stage) error {
		n := b.of(200, 50)
		b.say("release: %d streams are deleted, one after the other", n)
		_, namespaces, err := s.clients("release", 1)
		if err == nil {
			err = s.class("release", true)
		}
		if err != nil {
			return err
		}
		gone, stop, err := s.watching(&v1beta1.EdgeClaimList{}, func(e watch.Event) string {
			if c, ok := e.Object.(*v1beta1.EdgeClaim); ok && e.Type == watch.Deleted {
				return c.Name
			}
			return ""
		})
		if err != nil {
			return err
		}
		defer stop()
		var free, again sample
		for i := range n {
			port := 10000 + i
			victim := stream(namespaces[0], fmt.Sprintf("victim-%d", i), "release", port)
			if err := s.Client.Create(b.ctx, victim); err != nil {
				return err
			}
			began := time.Now()
			if err := s.Client.Delete(b.ctx, victim); err != nil {
				return err
			}
			at, err := gone.wait(b.ctx, fmt.Sprintf("stream.release.tcp.%d", port))
			if err != nil {
				return err
			}
			free.add(at.Sub(began))
			rival := stream(namespaces[0], fmt.Sprintf("rival-%d", i), "release", port)
			if err := s.until(func() (bool, error) { return s.Client.Create(b.ctx, rival.DeepCopy()) == nil, nil }); err != nil {
				return err
			}
			again.add(time.Since(began))
		}
		b.add(section{
			Title: "From deletion to a free port",
			About: "A stream is created and deleted at once, with nothing in between. Measured is the time from the delete to the moment " +
				"its claim is gone, and to the moment another stream has the port.",
			Figures: []figure{
				{Name: "claim gone, p50", Value: free.at(50), Unit: "ms"},
				{Name: "claim gone, p99", Value: free.at(99), Unit: "ms"},
				{Name: "given to another, p50", Value: again.at(50), Unit: "ms"},
				{Name: "given to another, p99", Value: again.at(99), Unit: "ms"},
			},
		})
		return nil
	})
}

// programming measures how long it takes until a new stream's port is open.
func (b *bench) programming() error {
	return b.on(harness.Options{}, func(s *stage) error {
		n := b.of(100, 20)
		b.say("programming: %d streams are created, one after the other", n)
		_, namespaces, err := s.clients("programming", 1)
		if err == nil {
			err = s.class("programming", true)
		}
		if err != nil {
			return err
		}
		done, stop, err := s.watching(&v1beta1.StreamIngressList{}, func(e watch.Event) string {
			if si, ok := e.Object.(*v1beta1.StreamIngress); ok && meta.IsStatusConditionTrue(si.Status.Conditions, v1beta1.ConditionProgrammed) {
				return si.Name
			}
			return ""
		})
		if err != nil {
			return err
		}
		defer stop()
		var took sample
		for i := range n {
			name := fmt.Sprintf("stream-%d", i)
			began := time.Now()
			if err := s.Client.Create(b.ctx, stream(namespaces[0], name, "programming", 10000+i)); err != nil {
				return err
			}
			at, err := done.wait(b.ctx, name)
			if err != nil {
				return err
			}
			took.add(at.Sub(began))
			time.Sleep(500 * time.Millisecond) // the next one is no part of a burst
		}
		b.add(section{
			Title: "From create to an open port",
			About: "One stream at a time: from the create to the status that says that the ConfigMap has the entry and the Service the port. " +
				"Writes for one class are spaced, so that in a burst it takes up to two seconds longer.",
			Figures: []figure{
				{Name: "programmed, p50", Value: took.at(50), Unit: "ms"},
				{Name: "programmed, p99", Value: took.at(99), Unit: "ms"},
			},
		})
		return nil
	})
}
