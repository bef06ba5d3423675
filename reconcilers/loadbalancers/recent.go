package loadbalancers

import (
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"jeffthecoder.xyz/portcullis/internal/claim"
)

// recentClaims remembers the claims that were made here until the cache shows them. Otherwise a Service that is looked at
// twice would be given two addresses.
type recentClaims struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	made  map[claim.Holder]map[claim.Coordinate]time.Time
	by    map[claim.Coordinate]claim.Holder
}

// recentFor is how long a claim is remembered; the cache lags behind by less.
const recentFor = 10 * time.Second

func newRecentClaims(c clock.PassiveClock) *recentClaims {
	return &recentClaims{clock: c, made: map[claim.Holder]map[claim.Coordinate]time.Time{}, by: map[claim.Coordinate]claim.Holder{}}
}

func (r *recentClaims) add(by claim.Holder, at claim.Coordinate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(at)
	if r.made[by] == nil {
		r.made[by] = map[claim.Coordinate]time.Time{}
	}
	r.made[by][at], r.by[at] = r.clock.Now(), by
}

func (r *recentClaims) remove(at claim.Coordinate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(at)
}

// forget forgets all claims of a holder.
func (r *recentClaims) forget(by claim.Holder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at := range r.made[by] {
		r.drop(at)
	}
}

func (r *recentClaims) drop(at claim.Coordinate) {
	by, known := r.by[at]
	if !known {
		return
	}
	delete(r.by, at)
	delete(r.made[by], at)
	if len(r.made[by]) == 0 {
		delete(r.made, by)
	}
}

// has says whether a claim was made here a moment ago and the cache had not shown it when the holder was last looked at.
func (r *recentClaims) has(by claim.Holder, at claim.Coordinate) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.made[by][at]
	return known
}

// added is what a holder holds by the cache, and what it has claimed since. Those that the cache shows by now, or should,
// are forgotten.
func (r *recentClaims) added(held []claim.Coordinate, by claim.Holder, shown func(claim.Coordinate) bool) []claim.Coordinate {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at, made := range r.made[by] {
		switch {
		case slices.Contains(held, at):
			r.drop(at)
		case shown(at) || r.clock.Since(made) > recentFor:
			r.drop(at) // somebody else has it now, or it was deleted
		default:
			held = append(held, at)
		}
	}
	slices.SortFunc(held, claim.Compare)
	return held
}
