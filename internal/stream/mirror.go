package stream

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

const (
	// maxMirrored is how many endpoints one EndpointSlice has at most, by the API.
	maxMirrored = 1000
	// maxMirrorText is how long what Mirrored says is at most, in bytes: it stands in the status of a stream.
	maxMirrorText = 512
	// maxSlices is how many EndpointSlices are written for a port: Kubernetes itself makes more for a Service with more than 10,000 Pods
	// only, and whoever may write them could have any number written for each of their streams.
	maxSlices = 100
	// mirrorTexts is how many endpoints it names.
	mirrorTexts = 3
)

// MirrorSource is what a stream leads to, as Mirror sees it.
type MirrorSource struct {
	// Service is the upstream; Port is the number of its port that the stream leads to.
	Service *corev1.Service
	Port    int32
	// Slices are its EndpointSlices, in any order. They are shared and never changed, nor are parts of them handed out.
	Slices []*discoveryv1.EndpointSlice
	// Pod is a Pod, nil for none.
	Pod func(types.NamespacedName) *corev1.Pod
	// Outside says why an address outside may not be led to; "" where it may. Without it, none may.
	Outside func(address string) string
}

// Mirrored is what to write so that the kernel forwards a port to the endpoints of an upstream, and what was left out of it.
type Mirrored struct {
	// Slices have Name, AddressType, Endpoints and Ports (one), nothing else, and are ordered by name.
	Slices []discoveryv1.EndpointSlice
	// LeftOut is how many endpoints were left out: those of which no address may be forwarded to. One that is not ready does not count:
	// a Pod that ends is gone before it is taken out of its slice.
	LeftOut int

	// service is the upstream, all is how many endpoints it has for the port, and named says of the first few of those that
	// were left out why.
	service string
	all     int
	named   []string
}

