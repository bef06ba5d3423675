package pods

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"jeffthecoder.xyz/portcullis/internal/podtoip"
)

// showsWithin is how long the cache may take to show a change before the change is made again.
const showsWithin = 10 * time.Second

// recentChanges remembers the changes that the cache does not show yet, so that none of them is made twice: a Pod
// changes twice within the moment that a write needs to come back. What it remembers may be lost.
type recentChanges struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	made  map[types.NamespacedName]madeChange
}

type madeChange struct {
	podtoip.Change
	// seen is the version of the PodToIP in the cache when the change was made, and at is when that was.
	seen string
	at   time.Time
}

func newRecentChanges(c clock.PassiveClock) *recentChanges {
	return &recentChanges{clock: c, made: map[types.NamespacedName]madeChange{}}
}

// begin remembers a change that is about to be made. seen is the version of the PodToIP in the cache, "" when there is
// none. If the same change was made a moment ago, and the cache is as it was then, it says how long to wait for the
// cache; else 0. That the cache moves on is not taken from events: they may tell of what was before the change.
func (r *recentChanges) begin(key types.NamespacedName, seen string, change podtoip.Change) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if change.IsNone() {
		delete(r.made, key)
		return 0
	}
	now := r.clock.Now()
	if made, ok := r.made[key]; ok && made.seen == seen && made.Equal(change) {
		if left := showsWithin - now.Sub(made.at); left > 0 {
			return left
		}
	}
	r.made[key] = madeChange{change, seen, now}
	return 0
}

// forget says that a change was not made.
func (r *recentChanges) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.made, key)
}
