package loadbalancers

import (
	"sync"
	"time"

	"jeffthecoder.xyz/portcullis/reconcilers/watch"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// waiting are the Services that have not all they ask for. When something is free again they are looked at; and from time
// to time anyway, as what tells may come before what it tells of.
type waiting struct {
	mu sync.Mutex
	// pauses are how long each was last left alone.
	pauses map[types.NamespacedName]time.Duration
	// forPools are those of them that only pools and nodes can give anything: whatever others give up is nothing to them.
	forPools sets.Set[types.NamespacedName]
}

func newWaiting() *waiting {
	return &waiting{pauses: map[types.NamespacedName]time.Duration{}, forPools: sets.New[types.NamespacedName]()}
}

// set notes whether a Service waits, and whether only for pools and nodes.
func (w *waiting) set(key types.NamespacedName, waits, forPools bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forPools.Delete(key)
	if !waits {
		delete(w.pauses, key)
		return
	}
	if _, known := w.pauses[key]; !known {
		w.pauses[key] = 0
	}
	if forPools {
		w.forPools.Insert(key)
	}
}

func (w *waiting) remove(key types.NamespacedName) { w.set(key, false, false) }

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

// wake lists those that wait for what others give up, as there is news for them.
func (w *waiting) wake() []types.NamespacedName {
	return w.wakeThose(func(key types.NamespacedName) bool { return !w.forPools.Has(key) })
}

// wakeAll lists all that wait, as pools or nodes have changed.
func (w *waiting) wakeAll() []types.NamespacedName {
	return w.wakeThose(func(types.NamespacedName) bool { return true })
}

func (w *waiting) wakeThose(concerned func(types.NamespacedName) bool) []types.NamespacedName {
	w.mu.Lock()
	defer w.mu.Unlock()
	keys := make([]types.NamespacedName, 0, len(w.pauses))
	for key := range w.pauses {
		if concerned(key) {
			w.pauses[key] = 0
			keys = append(keys, key)
		}
	}
	return keys
}
