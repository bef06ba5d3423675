package stream

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// Where the ledger is lost and streams have no status, only the entries of Portcullis in the ConfigMaps tell which port a stream
// without listen had. Tenants can't write there, so each entry that nobody has a claim on goes to a stream that says the same. Of
// several the oldest gets the lowest port; they may be in several namespaces, of which one consents to the others.

// RestoreFacts are what the rules see of the cluster that find out whose an entry without a claim is.
type RestoreFacts interface {
	Facts
	// Entries are what is in the ConfigMap of a class for a protocol, nothing where there is none.
	Entries(class *v1beta1.StreamIngressClass, protocol v1beta1.Protocol) Current
	// StreamsTo are the streams whose upstream is a Service.
	StreamsTo(service types.NamespacedName) []v1beta1.StreamIngress
	// StreamsAt are the streams of any class that ask for a port or have been given it.
	StreamsAt(protocol v1beta1.Protocol, port int32) []v1beta1.StreamIngress
}

// RestoredPort is the port of the entry that goes to a stream which names no port and has none, 0 for none. lost are ports that
// it has not got. A new stream, or one that comes from another class, comes after all those that are stored.
func RestoredPort(f RestoreFacts, s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass, lost *PortSet) int32 {
	r := newRestorer(f, class, s.ProtocolOrDefault())
	r.self, r.lost = s, lost
	for port, to := range r.assign(upstreamOf(s)) {
		if isSame(to, s) {
			return port
		}
	}
	return 0
}

// IsAssignable says whether a stream that names no port may be assigned a port that has no claim: nothing foreign is there, and no
// other stream is to have it, by what it asks for, its status or an entry.
func IsAssignable(f RestoreFacts, s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass, at claim.Coordinate) bool {
	if _, foreign := f.Foreign(class, PortKey{Protocol: at.Protocol(), Port: at.Port()}); foreign {
		return false
	}
	r := newRestorer(f, class, at.Protocol())
	r.self = s
	to := r.goesTo(at.Port())
	return to == nil || isSame(to, s)
}

// Retained are those of some ports without a claim whose entries are kept, as streams are about to get the ports and say the same.
func Retained(f RestoreFacts, class *v1beta1.StreamIngressClass, protocol v1beta1.Protocol, ports []int32) []int32 {
	r := newRestorer(f, class, protocol)
	return slices.DeleteFunc(slices.Clone(ports), func(port int32) bool {
		to := r.goesTo(port)
		return to == nil || !r.saysSame(to, port) || len(Consent(f, to, class)) > 0
	})
}

// restorer finds out to whom the entries of a class go, for one protocol.
type restorer struct {
	f        RestoreFacts
	class    *v1beta1.StreamIngressClass
	protocol v1beta1.Protocol
	current  Current
	// self is the stream that asks, as it is to be, and may not be stored yet; nil when none does. lost are ports that it has not got.
	self *v1beta1.StreamIngress
	lost *PortSet
	// assigned are the streams that get ports, by the Services that they lead to, and permitted the ports that the class gives to
	// each namespace.
	assigned  map[types.NamespacedName]map[int32]*v1beta1.StreamIngress
	permitted map[string]*PortSet
}

func newRestorer(f RestoreFacts, class *v1beta1.StreamIngressClass, protocol v1beta1.Protocol) *restorer {
	return &restorer{
		f: f, class: class, protocol: protocol, current: f.Entries(class, protocol), lost: &PortSet{},
		assigned: map[types.NamespacedName]map[int32]*v1beta1.StreamIngress{}, permitted: map[string]*PortSet{},
	}
}

// goesTo is the stream that is to have a port that has no claim, nil for none.
func (r *restorer) goesTo(port int32) *v1beta1.StreamIngress {
	if to := r.asker(port); to != nil {
		return to
	}
	service, ours := r.current.upstream(port)
	if !ours {
		return nil
	}
	return r.assign(service)[port]
}

// asker is the stream that has a port by its status or else by its spec, nil for none.
func (r *restorer) asker(port int32) *v1beta1.StreamIngress {
	var first *v1beta1.StreamIngress
	for _, s := range r.f.StreamsAt(r.protocol, port) {
		if !r.asks(&s, port) {
			continue
		}
		if first == nil || r.had(&s, port) && !r.had(first, port) || r.had(&s, port) == r.had(first, port) && byAge(&s, first) < 0 {
			first = &s
		}
	}
	return first
}

