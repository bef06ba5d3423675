package adversary

import (
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
)

// moment is what was stored at one version, and what the laws have to know of the versions before.
type moment struct {
	services   map[types.NamespacedName]*corev1.Service
	ingresses  map[types.NamespacedName]*networkingv1.Ingress
	configMaps map[types.NamespacedName]*corev1.ConfigMap
	streams    map[types.NamespacedName]*v1beta1.StreamIngress
	classes    map[types.NamespacedName]*v1beta1.StreamIngressClass
	// claims are the claims by name.
	claims map[string]*v1beta1.EdgeClaim
	// listens says since when somebody listens at a point of the Gateway, and owned since when a claim is its holder's; unowned is what that
	// was before the last change.
	listens map[claim.Holder]map[claim.Coordinate]time.Time
	owned   map[string]time.Time
	unowned time.Time

	// served says since when an Ingress serves a point.
	served map[types.NamespacedName]map[claim.Coordinate]time.Time
	// held says when a holder was last seen to hold a point that it has no longer.
	held map[claim.Coordinate]map[claim.Holder]time.Time
	// asked says since when a Service has asked for just what it asks for, by version.
	asked map[types.NamespacedName]uint64
	// listed says since when a Service lists an address, by version; unlisted is what it was before the last change.
	listed   map[types.NamespacedName]map[netip.Addr]uint64
	unlisted map[netip.Addr]uint64
	// reserved says since when a port of the class is reserved.
	reserved map[int32]time.Time
	// pools are the pools by name, and governed is when what the pool "whole" gives last changed.
	pools    map[string]*v1beta1.AddressPool
	governed time.Time
	// remade is when the class or the proxy's Service was deleted last.
	remade time.Time
	// ownerless is when the proxy's Service and the class that names it were last seen to be both away.
	ownerless time.Time
	// opened are the streams whose ports were open as they are now, by generation.
	opened map[types.NamespacedName]int64
	// unguarded is the version from which on requests pass without a verdict, and guarded that from which on all is as it has to
	// be again; 0 for not yet.
	unguarded, guarded uint64
	// unjudged are the streams that have come to ask for a port meanwhile, as asks says it.
	unjudged map[types.NamespacedName]string
}

// isUnguarded says whether a change may have been admitted without a verdict.
func (m *moment) isUnguarded(c change) bool {
	return m.unguarded > 0 && c.version >= m.unguarded && (m.guarded == 0 || c.version <= m.guarded)
}

func newMoment() *moment {
	return &moment{
		services: map[types.NamespacedName]*corev1.Service{}, ingresses: map[types.NamespacedName]*networkingv1.Ingress{},
		configMaps: map[types.NamespacedName]*corev1.ConfigMap{}, streams: map[types.NamespacedName]*v1beta1.StreamIngress{},
		classes: map[types.NamespacedName]*v1beta1.StreamIngressClass{}, claims: map[string]*v1beta1.EdgeClaim{},
		served: map[types.NamespacedName]map[claim.Coordinate]time.Time{}, held: map[claim.Coordinate]map[claim.Holder]time.Time{},
		listens: map[claim.Holder]map[claim.Coordinate]time.Time{}, owned: map[string]time.Time{},
		asked: map[types.NamespacedName]uint64{}, listed: map[types.NamespacedName]map[netip.Addr]uint64{},
		reserved: map[int32]time.Time{}, unjudged: map[types.NamespacedName]string{}, opened: map[types.NamespacedName]int64{}, pools: map[string]*v1beta1.AddressPool{},
	}
}

// apply makes a change, and returns what was stored before; nil for nothing.
func (m *moment) apply(c change) (before client.Object) {
	before = m.enter(c)
	if c.gone && m.classes[keyOf(class())] == nil && m.services[keyOf(proxy())] == nil {
		m.ownerless = c.seen
	}
	return before
}

func (m *moment) enter(c change) (before client.Object) {
	switch object := c.object.(type) {
	case *corev1.Service:
		was := m.services[keyOf(object)]
		m.noteService(c, was, object)
		return put(m.services, keyOf(object), object, c.gone)
	case *networkingv1.Ingress:
		m.noteIngress(c, object)
		return put(m.ingresses, keyOf(object), object, c.gone)
	case *corev1.ConfigMap:
		return put(m.configMaps, keyOf(object), object, c.gone)
	case *v1beta1.StreamIngress:
		switch asks := asks(object); {
		case m.isUnguarded(c):
			m.unjudged[keyOf(object)] = asks
		case m.unjudged[keyOf(object)] != asks:
			delete(m.unjudged, keyOf(object))
		}
		m.noteOpened(object, c.gone)
		return put(m.streams, keyOf(object), object, c.gone)
	case *v1beta1.StreamIngressClass:
		m.noteClass(c, object)
		return put(m.classes, keyOf(object), object, c.gone)
	case *v1beta1.AddressPool:
		if was := m.pools[object.Name]; object.Name == "whole" && (was == nil || was.Generation != object.Generation || c.gone) {
			m.governed = c.seen
		}
		return put(m.pools, object.Name, object, c.gone)
	case *gatewayv1.Gateway, *gatewayv1.ListenerSet:
		m.noteOpener(c, opener(object))
	case *v1beta1.EdgeClaim:
		m.noteClaim(c, m.claims[object.Name])
		m.noteOwner(c, m.claims[object.Name], object)
		return put(m.claims, object.Name, object, c.gone)
	}
	return nil
}

