package allocator

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// A Service hands its addresses, or the ports that it has of them, over to the Service that its annotation names, which has to ask for the
// address by name. That one is judged as if the points were free, and the ledger tells whether they are.
//
// While the annotation stays, the giver is given nothing that it does not have: it keeps the addresses that it holds, or that its status
// lists, unless the heir has any of its points there. So nothing has to be remembered: one that has handed all over has no address, neither
// in the ledger nor in its status, and one that has handed nothing over yet keeps what it has, also when the ledger is lost.

// names says whether a Service asks for an address by name.
func (s *Subject) names(ip netip.Addr) bool {
	asked, ok := s.Address(addresspool.FamilyOf(ip))
	return ok && asked == ip
}

// isGiver says whether a Service hands over what it has.
func isGiver(svc *corev1.Service) bool {
	_, is := claim.NamedHeir(svc)
	return is
}

// isHanded says whether the claim of another Service on a point is handed over to this one: it is promised it already, or named. Only a
// point that was asked for by name is, and nobody takes who gives: two that name each other would go on forever.
func (a *allocator) isHanded(at claim.Coordinate, held *v1beta1.EdgeClaim) bool {
	if held.Name != at.Name() || !claim.IsHandable(held) || !a.names(at.Address()) || isGiver(a.Service) {
		return false
	}
	giver := claim.HolderOf(held).Key()
	switch claim.HeirOf(held) {
	case a.Holder():
	case claim.Holder{}:
		if !a.facts.HandsOver(claim.HolderOf(held), a.Holder()) {
			return false
		}
	default:
		return false
	}
	return !keepsPoints(a.facts, giver, at.Address())
}

// KeepsPoints says whether a Service goes on to have what it holds of an address, whatever it hands over: it is one of those in front of
// the proxy of a class, or names the address in spec.externalIPs.
func KeepsPoints(fronts []types.NamespacedName, svc *corev1.Service, ip netip.Addr) bool {
	return slices.Contains(fronts, types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}) ||
		slices.Contains(loadbalancer.ExternalIPs(svc), ip)
}

// keepsPoints says the same of a Service that may be gone.
func keepsPoints(facts Facts, key types.NamespacedName, ip netip.Addr) bool {
	fronts, svc := facts.Fronts(), facts.Service(key)
	if svc == nil {
		return slices.Contains(fronts, key)
	}
	return KeepsPoints(fronts, svc, ip)
}

// handOver says how the holder of a claim, beside which a Service can't have a point, could let it have that; empty where it can't.
func (s *Subject) handOver(facts Facts, at claim.Coordinate, held *v1beta1.EdgeClaim) string {
	holder, heir := claim.HolderOf(held), claim.HeirOf(held)
	switch {
	case !claim.IsHandable(held) || keepsPoints(facts, holder.Key(), at.Address()), heir != claim.Holder{} && heir != s.Holder():
		return ""
	case isGiver(s.Service), held.Name != at.Name() && !facts.HandsOver(holder, s.Holder()):
		return ""
	case held.Name != at.Name() && at.Port() == 0:
		return "; its holder has only ports of it, and can't hand them over as the whole address that the pool gives by now"
	case held.Name != at.Name():
		return "; its holder has the whole address, and can't hand it over as the ports that the pool gives by now"
	case !s.names(at.Address()):
		return refusal.HandOver(s.Holder().Key()) + ", with " + at.Address().String() + " asked for by name"
	default:
		return refusal.HandOver(s.Holder().Key())
	}
}

// heirHas says whether the heir of a Service has all of an address, or any of the Service's ports there.
func heirHas(facts Facts, svc *corev1.Service, heir claim.Holder, ip netip.Addr) bool {
	return slices.ContainsFunc(allPointsAt(svc, ip), func(at claim.Coordinate) bool {
		c := facts.Claim(at.Name())
		return c != nil && claim.HolderOf(c) == heir
	})
}

// allPointsAt are all that a Service could have of an address: the whole, its ports, and those that its status lists there, which it may
// have no longer.
func allPointsAt(svc *corev1.Service, ip netip.Addr) []claim.Coordinate {
	points := append([]claim.Coordinate{claim.Address(ip)}, loadbalancer.ExternalPoints(svc, ip)...)
	for _, at := range listedPorts(svc, ip) {
		if !slices.Contains(points, at) {
			points = append(points, at)
		}
	}
	return points
}

// listedPorts are the ports that the status of a Service lists at an address.
func listedPorts(svc *corev1.Service, ip netip.Addr) (points []claim.Coordinate) {
	for _, i := range svc.Status.LoadBalancer.Ingress {
		if listed, err := netip.ParseAddr(i.IP); err != nil || listed.Unmap() != ip {
			continue
		}
		for _, p := range i.Ports {
			if at := claim.AddressPort(ip, string(p.Protocol), p.Port); !at.IsZero() {
				points = append(points, at)
			}
		}
	}
	return points
}

// HandedOver are the addresses in the status of a Service that the heir which it names has by now, or ports of the Service's there. The
// Service is served there until the heir is.
func HandedOver(facts Facts, svc *corev1.Service) []netip.Addr {
	heir, named := claim.NamedHeir(svc)
	if !named {
		return nil
	}
	return slices.DeleteFunc(loadbalancer.Listed(svc.Status.LoadBalancer.Ingress), func(ip netip.Addr) bool {
		return !heirHas(facts, svc, claim.ServiceHolder(heir.Namespace, heir.Name), ip)
	})
}