// asks says whether a stream asks for a port in the class, which gives it to it. One that was refused waits for it at most.
func (r *restorer) asks(s *v1beta1.StreamIngress, port int32) bool {
	switch {
	case s.DeletionTimestamp != nil, meta.IsStatusConditionFalse(s.Status.Conditions, v1beta1.ConditionAccepted), !r.isOfClass(s):
		return false
	case s.Spec.Listen == nil:
		return r.had(s, port)
	}
	return *s.Spec.Listen == port && !Reserved(r.class, port) && Allowed(r.class, r.protocol, r.f.NamespaceLabels(s.Namespace), port)
}

// had says whether a stream has a port of the class by its status.
func (r *restorer) had(s *v1beta1.StreamIngress, port int32) bool {
	return s.Status.Listen == port && s.Status.ClassName == r.class.Name
}

func (r *restorer) isOfClass(s *v1beta1.StreamIngress) bool {
	class, problems := ClassOf(r.f, s)
	return len(problems) == 0 && class != nil && class.Name == r.class.Name
}

// assign gives the entries that lead to a Service to streams that do, by port.
func (r *restorer) assign(service types.NamespacedName) map[int32]*v1beta1.StreamIngress {
	if known, is := r.assigned[service]; is {
		return known
	}
	assigned := map[int32]*v1beta1.StreamIngress{}
	r.assigned[service] = assigned
	// What has a claim is asked for before who holds what: who claims meanwhile is found by either, and gets no second port.
	free, holders := r.unclaimed(service)
	if len(free) == 0 {
		return assigned
	}
	for _, s := range r.waiting(service, holders, &free) {
		i := slices.IndexFunc(free, func(port int32) bool { return r.saysSame(s, port) && r.permits(s, port) })
		if i >= 0 {
			assigned[free[i]] = s
			free = slices.Delete(free, i, i+1)
		}
	}
	return assigned
}

// unclaimed are the ports of the entries of ours that lead to a Service and that nobody has or asks for, in order. holders are those
// that have others of these, as far as it takes to know.
func (r *restorer) unclaimed(service types.NamespacedName) (free []int32, holders map[claim.Holder]bool) {
	ports := &PortSet{}
	for _, port := range r.current.Leading[service.String()] {
		ports.Add(port)
	}
	ports.Subtract(r.lost)
	r.f.Unclaimed(ports, r.class.Name, r.protocol)
	holders = map[claim.Holder]bool{}
	for port := ports.Next(1); port != 0; port = ports.Next(port + 1) {
		if c := r.f.Claim(claim.Stream(r.class.Name, r.protocol, port).Name()); c != nil {
			holders[claim.HolderOf(c)] = true
		} else if r.asker(port) == nil {
			free = append(free, port)
		}
	}
	return free, holders
}

// waiting are the streams that lead to a Service, name no port and have none, the oldest first. What any of them has is not free.
func (r *restorer) waiting(service types.NamespacedName, holders map[claim.Holder]bool, free *[]int32) []*v1beta1.StreamIngress {
	var waiting []*v1beta1.StreamIngress
	add := func(s *v1beta1.StreamIngress) {
		holder := claim.StreamHolder(s.Namespace, s.Name)
		if has := Wanted(s, r.class.Name, r.f.Held(holder)); !has.IsZero() {
			*free = slices.DeleteFunc(*free, func(port int32) bool { return port == has.Port() })
		} else if !holders[holder] {
			waiting = append(waiting, s)
		}
	}
	comes := r.self != nil && upstreamOf(r.self) == service
	stored := r.f.StreamsTo(service)
	for i := range stored {
		s := &stored[i]
		if !r.waits(s) {
			continue
		}
		if r.self != nil && isSame(s, r.self) {
			comes = false
		}
		add(s)
	}
	slices.SortFunc(waiting, byAge)
	if comes && len(Consent(r.f, r.self, r.class)) == 0 {
		add(r.self)
	}
	return waiting
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

// upstream is the Service that the entry of a port leads to, if Portcullis alone has written it.
func (s Current) upstream(port int32) (service types.NamespacedName, ours bool) {
	if !s.Ours[port] || foreign(s, port) {
		return service, false
	}
	entry, err := ParseEntry(s.Data[Key(port)])
	return types.NamespacedName{Namespace: entry.Namespace, Name: entry.Service}, err == nil
}

// lead notes where the entries of ours lead.
func (s *Current) lead() {
	s.Leading = map[string][]int32{}
	for port := range s.Ours {
		if service, ours := s.upstream(port); ours {
			s.Leading[service.String()] = append(s.Leading[service.String()], port)
		}
	}
}

func isSame(a, b *v1beta1.StreamIngress) bool { return a.Namespace == b.Namespace && a.Name == b.Name }

// byAge orders streams by age, and those as old by name.
func byAge(a, b *v1beta1.StreamIngress) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
