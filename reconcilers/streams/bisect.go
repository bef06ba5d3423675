package streams

import (
	"math"
	"slices"

	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/write"
)

// probes bounds how often one look at a class tries to find out which of its ports the API server refuses. Finding one
// bad port among a thousand takes about twenty.
const probes = 64

// unlimited is room for more ports than there are.
const unlimited = math.MaxInt32

// bisect opens ports on a Service, and finds out which of many the API server refuses: by halves the ones that are bad, and,
// where there is no room for all, how many there is room for. It takes a number of attempts that grows with the logarithm of
// the number of ports: to try costs much, as the API server allocates a node port for each of them before it finds that there
// are too few, and then gives all back.
type bisect struct {
	// attempt applies exactly the ports that it is given, in order.
	attempt func([]stream.PortKey) error
	// claim makes sure that ports may be opened, and leaves out those that may not; nil where all may be.
	claim func([]stream.PortKey) ([]stream.PortKey, error)
	// room is for how many more there seems to be room. A wrong estimate costs attempts, and nothing else.
	room   int
	budget int
	// good are the ports that are open, and stale is how many were closed; opened is how many of the good were not before.
	good          []stream.PortKey
	stale, opened int
	refused       map[stream.PortKey]string
	// full are the words with which the API server has said that there is no room for more, empty when it has not.
	full string
}

func newBisect(room int, attempt func([]stream.PortKey) error) *bisect {
	return &bisect{attempt: attempt, room: room, budget: probes, refused: map[stream.PortKey]string{}}
}

// closingError says that the API server refuses to close ports, though nothing is opened.
type closingError struct {
	error
}

// Unwrap returns the words of the API server.
func (e *closingError) Unwrap() error { return e.error }

// run opens as many of the missing ports of a plan as it can, the first ones where there is no room for all. With force it
// applies at least once. An error is one that says nothing about the ports, or a closingError.
func (s *bisect) run(plan stream.PortPlan, force bool) error {
	s.good = slices.Clone(plan.Current)
	missing := plan.Missing
	atOnce := force && len(missing) > 0 && len(missing) <= s.room
	if atOnce {
		var err error
		if missing, err = s.claimed(missing); err != nil {
			return err
		}
		if err = s.try(missing); err == nil || !write.IsRefusal(err) {
			return err
		}
	}
	if force {
		// First let go of what goes: it makes room for what comes, and it goes whatever is refused.
		if err := s.admit(nil); err != nil {
			return err
		}
		s.stale = len(plan.Stale)
	}
	if atOnce {
		return s.admit(missing)
	}
	// What there seems to be room for is tried in one go, and then whether there is room for one more, two more, four more.
	for n, next := max(s.room+s.stale, 1), 1; len(missing) > 0; n, next = next, 2*next {
		some := missing[:min(n, len(missing))]
		missing = missing[len(some):]
		if err := s.admitClaimed(some); err != nil {
			return err
		}
	}
	return nil
}

// claimed are those of some ports that may be opened.
func (s *bisect) claimed(ports []stream.PortKey) ([]stream.PortKey, error) {
	if s.claim == nil {
		return ports, nil
	}
	return s.claim(ports)
}

// try opens ports, all or none, beside those that are good.
func (s *bisect) try(ports []stream.PortKey) error {
	all := slices.SortedFunc(slices.Values(slices.Concat(s.good, ports)), stream.ComparePorts)
	if err := s.attempt(all); err != nil {
		return err
	}
	s.good, s.opened = all, s.opened+len(ports)
	return nil
}

func (s *bisect) refuse(ports []stream.PortKey, words string) {
	for _, port := range ports {
		s.refused[port] = words
	}
}

// admitClaimed opens as many of the ports as it can, once they may be opened.
func (s *bisect) admitClaimed(ports []stream.PortKey) error {
	if s.full != "" {
		s.refuse(ports, s.full)
		return nil
	}
	claimed, err := s.claimed(ports)
	if err != nil || len(claimed) == 0 {
		return err
	}
	return s.admit(claimed)
}

// admit opens as many of the ports as it can, beside those that are known to be good.
func (s *bisect) admit(ports []stream.PortKey) error {
	if s.full != "" {
		s.refuse(ports, s.full)
		return nil
	}
	s.budget--
	err := s.try(ports)
	switch {
	case err == nil || !write.IsRefusal(err):
		return err
	case len(ports) == 0:
		return &closingError{err}
	case write.IsFull(err):
		return s.fill(ports, err.Error())
	case len(ports) == 1 || s.budget <= 0:
		s.refuse(ports, err.Error())
		return nil
	}
	half := len(ports) / 2
	if err := s.admit(ports[:half]); err != nil {
		return err
	}
	return s.admit(ports[half:])
}

// fill opens the first of some ports, as many as there is room for. There is none for all of them, in these words.
func (s *bisect) fill(ports []stream.PortKey, words string) error {
	for len(ports) > 1 {
		half := len(ports) / 2
		err := s.try(ports[:half])
		switch {
		case err == nil:
			ports = ports[half:]
		case write.IsRefusal(err):
			s.refuse(ports[half:], words)
			ports = ports[:half]
		default:
			return err
		}
	}
	s.refuse(ports, words)
	s.full = words
	return nil
}
