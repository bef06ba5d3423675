package streams

import (
	"maps"
	"sync"
	"time"

	"jeffthecoder.xyz/portcullis/reconcilers/watch"

	"k8s.io/utils/clock"

	"jeffthecoder.xyz/portcullis/internal/stream"
)

// refusals remember for a while which ports the API server has refused on Services, so that one bad port does not cost the
// search for it at every change, and a full range is tried once in a while only. What they remember may be lost.
type refusals struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	known map[string]memory
}

// memory is what the API server has refused on the Service of a class.
type memory struct {
	// circumstances are those under which it did.
	circumstances string
	ports         map[stream.PortKey]refusal
	// full is the refusal of any port, as there is no room for more.
	full refusal
}

// refusal is what the API server said, and until when it is not asked again.
type refusal struct {
	message string
	until   time.Time
}

func newRefusals(c clock.PassiveClock) *refusals {
	return &refusals{clock: c, known: map[string]memory{}}
}

// recall splits the missing ports of a plan into those that were refused a moment ago, each with the words of the API server,
// and the others. Under new circumstances, or when ports go, all are tried anew.
func (r *refusals) recall(class, circumstances string, plan stream.PortPlan) (refused map[stream.PortKey]string, others []stream.PortKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.known[class]
	if !ok || len(plan.Stale) > 0 || known.circumstances != circumstances {
		known = memory{circumstances: circumstances, ports: map[stream.PortKey]refusal{}}
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

// remember notes what a search has found out.
func (r *refusals) remember(class string, s *search) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	until := now.Add(watch.RefusedRetry - time.Second)
	known := r.known[class]
	maps.DeleteFunc(known.ports, func(_ stream.PortKey, old refusal) bool { return !now.Before(old.until) })
	for port, message := range s.refused {
		known.ports[port] = refusal{message: message, until: until}
	}
	if s.full != "" {
		known.full = refusal{message: s.full, until: until}
	}
	r.known[class] = known
}

// forget drops what is known of a class.
func (r *refusals) forget(class string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, class)
}
