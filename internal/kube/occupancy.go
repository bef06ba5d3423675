package kube

import (
	"context"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// Occupancy knows, as bits, which ports of which class have a claim. It follows the cache of EdgeClaims, so that
// finding free ports takes the same short time with ten claims as with sixty thousand.
type Occupancy struct {
	mu           sync.RWMutex
	ports        map[occupied]*stream.PortSet
	registration toolscache.ResourceEventHandlerRegistration
}

type occupied struct {
	class    string
	protocol v1beta1.Protocol
}

// NewOccupancy makes an Occupancy that follows a cache.
func NewOccupancy(ctx context.Context, c cache.Cache) (*Occupancy, error) {
	o := &Occupancy{ports: map[occupied]*stream.PortSet{}}
	var err error
	o.registration, err = followPoints(ctx, c, o.set)
	return o, err
}

// Synced says whether all claims that were there at the start are known.
func (o *Occupancy) Synced() bool { return o.registration.HasSynced() }

// Subtract takes the ports of a class that have a claim out of a set.
func (o *Occupancy) Subtract(from *stream.PortSet, class string, protocol v1beta1.Protocol) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if taken := o.ports[occupied{class, protocol}]; taken != nil {
		from.Subtract(taken)
	}
}

// Classes are the classes of which somebody has a port.
func (o *Occupancy) Classes(protocol v1beta1.Protocol, port int32) (classes []string) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	for key, taken := range o.ports {
		if key.protocol == protocol && taken.Has(port) {
			classes = append(classes, key.class)
		}
	}
	return classes
}

func (o *Occupancy) set(obj any, taken bool) {
	at := pointOf(obj)
	if !at.IsStream() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	key := occupied{at.Class(), at.Protocol()}
	if o.ports[key] == nil {
		o.ports[key] = &stream.PortSet{}
	}
	if taken {
		o.ports[key].Add(at.Port())
	} else {
		o.ports[key].Remove(at.Port())
	}
}
