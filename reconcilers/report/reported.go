package report

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// topic is what is reported about a Service.
type topic int

// The topics that are reported, each apart from the others.
const (
	TopicIngress topic = iota
	TopicCertificate
	TopicAddress
	TopicHandOver
)

// The states of an exposed Service.
const (
	StateServed  = "served"
	StateRefused = "refused"
)

// ReportedState is what was last reported about each Service, so that each change is reported once. A Service has no conditions
// that would keep it. It may be lost: then it is reported again.
type ReportedState struct {
	mu       sync.Mutex
	services map[types.NamespacedName]*lastReported
}

// lastReported is what was last reported about one Service.
type lastReported struct {
	uid          types.UID
	texts        [TopicHandOver + 1]string
	class, state string
}

// NewReportedState returns one that has no Service.
func NewReportedState() *ReportedState {
	return &ReportedState{services: map[types.NamespacedName]*lastReported{}}
}

// of is what was reported about a Service in this life of it. The lock must be held.
func (r *ReportedState) of(svc *corev1.Service) *lastReported {
	key := client.ObjectKeyFromObject(svc)
	if s := r.services[key]; s != nil && s.uid == svc.UID {
		return s
	}
	s := &lastReported{uid: svc.UID}
	r.services[key] = s
	return s
}

// Differs says whether a text is another one than was last recorded for a topic.
func (r *ReportedState) Differs(svc *corev1.Service, t topic, text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of(svc).texts[t] != text
}

// Record records what is reported about a topic, and returns what was recorded before.
func (r *ReportedState) Record(svc *corev1.Service, t topic, text string) (before string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.of(svc)
	before, s.texts[t] = s.texts[t], text
	return before
}

// RecordState records the class and the state of a Service for the metrics.
func (r *ReportedState) RecordState(svc *corev1.Service, class, state string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.of(svc)
	s.class, s.state = class, state
}

// Forget drops what was recorded of a Service.
func (r *ReportedState) Forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.services, key)
}

// Count counts Services by class and state.
func (r *ReportedState) Count() map[[2]string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := map[[2]string]int{}
	for _, s := range r.services {
		if s.state != "" {
			counts[[2]string{s.class, s.state}]++
		}
	}
	return counts
}

// ScrapeTimeout bounds how long a scrape waits for caches that are not synced yet.
const ScrapeTimeout = time.Second
