package reconcilers

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"jeffthecoder.xyz/portcullis/internal/stream"
)

// probes bounds how often one look at a class tries to find out which of its ports the API server refuses. Finding one
// bad port among a thousand takes about twenty.
const probes = 64

// refusals opens ports on Services, and remembers for a while which ones the API server has refused, so that one bad
// port does not cost the search for it at every change. What it remembers may be lost.
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
}

type refusal struct {
	message string
	until   time.Time
}

func newRefusals(c clock.PassiveClock) *refusals {
	return &refusals{clock: c, known: map[string]memory{}}
}

// open applies the ports of a plan through attempt, which applies exactly the ports it is given. It returns the ports
// that were refused, each with the words of the API server. An error is one that says nothing about the ports. With
// force it applies at least once, even when all that is missing has been refused a moment ago. Under new circumstances,
// or when ports go, all are tried anew.
func (r *refusals) open(
	class, circumstances string, plan stream.PortPlan, force bool, attempt func([]stream.PortKey) error,
) (map[stream.PortKey]string, error) {
	r.under(class, circumstances, len(plan.Stale) > 0)
	refused, missing := r.recall(class, plan.Missing)
	if len(missing) == 0 && !force {
		return refused, nil
	}
	search := &search{attempt: attempt, budget: probes, good: slices.Clone(plan.Standing), refused: map[stream.PortKey]string{}}
	if err := search.run(missing, force); err != nil {
		return nil, err
	}
	r.remember(class, search.refused)
	maps.Copy(refused, search.refused)
	return refused, nil
}

// under forgets what was refused under other circumstances.
func (r *refusals) under(class, circumstances string, anew bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.known[class]; !ok || anew || known.circumstances != circumstances {
		r.known[class] = memory{circumstances: circumstances, ports: map[stream.PortKey]refusal{}}
	}
}

// recall splits ports into those that were refused a moment ago and the others.
func (r *refusals) recall(class string, ports []stream.PortKey) (refused map[stream.PortKey]string, others []stream.PortKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	refused = map[stream.PortKey]string{}
	now := r.clock.Now()
	for _, port := range ports {
		if known, ok := r.known[class].ports[port]; ok && now.Before(known.until) {
			refused[port] = known.message
		} else {
			others = append(others, port)
		}
	}
	return refused, others
}

func (r *refusals) remember(class string, refused map[stream.PortKey]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	known := r.known[class].ports
	maps.DeleteFunc(known, func(_ stream.PortKey, old refusal) bool { return !now.Before(old.until) })
	for port, message := range refused {
		known[port] = refusal{message: message, until: now.Add(refusedRetry - time.Second)}
	}
}

// closingError says that the API server refuses to close ports, though nothing is opened.
type closingError struct {
	error
}

// Unwrap returns the words of the API server.
func (e *closingError) Unwrap() error { return e.error }

// search finds by halves which of many ports the API server refuses.
type search struct {
	attempt func([]stream.PortKey) error
	budget  int
	good    []stream.PortKey
	refused map[stream.PortKey]string
}

// run opens as many of the ports as it can. With force it applies at least once.
func (s *search) run(missing []stream.PortKey, force bool) error {
	if !force || len(missing) == 0 {
		return s.admit(missing)
	}
	all := slices.Concat(s.good, missing)
	slices.SortFunc(all, stream.ComparePorts)
	if err := s.attempt(all); err == nil || !isRefusal(err) {
		return err
	}
	// First let go of what goes: it makes room for what comes, and it goes whatever is refused.
	if err := s.admit(nil); err != nil {
		return err
	}
	return s.admit(missing)
}

// admit opens as many of the ports as it can, beside those that are known to be good.
func (s *search) admit(ports []stream.PortKey) error {
	s.budget--
	all := slices.SortedFunc(slices.Values(slices.Concat(s.good, ports)), stream.ComparePorts)
	err := s.attempt(all)
	switch {
	case err == nil:
		s.good = all
		return nil
	case !isRefusal(err):
		return err
	case len(ports) == 0:
		return &closingError{err}
	case len(ports) == 1 || s.budget <= 0:
		for _, port := range ports {
			s.refused[port] = err.Error()
		}
		return nil
	}
	half := len(ports) / 2
	if err := s.admit(ports[:half]); err != nil {
		return err
	}
	return s.admit(ports[half:])
}

// isRefusal says whether an error is the API server's verdict on what was written, and not one to just try again.
func isRefusal(err error) bool {
	switch {
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err),
		apierrors.IsRequestEntityTooLargeError(err), apierrors.IsNotFound(err):
		return true
	case apierrors.IsInternalError(err):
		// Running out of node ports is reported as an internal error, and its text is all that tells it from others
		// (k8s.io/kubernetes/pkg/registry/core/service/storage/alloc.go).
		return strings.Contains(err.Error(), "failed to allocate")
	default:
		return tooLarge(err)
	}
}

// tooLarge says whether an object has outgrown what etcd takes. The API server passes on the words of etcd or of gRPC,
// without a reason of its own.
func tooLarge(err error) bool {
	return strings.Contains(err.Error(), "request is too large") || strings.Contains(err.Error(), "larger than max")
}
