package pods

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"jeffthecoder.xyz/portcullis/internal/podtoip"
)

// cacheTimeout is how long the cache may take to show a change before the change is made again.
const cacheTimeout = 10 * time.Second

// recentChanges keeps the changes that the cache does not show yet, so that none of them is made twice: a Pod often changes
// again before the watch has brought the last write back. It may be lost: then a change is made twice.
// PodToIPs are no claims, and nobody else asks about them: that is why they are not in a claim.Written.
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

// begin records a change that is about to be made, and returns 0. seen is the version of the PodToIP in the cache, "" when there
// is none. If the same change was made less than cacheTimeout ago, and the cache is as it was then, it returns how long to
// wait for the cache instead. It compares versions and not events, which may be those of changes before.
func (r *recentChanges) begin(key types.NamespacedName, seen string, change podtoip.Change) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if change.IsNone() {
		delete(r.made, key)
		return 0
	}
	now := r.clock.Now()
	if made, ok := r.made[key]; ok && made.seen == seen && made.Equal(change) {
		if left := cacheTimeout - now.Sub(made.at); left > 0 {
			return left
		}
	}
	r.made[key] = madeChange{change, seen, now}
	return 0
}

// forget drops a change that was not made after all.
func (r *recentChanges) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.made, key)
}
