package loadbalancers

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/internal/claim"
)

// looked remembers for which Services the API server has said what the cache of claims shows, so that those that are served without claims
// don't ask it at every look. It only saves that: forgotten, it is asked again.
type looked struct {
	mu     sync.Mutex
	states map[types.NamespacedName]lookedAt
}

// lookedAt is a Service as it was, and what it held.
type lookedAt struct {
	uid     types.UID
	version string
	held    []claim.Coordinate
}

func newLooked() *looked { return &looked{states: map[types.NamespacedName]lookedAt{}} }

// agreed says whether the API server has said that a Service, as it is, holds what the cache shows that it holds.
func (l *looked) agreed(svc *corev1.Service, cached []claim.Coordinate) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, known := l.states[client.ObjectKeyFromObject(svc)]
	return known && last.uid == svc.UID && last.version == svc.ResourceVersion && slices.Equal(last.held, cached)
}

// set notes what a Service holds by the cache, and past it.
func (l *looked) set(svc *corev1.Service, cached, live []claim.Coordinate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if key := client.ObjectKeyFromObject(svc); slices.Equal(cached, live) {
		l.states[key] = lookedAt{uid: svc.UID, version: svc.ResourceVersion, held: slices.Clone(cached)}
	} else {
		delete(l.states, key)
	}
}

func (l *looked) forget(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.states, key)
}
