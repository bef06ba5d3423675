package report

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// topic is what there is news of.
type topic int

// The topics of which there is news.
const (
	TopicIngress topic = iota
	TopicCertificate
	TopicAddress
)

// The states of an exposed Service.
const (
	StateServed  = "served"
	StateRefused = "refused"
)

// Bulletin remembers what was last told about each Service, so that each change is told once. A Service has no
// conditions that would keep it. What it remembers may be lost: then it is told again.
type Bulletin struct {
	mu       sync.Mutex
	services map[types.NamespacedName]*standing
}

// standing is what was last told about a Service.
type standing struct {
	uid          types.UID
	last         [TopicAddress + 1]string
	class, state string
}

// NewBulletin is a bulletin that nothing was told by.
func NewBulletin() *Bulletin { return &Bulletin{services: map[types.NamespacedName]*standing{}} }

// of finds what was told about a Service. The lock must be held.
func (b *Bulletin) of(svc *corev1.Service) *standing {
	key := client.ObjectKeyFromObject(svc)
	if s := b.services[key]; s != nil && s.uid == svc.UID {
		return s
	}
	s := &standing{uid: svc.UID}
	b.services[key] = s
	return s
}

// IsNews says whether something was not the last that was told about a topic.
func (b *Bulletin) IsNews(svc *corev1.Service, t topic, text string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of(svc).last[t] != text
}

// Tell notes what is told about a topic, and returns what was told before.
func (b *Bulletin) Tell(svc *corev1.Service, t topic, text string) (before string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.of(svc)
	before, s.last[t] = s.last[t], text
	return before
}

// Note notes the class and the state of a Service for the metrics.
func (b *Bulletin) Note(svc *corev1.Service, class, state string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.of(svc)
	s.class, s.state = class, state
}

// Forget drops what was told about a Service.
func (b *Bulletin) Forget(key types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.services, key)
}

// Count counts Services by class and state.
func (b *Bulletin) Count() map[[2]string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	counts := map[[2]string]int{}
	for _, s := range b.services {
		if s.state != "" {
			counts[[2]string{s.class, s.state}]++
		}
	}
	return counts
}

// ScrapeTimeout bounds how long a scrape waits for caches that are not synced yet.
const ScrapeTimeout = time.Second
