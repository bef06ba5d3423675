package stream

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// MaxConfigMapBytes is the most that the API server stores in one ConfigMap, keys left out
// (k8s.io/kubernetes/pkg/apis/core/validation: MaxSecretSize). We count the keys too, and stay on the safe side.
const MaxConfigMapBytes = 1 << 20

const (
	// maxStored is the most that etcd takes in one object (--max-request-bytes: 1.5 MiB), less what an object has around
	// its entries.
	maxStored = 3<<19 - 64<<10
	// MaxServicePorts is how many ports one Service has room for: with its managed fields, a port takes about 150 bytes
	// of what etcd stores.
	MaxServicePorts = maxStored / 150
)

// storedSize is what an entry takes in etcd: the entry, and the key once more in the managed fields, with a few bytes
// around each.
func storedSize(key, v string) int { return 2*len(key) + len(v) + 16 }

// EntryPlan is the difference between a ConfigMap and what should stand in it.
type EntryPlan struct {
	// Data is what Portcullis applies: its own keys, all of them.
	Data map[string]string
	// Changed says whether applying it would change anything.
	Changed bool
	// Removes says whether applying it would take away a key.
	Removes bool
	// Full are the ports that found no room.
	Full []int32
	// Bytes and Entries are the size of the ConfigMap after the change, foreign entries included.
	Bytes, Entries int
}

// PlanEntries computes which keys to apply so that every wanted entry stands in the ConfigMap, every key of ours that
// is no longer wanted goes, and foreign keys stay:
//
//	            wanted             not wanted
//	absent      add                -
//	ours        set to the wanted  remove
//	foreign     set to the wanted  keep
//
// A foreign key that is wanted is one whose claim a stream holds: it was adopted (and says the same already), or
// somebody has edited a key of ours by hand.
//
// When there is no room for all, those go first that stand there as they are to be: whoever makes an entry longer finds room for
// that, or loses its own. Then go those of ours that change, then new ones, each by port.
func PlanEntries(now Current, wanted map[int32]Entry, limit int) EntryPlan {
	plan := EntryPlan{Data: make(map[string]string, len(wanted)), Bytes: now.Binary}
	stored := now.Binary
	for key, v := range now.Data {
		port, isPort := ParseKey(key)
		if _, isWanted := wanted[port]; isPort && (isWanted || !foreign(now, port)) {
			continue
		}
		plan.Bytes += len(key) + len(v)
		stored += storedSize(key, v)
		plan.Entries++
	}
	for _, w := range inTurn(now, wanted) {
		port, key, v := w.port, w.key, w.value
		if plan.Bytes+len(key)+len(v) > limit || stored+storedSize(key, v) > maxStored {
			plan.Full = append(plan.Full, port)
			continue
		}
		plan.Data[key] = v
		plan.Bytes += len(key) + len(v)
		stored += storedSize(key, v)
		plan.Entries++
		plan.Changed = plan.Changed || now.Data[key] != v || !now.Ours[port]
	}
	for port := range now.Ours {
		if _, kept := plan.Data[Key(port)]; !kept {
			plan.Changed, plan.Removes = true, true
		}
	}
	slices.Sort(plan.Full)
	return plan
}

// KeepOurs are the wanted entries, and those of ours that nobody wants any longer, as they stand.
func (s Current) KeepOurs(wanted map[int32]Entry) map[int32]Entry {
	all := make(map[int32]Entry, len(wanted)+len(s.Ours))
	maps.Copy(all, wanted)
	for port := range s.Ours {
		if _, isWanted := all[port]; !isWanted {
			s.Leave(all, port)
		}
	}
	return all
}

// Leave changes what is wanted of a port to what stands there: an entry of ours, or none.
func (s Current) Leave(wanted map[int32]Entry, port int32) {
	delete(wanted, port)
	if entry, err := ParseEntry(s.Data[Key(port)]); err == nil && s.Ours[port] {
		wanted[port] = entry
	}
}

func foreign(now Current, port int32) bool {
	_, is := now.Foreign[port]
	return is
}

// wantedKey is a key that a ConfigMap is to have.
type wantedKey struct {
	turn       int
	port       int32
	key, value string
}

// inTurn are the wanted keys in the order in which they get room.
func inTurn(now Current, wanted map[int32]Entry) []wantedKey {
	keys := make([]wantedKey, 0, len(wanted))
	for port, entry := range wanted {
		w := wantedKey{3, port, Key(port), entry.String()}
		if v, stands := now.Data[w.key]; stands && v == w.value {
			w.turn = 1
		} else if now.Ours[port] {
			w.turn = 2
		}
		keys = append(keys, w)
	}
	slices.SortFunc(keys, func(a, b wantedKey) int { return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.port, b.port)) })
	return keys
}

// PortPlan is the difference between the ports of a Service and what should be open there.
type PortPlan struct {
	// Current are the wanted ports that Portcullis has opened already.
	Current []PortKey
	// Missing are the wanted ports that nobody has opened, or not in the way they should be.
	Missing []PortKey
	// Stale are the ports that Portcullis has opened and that are no longer wanted.
	Stale []PortKey
}

// Limit leaves out the last of the missing ports when there is room for no more than so many of ours, and returns them.
func (p *PortPlan) Limit(room int) (full []PortKey) {
	room = max(room-len(p.Current), 0)
	if len(p.Missing) <= room {
		return nil
	}
	p.Missing, full = p.Missing[:room], p.Missing[room:]
	return full
}

