package stream

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// assign gives the entries that lead to a Service to streams that do, by port. First choose those whose entry is known, then those
// that name a port which can't be looked up: they would say the same as each. One that is not stored comes last.
func (r *restorer) assign(service types.NamespacedName) map[int32]*v1beta1.StreamIngress {
	if known, is := r.assigned[service]; is {
		return known
	}
	assigned := map[int32]*v1beta1.StreamIngress{}
	r.assigned[service] = assigned
	// What has a claim is asked for before who holds what: who claims meanwhile is found by either, and gets no second port.
	free, holders := r.unclaimed(service)
	if free.Next(1) == 0 {
		return assigned
	}
	stored, comes := r.waiting(service, holders, free)
	if len(stored) == 0 && !comes {
		return assigned
	}
	left := r.leftOver(service, free, assigned)
	var unknown []*v1beta1.StreamIngress
	for _, s := range stored {
		if !left.giveKnown(s) {
			unknown = append(unknown, s)
		}
	}
	for _, s := range unknown {
		left.giveOnly(s)
	}
	if comes && !left.giveKnown(r.self) {
		left.giveOnly(r.self)
	}
	return assigned
}

// unclaimed are the ports of the entries of ours that lead to a Service and that nobody has or asks for. holders are those that have
// others of these, as far as it takes to know.
func (r *restorer) unclaimed(service types.NamespacedName) (free *PortSet, holders map[claim.Holder]bool) {
	free = &PortSet{}
	for _, port := range r.current.Leading[service.String()] {
		free.Add(port)
	}
	free.Subtract(r.lost)
	r.f.Unclaimed(free, r.class.Name, r.protocol)
	holders = map[claim.Holder]bool{}
	for port := free.Next(1); port != 0; port = free.Next(port + 1) {
		if c := r.f.Claim(claim.Stream(r.class.Name, r.protocol, port).Name()); c != nil {
			holders[claim.HolderOf(c)] = true
			free.Remove(port)
		} else if r.asker(port) != nil {
			free.Remove(port)
		}
	}
	return free, holders
}

// waiting are the streams that lead to a Service, name no port and have none, the oldest first. comes says whether the one that asks
// does so, too, without being one of these. What any of them has is not free.
func (r *restorer) waiting(
	service types.NamespacedName, holders map[claim.Holder]bool, free *PortSet,
) (stored []*v1beta1.StreamIngress, comes bool) {
	hasNone := func(s *v1beta1.StreamIngress) bool {
		holder := claim.StreamHolder(s.Namespace, s.Name)
		has := Wanted(s, r.class.Name, r.f.Held(holder))
		if !has.IsZero() {
			free.Remove(has.Port())
		}
		return has.IsZero() && !holders[holder]
	}
	comes = r.self != nil && upstreamOf(r.self) == service
	all := r.f.StreamsTo(service)
	for i := range all {
		s := &all[i]
		if !r.waits(s) {
			continue
		}
		if r.self != nil && isSame(s, r.self) {
			comes = false
		}
		if hasNone(s) {
			stored = append(stored, s)
		}
	}
	slices.SortFunc(stored, byAge)
	return stored, comes && len(Consent(r.f, r.self, r.class)) == 0 && hasNone(r.self)
}

// waits says whether a stream of the class waits to be given a port, unless it holds one. One that has a port by its status gets that
// one. One that may not lead where it does gets no entry of those that may.
func (r *restorer) waits(s *v1beta1.StreamIngress) bool {
	hasStatus := s.Status.Listen != 0 && s.Status.ClassName == r.class.Name
	return s.Spec.Listen == nil && !hasStatus && s.DeletionTimestamp == nil && s.ProtocolOrDefault() == r.protocol &&
		r.isOfClass(s) && len(Consent(r.f, s, r.class)) == 0
}

// saysSame says whether the entry of a port is the one that a stream would have there.
func (r *restorer) saysSame(s *v1beta1.StreamIngress, port int32) bool {
	current := r.current.Data[Key(port)]
	entry, ok := EntryFor(s, r.f.Service(upstreamOf(s)), current)
	return ok && entry.String() == current
}

// permits says whether a stream could be assigned a port if it were free.
func (r *restorer) permits(s *v1beta1.StreamIngress, port int32) bool {
	ports := r.permitted[s.Namespace]
	if ports == nil {
		namespace := r.f.NamespaceLabels(s.Namespace)
		ports = Automatic(r.class, r.protocol, namespace, spent(portShares(r.f, s, r.class, namespace))...)
		FrontOf(r.f, r.class).Free(r.f, r.protocol, ports)
		r.permitted[s.Namespace] = ports
	}
	return ports.Has(port)
}

// leftOver are the entries that lead to a Service and that no stream has been given yet.
type leftOver struct {
	*restorer
	svc *corev1.Service
	// ports are those of each entry, in order. Its own port is by number, as far as that is known.
	ports map[Entry][]int32
	// given are the streams that have been given one.
	given map[int32]*v1beta1.StreamIngress
}

func (r *restorer) leftOver(service types.NamespacedName, free *PortSet, given map[int32]*v1beta1.StreamIngress) *leftOver {
	l := &leftOver{restorer: r, svc: r.f.Service(service), ports: map[Entry][]int32{}, given: given}
	for port := free.Next(1); port != 0; port = free.Next(port + 1) {
		text := r.current.Data[Key(port)]
		// No stream says what is not written as we write it.
		if entry, err := ParseEntry(text); err == nil && entry.String() == text {
			entry = entry.WithNumber(l.svc, r.protocol)
			l.ports[entry] = append(l.ports[entry], port)
		}
	}
	return l
}

// giveKnown gives a stream an entry that says the same, if it is known what that is.
func (l *leftOver) giveKnown(s *v1beta1.StreamIngress) bool {
	entry, known := numbered(s, l.svc, "")
	return known && l.give(s, entry)
}

// giveOnly gives a stream an entry that may be its own, if all that are left say the same.
func (l *leftOver) giveOnly(s *v1beta1.StreamIngress) {
	if len(l.ports) != 1 {
		return
	}
	for entry, ports := range l.ports {
		if l.saysSame(s, ports[0]) {
			l.give(s, entry)
		}
	}
}

// give gives a stream the lowest port of an entry that it may have. One that is not stored may be re-created: it most often had the
// port that it would be given anyway.
func (l *leftOver) give(s *v1beta1.StreamIngress, entry Entry) bool {
	ports := l.ports[entry]
	i := slices.IndexFunc(ports, func(port int32) bool { return l.permits(s, port) })
	if i < 0 {
		return false
	}
	if s == l.self {
		i = max(i, slices.Index(ports, l.natural))
	}
	l.given[ports[i]] = s
	if ports = slices.Delete(ports, i, i+1); len(ports) > 0 {
		l.ports[entry] = ports
	} else {
		delete(l.ports, entry)
	}
	return true
}
