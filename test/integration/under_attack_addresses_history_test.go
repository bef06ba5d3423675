package integration

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// addressHistory starts a history of the Services of h that Portcullis serves, and of their claims.
func addressHistory(t *testing.T, h *harness.Harness) *history {
	t.Helper()
	return newHistory(t, h, func() moment {
		return &addressMoment{services: map[types.NamespacedName]*corev1.Service{}, claims: map[string]*v1beta1.EdgeClaim{}}
	}, &corev1.ServiceList{}, &v1beta1.EdgeClaimList{})
}

// addressMoment is the Services and claims of one version. Something is wrong with a Service whose status lists an address
// of which it does not hold all that kube-proxy would forward, or of which another's status lists something too. Services
// of another class are left out: their status is theirs.
type addressMoment struct {
	services map[types.NamespacedName]*corev1.Service
	claims   map[string]*v1beta1.EdgeClaim
}

func (m *addressMoment) apply(e happening) []types.NamespacedName {
	switch stored := e.stored.(type) {
	case *corev1.Service:
		if class := stored.Spec.LoadBalancerClass; class == nil || *class != v1beta1.LoadBalancerClass {
			e.gone = true
		}
		key := client.ObjectKeyFromObject(stored)
		if m.services[key] = stored; e.gone {
			delete(m.services, key)
		}
		return []types.NamespacedName{key}
	case *v1beta1.EdgeClaim:
		concerned := []types.NamespacedName{claim.HolderOf(stored).Key()}
		if before := m.claims[stored.Name]; before != nil {
			concerned = append(concerned, claim.HolderOf(before).Key())
		}
		if m.claims[stored.Name] = stored; e.gone {
			delete(m.claims, stored.Name)
		}
		return concerned
	default:
		return nil
	}
}

func (m *addressMoment) everybody() []types.NamespacedName {
	return slices.Collect(maps.Keys(m.services))
}

// check says whether a Service holds all that its status lists, and alone.
func (m *addressMoment) check(key types.NamespacedName) error {
	svc := m.services[key]
	if svc == nil {
		return nil
	}
	for _, ip := range listedAddresses(svc) {
		if !m.holds(key, claim.Address(ip)) && !m.holdsPorts(svc, func(p corev1.ServicePort) claim.Coordinate {
			return claim.AddressPort(ip, string(p.Protocol), p.Port)
		}) && !m.holdsPorts(svc, func(p corev1.ServicePort) claim.Coordinate {
			return claim.NodePort(string(p.Protocol), p.Port)
		}) {
			return fmt.Errorf("the status of %s lists %s, and it does not hold it", key, ip)
		}
		for other, rival := range m.services {
			if other != key && slices.Contains(listedAddresses(rival), ip) && m.collide(key, svc, other, rival, ip) {
				return fmt.Errorf("%s is in the status of %s and in that of %s", ip, key, other)
			}
		}
	}
	return nil
}

// collide says whether two Services can't have one address: one of them has all of it, or they have a port in common.
func (m *addressMoment) collide(key types.NamespacedName, svc *corev1.Service, other types.NamespacedName, rival *corev1.Service, ip netip.Addr) bool {
	whole := claim.Address(ip)
	return m.holds(key, whole) || m.holds(other, whole) || slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool {
		return slices.ContainsFunc(rival.Spec.Ports, func(q corev1.ServicePort) bool { return p.Protocol == q.Protocol && p.Port == q.Port })
	})
}

func (m *addressMoment) holds(key types.NamespacedName, at claim.Coordinate) bool {
	c := m.claims[at.Name()]
	return c != nil && claim.HolderOf(c) == claim.ServiceHolder(key.Namespace, key.Name)
}

func (m *addressMoment) holdsPorts(svc *corev1.Service, point func(corev1.ServicePort) claim.Coordinate) bool {
	return !slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool {
		return !m.holds(client.ObjectKeyFromObject(svc), point(p))
	})
}