// Changed says whether anything has to be applied.
func (p PortPlan) Changed() bool { return len(p.Missing) > 0 || len(p.Stale) > 0 }

// PlanPorts computes which ports to open. A wanted port that somebody else has opened is left to them: it is open.
func PlanPorts(now ServicePorts, wanted map[PortKey]bool) PortPlan {
	var plan PortPlan
	for key := range wanted {
		p, ours := now.Ours[key]
		_, foreign := now.Foreign[key]
		switch {
		case ours && isAsApplied(key, p):
			plan.Current = append(plan.Current, key)
		case ours || !foreign:
			plan.Missing = append(plan.Missing, key)
		}
	}
	for key := range now.Ours {
		if !wanted[key] {
			plan.Stale = append(plan.Stale, key)
		}
	}
	// What we have applied together with somebody else is theirs: let go of it.
	for key, shared := range now.Shared {
		if shared {
			plan.Stale = append(plan.Stale, key)
		}
	}
	for _, keys := range [][]PortKey{plan.Current, plan.Missing, plan.Stale} {
		slices.SortFunc(keys, ComparePorts)
	}
	return plan
}

// KeepOurs are the wanted ports, and those of ours that nobody wants any longer.
func (f ServicePorts) KeepOurs(wanted map[PortKey]bool) map[PortKey]bool {
	all := make(map[PortKey]bool, len(wanted)+len(f.Ours))
	maps.Copy(all, wanted)
	for port := range f.Ours {
		all[port] = true
	}
	return all
}

// ComparePorts orders ports by number and protocol.
func ComparePorts(a, b PortKey) int {
	return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol))
}

// Name is the name of the port on a Service, for example tcp-8080.
func (k PortKey) Name() string {
	return fmt.Sprintf("%s-%d", strings.ToLower(string(k.Protocol)), k.Port)
}

// String is the port as people write it, for example TCP/8080.
func (k PortKey) String() string { return fmt.Sprintf("%s/%d", k.Protocol, k.Port) }

func isAsApplied(key PortKey, p corev1.ServicePort) bool {
	return p.Name == key.Name() && p.TargetPort == intstr.FromInt32(key.Port)
}

// FindPort finds the port of a Service that a stream's upstream means, by number or by name.
func FindPort(svc *corev1.Service, port intstr.IntOrString, protocol v1beta1.Protocol) (int32, bool) {
	for _, p := range svc.Spec.Ports {
		if v1beta1.Protocol(p.Protocol) != protocol && !(p.Protocol == "" && protocol == v1beta1.TCP) {
			continue
		}
		if port.Type == intstr.String && p.Name == port.StrVal || port.Type == intstr.Int && p.Port == port.IntVal {
			return p.Port, true
		}
	}
	return 0, false
}

// EntryFor is the entry of a stream. svc is its upstream Service, nil when there is none; current is the entry of its
// port now, if any. A port by number needs no Service; one by name keeps the number that stands there while the
// Service is away. ok is false when the number of a named port can't be told.
//
// An entry that stands there and names the port that ours has by number is left as it is: somebody else wrote it, and
// it is theirs again when the stream goes.
func EntryFor(s *v1beta1.StreamIngress, svc *corev1.Service, current string) (entry Entry, ok bool) {
	entry, ok = numbered(s, svc, current)
	before, err := ParseEntry(current)
	if !ok || err != nil {
		return entry, ok
	}
	same := before.WithNumber(svc, s.ProtocolOrDefault())
	if _, isNumber := ParseKey(before.Port); svc == nil && !isNumber {
		same.Port = entry.Port
	}
	if same == entry {
		return before, true
	}
	return entry, true
}

// WithNumber is the entry with its port by number, if it is named and the Service knows the name.
func (e Entry) WithNumber(svc *corev1.Service, protocol v1beta1.Protocol) Entry {
	if svc == nil {
		return e
	}
	if number, found := FindPort(svc, intstr.Parse(e.Port), protocol); found {
		e.Port = Key(number)
	}
	return e
}

func numbered(s *v1beta1.StreamIngress, svc *corev1.Service, current string) (entry Entry, ok bool) {
	entry = Entry{Namespace: s.UpstreamNamespace(), Service: s.UpstreamService()}
	if pp := s.Spec.ProxyProtocol; pp != nil && s.ProtocolOrDefault() == v1beta1.TCP {
		entry.Accept, entry.Send = pp.Accept, pp.Send
	}
	port := s.Spec.Upstream.Port
	if port.Type == intstr.Int {
		entry.Port = Key(port.IntVal)
		return entry, true
	}
	if svc != nil {
		if number, found := FindPort(svc, port, s.ProtocolOrDefault()); found {
			entry.Port = Key(number)
			return entry, true
		}
	}
	before, err := ParseEntry(current)
	if err != nil || before.Namespace != entry.Namespace || before.Service != entry.Service {
		return entry, false
	}
	if svc != nil {
		// The Service has a port of that number under another name: the stream does not mean that one.
		if _, other := FindPort(svc, intstr.Parse(before.Port), s.ProtocolOrDefault()); other {
			return entry, false
		}
	}
	entry.Port = before.Port
	return entry, true
}

// ChangedPorts are the ports whose entries differ.
func ChangedPorts(before, after map[string]string) []int32 {
	var ports []int32
	add := func(key string) {
		if port, ok := ParseKey(key); ok {
			ports = append(ports, port)
		}
	}
	for key, value := range before {
		if after[key] != value {
			add(key)
		}
	}
	for key := range after {
		if _, known := before[key]; !known {
			add(key)
		}
	}
	return ports
}
