package streams

import (
	"maps"
	"sync"
	"time"

	"jeffthecoder.xyz/portcullis/reconcilers/watch"

	"k8s.io/utils/clock"

	"jeffthecoder.xyz/portcullis/internal/stream"
)

// rejectedPorts remember for a while which ports the API server has refused on Services, so that one bad port does not cost the
// bisect for it at every change, and a full range is tried once in a while only. What they remember may be lost.
type rejectedPorts struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	known map[string]memory
}

// memory is what the API server has refused on the Service of a class.
type memory struct {
	// fingerprint is what others had decided about the Service when it did.
	fingerprint string
	ports       map[stream.PortKey]rejection
	// full is the refusal of any port, as there is no room for more.
	full rejection
}

// rejection is what the API server said, and until when it is not asked again.
type rejection struct {
	message string
	until   time.Time
}

func newRejectedPorts(c clock.PassiveClock) *rejectedPorts {
	return &rejectedPorts{clock: c, known: map[string]memory{}}
}

// recall splits the missing ports of a plan into those that were refused a moment ago, each with the words of the API server,
// and the others. When the fingerprint of the Service is another, or when ports go, all are tried anew.
func (r *rejectedPorts) recall(
	class, fingerprint string, plan stream.PortPlan,
) (refused map[stream.PortKey]string, others []stream.PortKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.known[class]
	if !ok || len(plan.Stale) > 0 || known.fingerprint != fingerprint {
		known = memory{fingerprint: fingerprint, ports: map[stream.PortKey]rejection{}}
		r.known[class] = known
	}
	refused = map[stream.PortKey]string{}
	now := r.clock.Now()
	for _, port := range plan.Missing {
		switch of := known.ports[port]; {
		case now.Before(of.until):
			refused[port] = of.message
		case now.Before(known.full.until):
			refused[port] = known.full.message
		default:
			others = append(others, port)
		}
	}
	return refused, others
}

// remember notes what a bisect has found out.
func (r *rejectedPorts) remember(class string, s *bisect) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	until := now.Add(watch.RefusedRetry - time.Second)
	known := r.known[class]
	maps.DeleteFunc(known.ports, func(_ stream.PortKey, old rejection) bool { return !now.Before(old.until) })
	for port, message := range s.refused {
		known.ports[port] = rejection{message: message, until: until}
	}
	if s.full != "" {
		known.full = rejection{message: s.full, until: until}
	}
	r.known[class] = known
}

// forget drops what is known of a class.
func (r *rejectedPorts) forget(class string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, class)
}
