package report

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/kube"
)

const (
	// gather is how long it is waited for more that one object hands over to another, to tell of all of it at once.
	gather = time.Second
	// mostNamed is how many points an event names; a Service may have hundreds.
	mostNamed = 8
)

// HandedOver tells both sides of claims that have become another's, by an event each for all that is handed over at a time: each port of
// an address has a claim of its own.
func HandedOver(to events.EventRecorder) func(context.Context, v1beta1.ClaimHolder, *v1beta1.EdgeClaim) {
	h := &handOvers{to: to, points: map[handOver][]string{}}
	return func(_ context.Context, from v1beta1.ClaimHolder, c *v1beta1.EdgeClaim) {
		from.Generation = 0
		heir := c.Spec.Holder
		heir.Generation = 0
		h.add(handOver{from, heir, c.Spec.Scope}, c.Spec.Point)
	}
}

// handOver is what one object hands over to another of a scope: an address, a class.
type handOver struct {
	from, to v1beta1.ClaimHolder
	scope    string
}

// handOvers are those that are about to be told of, with the points.
type handOvers struct {
	to     events.EventRecorder
	mu     sync.Mutex
	points map[handOver][]string
}

func (h *handOvers) add(is handOver, point string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, waits := h.points[is]; !waits {
		time.AfterFunc(gather, func() { h.tell(is) })
	}
	h.points[is] = append(h.points[is], point)
}

func (h *handOvers) tell(is handOver) {
	h.mu.Lock()
	points := h.points[is]
	delete(h.points, is)
	h.mu.Unlock()
	slices.Sort(points)
	points = slices.Compact(points)
	verb, more := "is", ""
	if len(points) > 1 {
		verb = "are"
	}
	if len(points) > mostNamed {
		points, more = points[:mostNamed], fmt.Sprintf(" and %d more", len(points)-mostNamed)
	}
	what := fmt.Sprintf("%s%s of %s %s", strings.Join(points, ", "), more, is.scope, verb)
	giver, heir := kube.ReferenceTo(is.from), kube.ReferenceTo(is.to)
	Emit(h.to, giver, heir, corev1.EventTypeNormal, v1beta1.ReasonHandedOver, "HandOver", fmt.Sprintf(
		"%s handed over to %s %s/%s", what, heir.Kind, heir.Namespace, heir.Name))
	Emit(h.to, heir, giver, corev1.EventTypeNormal, v1beta1.ReasonTookOver, "HandOver", fmt.Sprintf(
		"%s taken over from %s %s/%s", what, giver.Kind, giver.Namespace, giver.Name))
}