// Successor is the Service that has by now what another one lists of an address, the zero Holder for none. Whether the other one still
// names it as its heir is of no matter: the points are handed over.
func Successor(facts Facts, svc *corev1.Service, ip netip.Addr) claim.Holder {
	return holderOf(succeeding(facts, svc, allPointsAt(svc, ip)))
}

// BridgedTo is the Service until whose status lists an address another one may stay listed there, the zero Holder for none: it has a point
// that the other one's status lists by now. Who has come to forward a port that its status does not list stays for nobody: nodes send it
// the traffic of that port, too, which is somebody else's.
func BridgedTo(facts Facts, svc *corev1.Service, ip netip.Addr) claim.Holder {
	return holderOf(succeeding(facts, svc, bridgedPoints(svc, ip)))
}

// IsBridged says whether a Service may stay listed at an address until somebody is who has a point of it by now.
func IsBridged(svc *corev1.Service, ip netip.Addr, at claim.Coordinate) bool {
	return slices.Contains(bridgedPoints(svc, ip), at)
}

// bridgedPoints are those for which a Service may stay listed at an address, none if it forwards a port that its status does not list. Of a
// status that lists no port at all nobody can tell.
func bridgedPoints(svc *corev1.Service, ip netip.Addr) []claim.Coordinate {
	listed := listedPorts(svc, ip)
	if len(listed) == 0 {
		return allPointsAt(svc, ip)
	}
	isNew := func(at claim.Coordinate) bool { return !slices.Contains(listed, at) }
	if slices.ContainsFunc(loadbalancer.ExternalPoints(svc, ip), isNew) {
		return nil
	}
	return append(listed, claim.Address(ip))
}

// holderOf is who has a claim, the zero Holder for none.
func holderOf(c *v1beta1.EdgeClaim) claim.Holder {
	if c == nil {
		return claim.Holder{}
	}
	return claim.HolderOf(c)
}

// succeeding is the claim that another Service has on one of the points of a Service, nil for none.
func succeeding(facts Facts, svc *corev1.Service, points []claim.Coordinate) *v1beta1.EdgeClaim {
	self := claim.ServiceHolder(svc.Namespace, svc.Name)
	for _, at := range points {
		if c := facts.Claim(at.Name()); c != nil && claim.IsHandable(c) && claim.HolderOf(c) != self {
			return c
		}
	}
	return nil
}

// IsServed says whether it is Portcullis that has given a Service the addresses in its status, if it lists any. Of one without a class that
// is known only where it lists an address with ports, which another controller does not, and another Service has that by now, as it was
// handed over. Any other is adopted, and judged as it is, as one that another controller serves.
func IsServed(facts Facts, svc *corev1.Service) bool {
	if svc.Spec.LoadBalancerClass != nil {
		return true
	}
	return slices.ContainsFunc(svc.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) bool {
		ip, err := netip.ParseAddr(i.IP)
		if err != nil || len(i.Ports) == 0 {
			return false
		}
		return Successor(facts, svc, ip.Unmap()) != claim.Holder{}
	})
}

// keep finds what a Service keeps of what it holds, as Retain does, without what its heir has.
func (s *Subject) keep(facts Facts, pools []*addresspool.Pool) []Allocation {
	retained := Retain(s, pools)
	heir, named := claim.NamedHeir(s.Service)
	if !named {
		return retained
	}
	return slices.DeleteFunc(retained, func(allocation Allocation) bool {
		return allocation.Address.IsValid() &&
			heirHas(facts, s.Service, claim.ServiceHolder(heir.Namespace, heir.Name), allocation.Address)
	})
}

// onlyKeep decides for a Service that hands over what it has: it keeps what it retains, or what its status lists and it asks for, and is
// given nothing else.
func (a *allocator) onlyKeep(retained []Allocation) ([]Allocation, refusal.Problems) {
	if len(retained) > 0 {
		if more := a.givesAndAsks(retained); len(more) > 0 {
			return nil, more
		}
		return retained, a.conflicts(retained)
	}
	handed := HandedOver(a.facts, a.Service)
	has := func(ip netip.Addr) bool {
		return slices.Contains(loadbalancer.Listed(a.Service.Status.LoadBalancer.Ingress), ip) && !slices.Contains(handed, ip)
	}
	if len(a.Addresses) > 0 && !slices.ContainsFunc(a.Addresses, func(ip netip.Addr) bool { return !has(ip) }) {
		return a.choose()
	}
	return nil, refusal.One(v1beta1.ReasonHandedOver, field.Invalid(refusal.HeirPath, a.Service.Annotations[v1beta1.AnnotationHandOverTo],
		"a Service that hands over what it has is given nothing else: remove the annotation to have it ask for an address again"))
}

// givesAndAsks refuses a Service that hands over what it has the ports of some allocations that it neither has nor is listed with.
func (s *Subject) givesAndAsks(allocations []Allocation) (problems refusal.Problems) {
	if !isGiver(s.Service) {
		return nil
	}
	for _, allocation := range allocations {
		for i, at := range allocation.Points {
			if at.Port() == 0 || slices.Contains(s.Held, at) || loadbalancer.ListsPort(s.Service.Status.LoadBalancer.Ingress, at) {
				continue
			}
			problems = append(problems, refusal.Problem{Reason: v1beta1.ReasonHandedOver, Err: field.Invalid(loadbalancer.PortPath(i), at.Port(),
				"a Service that hands over what it has is given no other port: remove the annotation "+v1beta1.AnnotationHandOverTo+
					" to have it ask for one")})
		}
	}
	return problems
}
