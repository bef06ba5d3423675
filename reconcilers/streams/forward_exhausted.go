package streams

import (
	"maps"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// clusterIPs tells whether the cluster has none left. The API server says that its range is full also while it only does not know yet
// which cluster IPs are taken, as in the first seconds after it has begun (k8s.io/kubernetes/pkg/registry/core/service/ipallocator,
// AllocateNextService). A class that believed it would refuse streams. So a port believes the words once it has heard them for a while.
// What others get meanwhile does not count: who makes and deletes streams again and again would keep the truth from everybody. A process
// that begins has heard nothing.
type clusterIPs struct {
	clock clock.PassiveClock

	mu sync.Mutex
	// heard is when each port has heard the words.
	heard map[claim.Coordinate]hearing
}

// hearing is since when a port hears something, and when it did for the last time.
type hearing struct{ since, last time.Time }

const (
	// disbelief is how long it is not believed that no cluster IP is left. The API server has read what is taken long before.
	disbelief = 20 * time.Second
	// hearsay is how long the words are remembered: while they are true, a port that waits hears them each watch.RefusedRetry.
	hearsay = 3 * watch.RefusedRetry
)

func newClusterIPs(c clock.PassiveClock) *clusterIPs {
	return &clusterIPs{clock: c, heard: map[claim.Coordinate]hearing{}}
}

// exhausted notes that the API server has none left for a port, as it says. It returns when to ask again before that is believed, 0 once
// it is.
func (c *clusterIPs) exhausted(at claim.Coordinate) (again time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	maps.DeleteFunc(c.heard, func(_ claim.Coordinate, h hearing) bool { return now.Sub(h.last) > hearsay })
	h, before := c.heard[at]
	if !before {
		h.since = now
	}
	h.last = now
	c.heard[at] = h
	return max(disbelief-now.Sub(h.since), 0)
}

// given notes that the Service of a port got one.
func (c *clusterIPs) given(at claim.Coordinate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.heard, at)
}

// outOfClusterIPs says whether these are the words of the API server when no cluster IP is left; it has no reason of its own for that
// (k8s.io/kubernetes/pkg/registry/core/service/storage/alloc.go).
func outOfClusterIPs(err error) bool {
	text := err.Error()
	return strings.Contains(text, "failed to allocate IP") || strings.Contains(text, "failed to allocate a serviceIP") ||
		strings.Contains(text, "failed to allocate") && strings.Contains(text, "ClusterIP")
}
