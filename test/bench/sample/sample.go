// Package sample measures how long things take.
package sample

import (
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Sample are how long things took. The zero value is an empty one; it is for many goroutines at once.
type Sample struct {
	mu  sync.Mutex
	all []float64
	// elapsed is how long all of them together took.
	elapsed time.Duration
}

// Add adds how long something took.
func (s *Sample) Add(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, float64(d)/float64(time.Millisecond))
}

// At is the percentile p, from 0 to 100, in milliseconds; 0 of an empty sample.
func (s *Sample) At(p float64) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		return 0
	}
	slices.Sort(s.all)
	return s.all[max(int(math.Ceil(p/100*float64(len(s.all))))-1, 0)]
}

// Len is how many there are.
func (s *Sample) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// Seconds is how long the calls of Measure took, in seconds.
func (s *Sample) Seconds() float64 { return s.elapsed.Seconds() }

// Rate is how many there were in a second of the calls of Measure.
func (s *Sample) Rate() float64 {
	if s.elapsed == 0 {
		return 0
	}
	return float64(s.Len()) / s.Seconds()
}

// Measure calls do for 0 to n-1, as many at once as there are workers, and adds how long each call took. A worker that
// meets an error ends.
func (s *Sample) Measure(workers, n int, do func(worker, i int) error) error {
	var next atomic.Int64
	var group sync.WaitGroup
	errs := make([]error, workers)
	began := time.Now()
	for worker := range workers {
		group.Go(func() {
			for errs[worker] == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				start := time.Now()
				errs[worker] = do(worker, i)
				s.Add(time.Since(start))
			}
		})
	}
	group.Wait()
	s.elapsed += time.Since(began)
	return errors.Join(errs...)
}
