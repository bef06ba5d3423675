package kube

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Turns lets one at a time have the turn at a key. Who waits gets it in the order of asking.
type Turns[K comparable] struct {
	mu   sync.Mutex
	busy map[K]*turn
}

type turn struct {
	one *semaphore.Weighted
	// users are those who have the turn or wait for it.
	users int
}

// NewTurns are turns that nobody has.
func NewTurns[K comparable]() *Turns[K] { return &Turns[K]{busy: map[K]*turn{}} }

// Take waits for the turn at a key, and returns what ends it. It returns the error of ctx when that is done before.
func (t *Turns[K]) Take(ctx context.Context, key K) (end func(), err error) {
	t.mu.Lock()
	at := t.busy[key]
	if at == nil {
		at = &turn{one: semaphore.NewWeighted(1)}
		t.busy[key] = at
	}
	at.users++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		at.users--
		if at.users == 0 {
			delete(t.busy, key)
		}
	}
	if err := at.one.Acquire(ctx, 1); err != nil {
		leave()
		return nil, err
	}
	return func() {
		at.one.Release(1)
		leave()
	}, nil
}