// around tells of the Service, of the addresses that it ever listed, and of those who held them.
func (m *addressMoment) around(events []happening, i int, key types.NamespacedName) string {
	const enough = 16
	listed := map[netip.Addr]bool{}
	for _, e := range events[:i+1] {
		if svc, ok := e.stored.(*corev1.Service); ok && client.ObjectKeyFromObject(svc) == key {
			for _, ip := range listedAddresses(svc) {
				listed[ip] = true
			}
		}
	}
	var lines []string
	for _, e := range events[:i+1] {
		verb := "stored"
		if e.gone {
			verb = "deleted"
		}
		switch o := e.stored.(type) {
		case *corev1.Service:
			if client.ObjectKeyFromObject(o) == key || slices.ContainsFunc(listedAddresses(o), func(ip netip.Addr) bool { return listed[ip] }) {
				lines = append(lines, fmt.Sprintf("  %d Service %s %s, uid %.8s, with %v", e.version, client.ObjectKeyFromObject(o), verb, o.UID, listedAddresses(o)))
			}
		case *v1beta1.EdgeClaim:
			if at, err := claim.Parse(o.Name); err == nil && (listed[at.Address()] || claim.HolderOf(o).Key() == key) {
				lines = append(lines, fmt.Sprintf("  %d claim %s %s, of %s, generation %d", e.version, o.Name, verb, o.Spec.HeldBy, o.Spec.Holder.Generation))
			}
		}
	}
	return strings.Join(lines[max(0, len(lines)-enough):], "\n")
}

// listedAddresses are the addresses in the status of a Service.
func listedAddresses(svc *corev1.Service) (listed []netip.Addr) {
	for _, ingress := range svc.Status.LoadBalancer.Ingress {
		if ip, err := netip.ParseAddr(ingress.IP); err == nil {
			listed = append(listed, ip)
		}
	}
	return listed
}

// TestHistoryFindsWhatIsWrong has histories in which something is wrong, and some in which nothing is: a check that finds
// nothing is only worth something if it would find it.
func TestHistoryFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	svc := func(name, ip string, ports ...int32) happening {
		stored := borrower("ns/" + name)
		stored.Spec.Ports = nil
		for _, p := range ports {
			stored.Spec.Ports = append(stored.Spec.Ports, port("p", p))
		}
		if ip != "" {
			stored.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}}
		}
		return happening{stored: stored}
	}
	held := func(at claim.Coordinate, by string) happening {
		c := &v1beta1.EdgeClaim{}
		c.Name, c.Spec.Holder = at.Name(), v1beta1.ClaimHolder{Kind: "Service", Namespace: "ns", Name: by}
		return happening{stored: c}
	}
	gone := func(e happening) happening { e.gone = true; return e }
	ip := netip.MustParseAddr("192.0.2.1")
	whole, shared, node := claim.Address(ip), claim.AddressPort(ip, "TCP", 80), claim.NodePort("TCP", 80)
	for name, tc := range map[string]struct {
		story []happening
		wrong bool
	}{
		"held and listed":                  {[]happening{svc("a", "", 80), held(whole, "a"), svc("a", "192.0.2.1", 80)}, false},
		"listed before it is held":         {[]happening{svc("a", "192.0.2.1", 80), held(whole, "a")}, true},
		"released while it is listed":      {[]happening{held(whole, "a"), svc("a", "192.0.2.1", 80), gone(held(whole, "a"))}, true},
		"released when its Service went":   {[]happening{held(whole, "a"), svc("a", "192.0.2.1", 80), gone(svc("a", "", 80)), gone(held(whole, "a"))}, false},
		"held by another":                  {[]happening{held(whole, "b"), svc("a", "192.0.2.1", 80)}, true},
		"all of it and a port of it":       {[]happening{held(whole, "a"), svc("a", "192.0.2.1", 80), held(claim.AddressPort(ip, "TCP", 81), "b"), svc("b", "192.0.2.1", 81)}, true},
		"two ports of one address":         {[]happening{held(shared, "a"), svc("a", "192.0.2.1", 80), held(claim.AddressPort(ip, "TCP", 81), "b"), svc("b", "192.0.2.1", 81)}, false},
		"a port more than it holds":        {[]happening{held(shared, "a"), svc("a", "192.0.2.1", 80, 81)}, true},
		"one port of an address and nodes": {[]happening{held(shared, "a"), svc("a", "192.0.2.1", 80), held(node, "b"), svc("b", "192.0.2.1", 80)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := &addressMoment{services: map[types.NamespacedName]*corev1.Service{}, claims: map[string]*v1beta1.EdgeClaim{}}
			var found error
			for _, e := range tc.story {
				for _, key := range m.apply(e) {
					found = errors.Join(found, m.check(key))
				}
			}
			if (found != nil) != tc.wrong {
				t.Errorf("found %v", found)
			}
		})
	}
}
