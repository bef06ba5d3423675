package kube

import (
	"context"
	"time"

	"golang.org/x/sync/singleflight"
)

// sharedReads reads something past the cache once for all who ask for it before the read begins; who asks later has the next read, which
// begins when this one has ended. So each is told what is stored once it has asked, as by a read of its own, and however many ask for one
// thing at a time, a single read of it is in flight. Its zero value is ready for use.
//
// All are given the same value, and must not change it.
type sharedReads[V any] struct {
	flights singleflight.Group
	turns   KeyMutex[string]
}

// sharedReadTimeout is how long a read takes at most, and a turn is waited for. It is no request's: others wait for the same read.
const sharedReadTimeout = 10 * time.Second

// get reads by a key. Its error is that of read, or that of ctx when that is done before.
func (s *sharedReads[V]) get(ctx context.Context, key string, read func(context.Context) (V, error)) (V, error) {
	answer := s.flights.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sharedReadTimeout)
		defer cancel()
		unlock, err := s.turns.Lock(ctx, key)
		if err != nil {
			return nil, err
		}
		defer unlock()
		s.flights.Forget(key) // who asks from now on is not told what this read finds: it may be older
		return read(ctx)
	})
	var none V
	select {
	case <-ctx.Done():
		return none, ctx.Err()
	case got := <-answer:
		if got.Err != nil {
			return none, got.Err
		}
		return got.Val.(V), nil
	}
}
