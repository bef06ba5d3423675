package loadbalancers

import (
	"sync"
	"time"

	"jeffthecoder.xyz/portcullis/reconcilers/watch"

	"k8s.io/apimachinery/pkg/types"
)

// waiting are the Services that have not all they ask for. When something is free again they are looked at; and from time
// to time anyway, as what tells may come before what it tells of.
type waiting struct {
	mu sync.Mutex
	// pauses are how long each was last left alone.
	pauses map[types.NamespacedName]time.Duration
}

func newWaiting() *waiting { return &waiting{pauses: map[types.NamespacedName]time.Duration{}} }

// set notes whether a Service waits.
func (w *waiting) set(key types.NamespacedName, waits bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !waits {
		delete(w.pauses, key)
	} else if _, known := w.pauses[key]; !known {
		w.pauses[key] = 0
	}
}

func (w *waiting) remove(key types.NamespacedName) { w.set(key, false) }

// pause is how long to leave a Service alone, 0 for one that does not wait. It grows with every look that came to nothing.
func (w *waiting) pause(key types.NamespacedName) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, waits := w.pauses[key]
	if !waits {
		return 0
	}
	w.pauses[key] = min(max(2*last, 2*settle), watch.RefusedRetry)
	return w.pauses[key]
}

// wake lists those that wait, as there is news for them.
func (w *waiting) wake() []types.NamespacedName {
	w.mu.Lock()
	defer w.mu.Unlock()
	keys := make([]types.NamespacedName, 0, len(w.pauses))
	for key := range w.pauses {
		w.pauses[key] = 0
		keys = append(keys, key)
	}
	return keys
}