// noteOpened notes that a stream's port is open, and forgets it when the stream asks for something else.
func (m *moment) noteOpened(si *v1beta1.StreamIngress, gone bool) {
	switch key := keyOf(si); {
	case gone:
		delete(m.opened, key)
	case isCurrent(si) && isTrue(si.Status.Conditions, v1beta1.ConditionProgrammed) == nil:
		m.opened[key] = si.Generation
	case m.opened[key] != si.Generation:
		delete(m.opened, key)
	}
}

// asks is a stream that asks for a port.
func asks(si *v1beta1.StreamIngress) string {
	return fmt.Sprint(si.UID, si.Spec.ClassName, si.ProtocolOrDefault(), ptr.Deref(si.Spec.Listen, 0))
}

// noteService notes since when a Service asks for what it asks for, and lists what it lists.
func (m *moment) noteService(c change, was, svc *corev1.Service) {
	key := keyOf(svc)
	m.unlisted = m.listed[key]
	if c.gone || was == nil || was.UID != svc.UID {
		delete(m.asked, key)
		delete(m.listed, key)
	}
	if c.gone && svc.Namespace == platform {
		m.remade = c.seen
	}
	if c.gone {
		return
	}
	if m.asked[key] == 0 || request(was) != request(svc) {
		m.asked[key] = c.version
	}
	since := map[netip.Addr]uint64{}
	for _, ip := range listed(svc) {
		if since[ip] = m.listed[key][ip]; since[ip] == 0 {
			since[ip] = c.version
		}
	}
	m.listed[key] = since
}

// request is all of a Service that says which addresses it is to have.
func request(svc *corev1.Service) string {
	return fmt.Sprint(svc.Spec.Type, ptr.Deref(svc.Spec.LoadBalancerClass, ""), portsOf(svc), svc.Spec.LoadBalancerIP, svc.Spec.IPFamilies,
		svc.Annotations[v1beta1.AnnotationAddressPool], svc.Annotations[v1beta1.AnnotationAddresses], svc.Annotations[v1beta1.AnnotationSharing])
}

func (m *moment) noteIngress(c change, ing *networkingv1.Ingress) {
	since := map[claim.Coordinate]time.Time{}
	for _, at := range exposure.PointsOf(ing) {
		if since[at] = m.served[keyOf(ing)][at]; since[at].IsZero() {
			since[at] = c.seen
		}
	}
	if m.served[keyOf(ing)] = since; c.gone {
		delete(m.served, keyOf(ing))
	}
}

func (m *moment) noteClass(c change, class *v1beta1.StreamIngressClass) {
	if class.Name != className {
		return
	}
	since := map[int32]time.Time{}
	for _, r := range class.Spec.Reserved {
		if since[r.From] = m.reserved[r.From]; since[r.From].IsZero() {
			since[r.From] = c.seen
		}
	}
	if m.reserved = since; c.gone {
		m.reserved, m.remade = nil, c.seen
	}
}

func (m *moment) noteClaim(c change, was *v1beta1.EdgeClaim) {
	if was == nil {
		return
	}
	at := pointOfClaim(was)
	if m.held[at] == nil {
		m.held[at] = map[claim.Holder]time.Time{}
	}
	m.held[at][claim.HolderOf(was)] = c.seen
}

// heldLately says whether somebody who is as wanted holds a point, or did a while ago.
func (m *moment) heldLately(at claim.Coordinate, now time.Time, wanted func(claim.Holder) bool) bool {
	if wanted(m.holder(at)) {
		return true
	}
	for holder, until := range m.held[at] {
		if wanted(holder) && now.Sub(until) < lately {
			return true
		}
	}
	return false
}

// lately is how long what is written may be behind what is claimed. It is bounded by a second or two; a machine that does other
// things, and a leader that has to be elected, take longer.
const lately = 2 * time.Minute

func put[K comparable, T client.Object](stored map[K]T, key K, object T, gone bool) client.Object {
	before, known := stored[key]
	if stored[key] = object; gone {
		delete(stored, key)
	}
	if !known {
		return nil
	}
	return before
}

// holder is who holds a point, nobody if there is no claim.
func (m *moment) holder(at claim.Coordinate) claim.Holder {
	if c := m.claims[at.Name()]; c != nil {
		return claim.HolderOf(c)
	}
	return claim.Holder{}
}

// heldBy is who holds a point, as people read it.
func (m *moment) heldBy(at claim.Coordinate) string {
	if c := m.claims[at.Name()]; c != nil {
		return c.Spec.HeldBy
	}
	return "nobody"
}

// pointOfClaim is the point of a claim, none if it is not one that Portcullis has made.
func pointOfClaim(c *v1beta1.EdgeClaim) claim.Coordinate {
	at, err := claim.Of(c)
	if err != nil {
		return claim.Coordinate{}
	}
	return at
}

// listed are the addresses in the status of a Service.
func listed(svc *corev1.Service) []netip.Addr {
	return loadbalancer.Listed(svc.Status.LoadBalancer.Ingress)
}

// isNode says whether an address is the node's.
func isNode(ip netip.Addr) bool { return ip.String() == nodeAddress }

// pointOf is the point that a port of a Service needs at an address that Services share.
func pointOf(ip netip.Addr, p corev1.ServicePort) claim.Coordinate {
	if isNode(ip) {
		return claim.NodePort(string(p.Protocol), p.Port)
	}
	return claim.AddressPort(ip, string(p.Protocol), p.Port)
}
