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

// Offer is what a stream that names no port and has none is to try.
type Offer struct {
	// Port is that of the entry which goes to the stream, 0 for none.
	Port int32
	// Free are those to choose from when there is none.
	Free *PortSet
}

// Offered is what a stream that names no port and has none is to try, of those that were free and of which it has not lost any yet. A
// new stream, or one that comes from another class, comes after all those that are stored. Where an entry of ours stands that leads
// elsewhere, it is tried last: whose it was may be yet to come.
func Offered(f RestoreFacts, s *v1beta1.StreamIngress, req Request, lost *PortSet) Offer {
	r := newRestorer(f, req.Class, s.ProtocolOrDefault())
	free, standing := *req.Free, &PortSet{}
	free.Subtract(lost)
	r.self, r.lost, r.natural = s, lost, PickPort(&free, s.Namespace, s.Name)
	for port, to := range r.assign(upstreamOf(s)) {
		if isSame(to, s) {
			return Offer{Port: port}
		}
	}
	for port := range r.current.Ours {
		if free.Has(port) {
			standing.Add(port)
		}
	}
	others := free
	others.Subtract(standing)
	if others.Next(1) != 0 {
		return Offer{Free: &others}
	}
	for port := standing.Next(1); port != 0; port = standing.Next(port + 1) {
		if to := r.goesTo(port); to != nil && !isSame(to, s) {
			free.Remove(port)
		}
	}
	return Offer{Free: &free}
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
	// natural is the port that self would be given without entries, 0 for any.
	natural int32
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
