package streams

import (
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// clusterIPs tells whether the cluster has none left. The API server says that its range is full also while it only does not know yet
// which cluster IPs are taken, as in the first seconds after it has begun (k8s.io/kubernetes/pkg/registry/core/service/ipallocator,
// AllocateNextService). A class that believed it would refuse streams. So the words are believed once they have been heard for a while
// in which no Service got one. A process that begins has heard nothing.
type clusterIPs struct {
	clock clock.PassiveClock

	mu sync.Mutex
	// since is when the words were first heard, and last when for the last time; zero after a Service got a cluster IP.
	since, last time.Time
}

const (
	// disbelief is how long it is not believed that no cluster IP is left. The API server has read what is taken long before.
	disbelief = 20 * time.Second
	// hearsay is how long the words are remembered: while they are true, a port that waits hears them each watch.RefusedRetry.
	hearsay = 3 * watch.RefusedRetry
)

// exhausted notes that the API server has none left, as it says. It returns when to ask again before that is believed, 0 once it is.
func (c *clusterIPs) exhausted() (again time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	if c.since.IsZero() || now.Sub(c.last) > hearsay {
		c.since = now
	}
	c.last = now
	return max(disbelief-now.Sub(c.since), 0)
}

// given notes that a Service got one.
func (c *clusterIPs) given() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since = time.Time{}
}

// outOfClusterIPs says whether these are the words of the API server when no cluster IP is left; it has no reason of its own for that
// (k8s.io/kubernetes/pkg/registry/core/service/storage/alloc.go).
func outOfClusterIPs(err error) bool {
	text := err.Error()
	return strings.Contains(text, "failed to allocate IP") || strings.Contains(text, "failed to allocate a serviceIP") ||
		strings.Contains(text, "failed to allocate") && strings.Contains(text, "ClusterIP")
}