// Mirror computes the EndpointSlices that lead a port to the endpoints of an upstream, for the Service of the name given, in the
// namespace that the proxy would be in. The kernel forwards there in the name of whoever has written them, past what keeps
// tenants from sending to addresses that are not theirs, and whoever may write Endpoints in the upstream's namespace chooses
// the addresses: so only those go in that a live Pod of that namespace has, or that the stream may lead to outside.
//
// One slice is written for each of the upstream's, named by a hash of its name: what Kubernetes splits and merges there is split
// and merged here, and a change of one rewrites no other.
func Mirror(service string, port PortKey, from MirrorSource) Mirrored {
	port.Protocol = cmp.Or(port.Protocol, v1beta1.TCP)
	protocol := corev1.Protocol(port.Protocol)
	portName, ok := from.portName(protocol)
	if !ok {
		return Mirrored{}
	}
	m := Mirrored{service: from.Service.Namespace + "/" + from.Service.Name}
	var left []string
	for _, slice := range inNameOrder(from.Slices) {
		number := numberIn(slice, portName, protocol)
		if number == 0 {
			continue
		}
		endpoints, out := from.endpoints(slice)
		if len(m.Slices) == maxSlices {
			for _, e := range endpoints {
				out = append(out, fmt.Sprintf("%s: a port has at most %d EndpointSlices", e.Addresses[0], maxSlices))
			}
			endpoints = nil
		}
		m.all += len(endpoints) + len(out)
		left = append(left, out...)
		if len(endpoints) == 0 {
			continue
		}
		written := discoveryv1.EndpointSlice{
			AddressType: slice.AddressType, Endpoints: endpoints,
			Ports: []discoveryv1.EndpointPort{{Name: new(port.Name()), Protocol: new(protocol), Port: new(number)}},
		}
		written.Name = mirrorName(service, slice.Name)
		m.Slices = append(m.Slices, written)
	}
	slices.SortFunc(m.Slices, func(a, b discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	slices.Sort(left)
	m.LeftOut = len(left)
	m.named = slices.Clone(left[:min(len(left), mirrorTexts)])
	return m
}

// inNameOrder are slices in the order of their names, nil ones left out.
func inNameOrder(all []*discoveryv1.EndpointSlice) []*discoveryv1.EndpointSlice {
	all = slices.DeleteFunc(slices.Clone(all), func(s *discoveryv1.EndpointSlice) bool { return s == nil })
	slices.SortFunc(all, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// mirrorName is the name of what is written for a slice of the upstream.
func mirrorName(service, slice string) string {
	sum := sha256.Sum256([]byte(slice))
	return service + "-" + hex.EncodeToString(sum[:16])
}

// portName is the name of the port of the upstream, which EndpointSlices know it by.
func (s MirrorSource) portName(protocol corev1.Protocol) (name string, ok bool) {
	if s.Service == nil {
		return "", false
	}
	for _, p := range s.Service.Spec.Ports {
		if p.Port == s.Port && cmp.Or(p.Protocol, corev1.ProtocolTCP) == protocol {
			return p.Name, true
		}
	}
	return "", false
}

// numberIn is the number that a port has in a slice, 0 if it is not there.
func numberIn(slice *discoveryv1.EndpointSlice, name string, protocol corev1.Protocol) int32 {
	for _, p := range slice.Ports {
		number := ptr.Deref(p.Port, 0)
		if ptr.Deref(p.Name, "") == name && cmp.Or(ptr.Deref(p.Protocol, ""), corev1.ProtocolTCP) == protocol && 0 < number && number <= 65535 {
			return number
		}
	}
	return 0
}

// endpoints are copies of those of a slice that may be forwarded to, in an order of their own, as that of the slice means
// nothing; left says of each other one why not.
func (s MirrorSource) endpoints(slice *discoveryv1.EndpointSlice) (kept []discoveryv1.Endpoint, left []string) {
	for i := range slice.Endpoints {
		e := &slice.Endpoints[i]
		addresses, why := s.addresses(slice.AddressType, e)
		if len(addresses) == 0 {
			if ptr.Deref(e.Conditions.Ready, true) {
				left = append(left, why)
			}
			continue
		}
		// Without targetRef: the object is not in the namespace of what is written, and nothing may take it to be.
		kept = append(kept, *(&discoveryv1.Endpoint{
			Addresses: addresses, Conditions: e.Conditions, NodeName: e.NodeName, Zone: e.Zone, Hints: e.Hints,
		}).DeepCopy())
	}
	// Of several for one address, which the API allows, one is enough: one that is ready, if any is.
	slices.SortFunc(kept, func(a, b discoveryv1.Endpoint) int {
		if order := cmp.Or(strings.Compare(a.Addresses[0], b.Addresses[0]), cmp.Compare(notReady(a), notReady(b))); order != 0 {
			return order
		}
		return compareEndpoints(a, b)
	})
	kept = slices.CompactFunc(kept, func(a, b discoveryv1.Endpoint) bool { return a.Addresses[0] == b.Addresses[0] })
	room := min(len(kept), maxMirrored)
	for _, e := range kept[room:] {
		left = append(left, fmt.Sprintf("%s: an EndpointSlice has at most %d endpoints", e.Addresses[0], maxMirrored))
	}
	return kept[:room], left
}

func notReady(e discoveryv1.Endpoint) int {
	if ptr.Deref(e.Conditions.Ready, true) {
		return 0
	}
	return 1
}

// addresses are those of an endpoint that may be forwarded to, as netip writes them: the API server wants them so. If there are
// none, why says why the first is not one, as the API means no other.
func (s MirrorSource) addresses(family discoveryv1.AddressType, e *discoveryv1.Endpoint) (kept []string, why string) {
	if len(e.Addresses) == 0 {
		return nil, "an endpoint has no address"
	}
	pod := s.podAddresses(e.TargetRef)
	for _, address := range e.Addresses {
		ip, refused := mirrorable(family, address)
		if refused == "" && !slices.Contains(pod, ip) {
			refused = s.outside(ip)
		}
		switch {
		case refused != "" && why == "":
			why = mirrorLabel(address) + ": " + refused
		case refused == "" && !slices.Contains(kept, ip.String()): // they are a set, and may have been written in two ways
			kept = append(kept, ip.String())
		}
	}
	return kept, why
}

// mirrorable reads an address of a slice. why says why it is none that the kernel could forward to.
func mirrorable(family discoveryv1.AddressType, address string) (ip netip.Addr, why string) {
	if family != discoveryv1.AddressTypeIPv4 && family != discoveryv1.AddressTypeIPv6 {
		return ip, "the kernel forwards to addresses only"
	}
	ip, err := netip.ParseAddr(address)
	switch {
	case err != nil:
		return ip, "it is no IP address"
	case ip.Zone() != "":
		return ip, "it has a zone, which means something on one node only"
	case ip.Is4In6():
		return ip, "it is an IPv4 address that is written as IPv6"
	case ip.Is4() != (family == discoveryv1.AddressTypeIPv4):
		return ip, "it is in an EndpointSlice of " + string(family) + " addresses"
	default:
		return ip, ""
	}
}

// mirrorLabel is an address as it is said; what is none, or has a zone, may have anything in it.
func mirrorLabel(address string) string {
	if ip, err := netip.ParseAddr(address); err != nil || ip.Zone() != "" {
		return strconv.Quote(address)
	}
	return address
}

// outside says why an address that no Pod of the namespace has may not be forwarded to, "" if it may.
func (s MirrorSource) outside(ip netip.Addr) string {
	why := "no Pod of namespace " + s.Service.Namespace + " has this address"
	if s.Outside == nil {
		return why
	}
	refused := s.Outside(ip.String())
	if refused == "" {
		return ""
	}
	return why + ", and " + refused
}

// podAddresses are those of the Pod that an endpoint names, none if it names none of the upstream's namespace, or one that is
// over and whose addresses may be another's by now. One that is being deleted has its own until it is over, and may still have to
// end what it serves.
func (s MirrorSource) podAddresses(ref *corev1.ObjectReference) (addresses []netip.Addr) {
	namespace := s.Service.Namespace
	if s.Pod == nil || ref == nil || ref.Kind != "Pod" || ref.Namespace != "" && ref.Namespace != namespace {
		return nil
	}
	pod := s.Pod(types.NamespacedName{Namespace: namespace, Name: ref.Name})
	if pod == nil || ref.UID != "" && ref.UID != pod.UID ||
		pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	for _, p := range pod.Status.PodIPs {
		if ip, err := netip.ParseAddr(p.IP); err == nil {
			addresses = append(addresses, ip)
		}
	}
	return addresses
}

// Text says what was left out, and why, in at most 512 bytes; it is empty if nothing was. It is the same for the same endpoints,
// in whatever order they came: a status that has it is not written again.
func (m Mirrored) Text() string {
	if m.LeftOut == 0 {
		return ""
	}
	text := fmt.Sprintf("%d of %d endpoints of Service %s are left out: ", m.LeftOut, m.all, m.service)
	for i, why := range m.named {
		rest := m.andMore(i + 1)
		room := maxMirrorText - len(text) - len(rest)
		if i > 0 {
			why = "; " + why
		}
		if i > 0 && len(why) > room {
			return clip(text+m.andMore(i), maxMirrorText)
		}
		text += clip(why, room)
	}
	return clip(text+m.andMore(len(m.named)), maxMirrorText)
}

// andMore says how many there are besides those that are named.
func (m Mirrored) andMore(named int) string {
	if m.LeftOut <= named {
		return ""
	}
	return fmt.Sprintf("; and %d more", m.LeftOut-named)
}

// clip cuts a text to so many bytes.
func clip(text string, limit int) string {
	const dots = "..."
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:max(limit-len(dots), 0)], "") + dots
}

// SliceDigest is a hash of what a slice says: its endpoints, ports and address type. In which order the endpoints are doesn't matter, and
// a condition that is not there is what the API says it is then. It is what is kept of a slice to compare it, as anybody may make
// large ones.
func SliceDigest(slice *discoveryv1.EndpointSlice) string {
	said, err := json.Marshal(discoveryv1.EndpointSlice{
		AddressType: slice.AddressType, Endpoints: inOrder(slice.Endpoints), Ports: slice.Ports,
	})
	if err != nil {
		return "" // it has nothing that JSON has no form for
	}
	sum := sha256.Sum256(said)
	return hex.EncodeToString(sum[:16])
}

// inOrder are endpoints in order and with all their conditions. The slice is a new one; what the endpoints point to is shared.
func inOrder(endpoints []discoveryv1.Endpoint) []discoveryv1.Endpoint {
	ordered := slices.Clone(endpoints)
	for i := range ordered {
		c := &ordered[i].Conditions
		c.Ready, c.Serving = new(ptr.Deref(c.Ready, true)), new(ptr.Deref(c.Serving, true))
		c.Terminating = new(ptr.Deref(c.Terminating, false))
	}
	slices.SortFunc(ordered, compareEndpoints)
	return ordered
}

// compareEndpoints orders endpoints by address, and those with the same addresses by all else that they have.
func compareEndpoints(a, b discoveryv1.Endpoint) int {
	if order := slices.Compare(a.Addresses, b.Addresses); order != 0 {
		return order
	}
	return strings.Compare(endpointText(a), endpointText(b))
}

// endpointText is what an endpoint has besides addresses, as text.
func endpointText(e discoveryv1.Endpoint) string {
	e.Addresses = nil
	text, err := json.Marshal(e)
	if err != nil {
		return "" // it has nothing that JSON has no form for
	}
	return string(text)
}
