package ingresses

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/internal/claim"
)

// handing is who waits for whom. It may be lost: then they wait once more.
type handing struct {
	mu sync.Mutex
	// heirs is when a Service was first seen to wait for those to serve its points who have them now, and givers the same of those who have
	// yet to leave them.
	heirs, givers waits
	// refused are the Services whose Ingress the API server has refused.
	refused map[types.NamespacedName]bool
}

// waits is when Services were first seen to wait for points.
type waits map[types.NamespacedName]map[claim.Coordinate]time.Time

func newHanding() *handing {
	return &handing{heirs: waits{}, givers: waits{}, refused: map[types.NamespacedName]bool{}}
}

// wait returns those of some points for which a Service may still wait, each for at most as long as is said. For other points it no longer
// waits.
func (h *handing) wait(
	who waits, key types.NamespacedName, now time.Time, points map[claim.Coordinate]time.Duration,
) (left []claim.Coordinate) {
	h.mu.Lock()
	defer h.mu.Unlock()
	since := map[claim.Coordinate]time.Time{}
	for at, patience := range points {
		first, known := who[key][at]
		if !known {
			first = now
		}
		if since[at] = first; now.Sub(first) < patience {
			left = append(left, at)
		}
	}
	slices.SortFunc(left, claim.Compare)
	if who[key] = since; len(since) == 0 {
		delete(who, key)
	}
	return left
}

// awaited are the points for which a Service waits, or has waited for too long.
func (h *handing) awaited(who waits, key types.NamespacedName) []claim.Coordinate {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(who[key]))
}

// refuses says that the API server refuses the Ingress of a Service, or does no longer.
func (h *handing) refuses(key types.NamespacedName, refused bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refused[key] = refused; !refused {
		delete(h.refused, key)
		delete(h.givers, key)
	}
}

func (h *handing) isRefused(key types.NamespacedName) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.refused[key]
}

func (h *handing) forget(key types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.heirs, key)
	delete(h.givers, key)
	delete(h.refused, key)
}
