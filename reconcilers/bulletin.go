package reconcilers

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// topic is what there is news of.
type topic int

const (
	topicIngress topic = iota
	topicCertificate
	topicAddress
)

// The states of an exposed Service.
const (
	stateServed  = "served"
	stateRefused = "refused"
)

// bulletin remembers what was last told about each Service, so that each change is told once. A Service has no
// conditions that would keep it. What it remembers may be lost: then it is told again.
type bulletin struct {
	mu       sync.Mutex
	services map[types.NamespacedName]*standing
}

// standing is what was last told about a Service.
type standing struct {
	uid          types.UID
	last         [topicAddress + 1]string
	class, state string
}

func newBulletin() *bulletin { return &bulletin{services: map[types.NamespacedName]*standing{}} }

// of finds what was told about a Service. The lock must be held.
func (b *bulletin) of(svc *corev1.Service) *standing {
	key := client.ObjectKeyFromObject(svc)
	if s := b.services[key]; s != nil && s.uid == svc.UID {
		return s
	}
	s := &standing{uid: svc.UID}
	b.services[key] = s
	return s
}

// isNews says whether something was not the last that was told about a topic.
func (b *bulletin) isNews(svc *corev1.Service, t topic, text string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of(svc).last[t] != text
}

// tell notes what is told about a topic, and returns what was told before.
func (b *bulletin) tell(svc *corev1.Service, t topic, text string) (before string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.of(svc)
	before, s.last[t] = s.last[t], text
	return before
}

// note notes the class and the state of a Service for the metrics.
func (b *bulletin) note(svc *corev1.Service, class, state string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.of(svc)
	s.class, s.state = class, state
}

func (b *bulletin) forget(key types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.services, key)
}

// count counts Services by class and state.
func (b *bulletin) count() map[[2]string]int {
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
