package adversary

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"jeffthecoder.xyz/portcullis/test/harness"
)

// replicas are those that run, and have others take the place of those that don't.
type replicas struct {
	h  *harness.Harness
	mu sync.Mutex
	// running are two, some of which may have ended.
	running []*harness.Replica
	// next is when those that have ended are replaced.
	next time.Time
}

// kill kills one replica, or now and then both, so that nobody answers. One of them leads.
func (r *replicas) kill(rng *rand.Rand) act {
	which, wait := pick(rng, "first", "second", "first", "second", "both"), time.Duration(rng.IntN(3000))*time.Millisecond
	return act{what: fmt.Sprintf("kill -9 %s of the replicas, and replace what has ended after %v", which, wait), do: func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.next = time.Now().Add(wait)
		var errs []error
		for i, one := range r.running {
			if which == "both" || which == []string{"first", "second"}[i] {
				errs = append(errs, one.Kill())
			}
		}
		return errors.Join(errs...)
	}}
}

// tend replaces what has ended until ctx ends: those that were killed, and one that has lost its lease because this machine stood
// still.
func (r *replicas) tend(ctx context.Context) error {
	for harness.Pause(ctx, 200*time.Millisecond) == nil {
		if err := r.replace(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("replacing a replica: %w", err)
		}
	}
	return nil
}

func (r *replicas) replace(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Now().Before(r.next) {
		return nil
	}
	for i, one := range r.running {
		select {
		case <-one.Ended():
		default:
			continue
		}
		another, err := r.h.StartReplica(ctx)
		if err != nil {
			return err
		}
		r.running[i] = another
	}
	return nil
}

// disturb has answers of the replicas be late, or get lost, for a while: requests then fail, or pass without a verdict where
// they may.
func (s *stage) disturb(rng *rand.Rand) act {
	lost, wait := 2+rng.IntN(4), time.Duration(1000+rng.IntN(4000))*time.Millisecond
	return act{what: fmt.Sprintf("lose one of %d answers of the replicas for %v", lost, wait), do: func(ctx context.Context) error {
		s.DisturbAnswers(func() harness.Fate { return harness.Fate{Delay: rand.N(50 * time.Millisecond), Cut: rand.N(lost) == 0} })
		defer s.DisturbAnswers(nil)
		return harness.Pause(ctx, wait)
	}}
}
