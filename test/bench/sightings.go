package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// watch watches a kind from now on. What is there already is in the list, as far as the
// options want it.
func (s *stage) watch(list client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
	user, err := s.user()
	if err != nil {
		return nil, err
	}
	if err := user.List(s.b.ctx, list, options...); err != nil {
		return nil, err
	}
	return harness.Follow(s.b.ctx, user, list, options...)
}

// watching notes when matching events of a kind are seen first; match returns the name, empty for no match.
func (s *stage) watching(list client.ObjectList, match func(watch.Event) string) (*sightings, func(), error) {
	w, err := s.watch(list, client.Limit(1))
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

// tallied counts names.
type tallied struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (t *tallied) add(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen[name] = true
}

func (t *tallied) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.seen)
}
