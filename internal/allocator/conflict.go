package allocator

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// conflicts are what keeps a Service from having allocations beside others, as far as is known without asking the API server:
// limits, ports that are reserved, and points that others hold.
func (a *allocator) conflicts(allocations []Allocation, beside ...Allocation) refusal.Problems {
	var problems refusal.Problems
	for n, allocation := range allocations {
		if over := a.limits(slices.Concat(beside, allocations[:n]), allocation); len(over) > 0 {
			return over // its points, of which there may be thousands, don't matter then
		}
		var reserved loadbalancer.PortRanges
		if !allocation.Address.IsValid() {
			reserved = a.facts.ReservedNodePorts()
		}
		for i, at := range allocation.Points {
			if slices.Contains(a.Held, at) {
				continue
			}
			if at.IsNode() && reserved.Has(at.Port()) {
				text := fmt.Sprintf("the nodes reserve this port for themselves, and AddressPool %s would open it on all of them",
					allocation.Pool.Name)
				err := field.Invalid(loadbalancer.PortPath(i), at.Port(), text)
				problems = append(problems, refusal.Problem{Reason: v1beta1.ReasonPortReserved, Err: err})
				continue
			}
			if held := a.heldByOther(at); held != nil {
				problems = append(problems, Conflict(a.facts, a.Subject, allocation, at, held, a.graceLeft(held))...)
			}
		}
	}
	return problems
}

// heldByOther finds a claim of somebody else that a point can't be had beside: on the point itself, on the whole address
// of a port, on any port of a whole address, or, for a port of the nodes, on that of a proxy there. Those of an address can meet
// where a pool was made anew. What the status of another Service lists, and nobody holds, is that one's. What is handed over to the Service
// is nobody else's any more.
func (a *allocator) heldByOther(at claim.Coordinate) *v1beta1.EdgeClaim {
	var listed *v1beta1.EdgeClaim // before the claims: who makes one meanwhile is found by either
	if at.IsNode() {
		listed = a.listedOnNodes(at)
		switch held := loadbalancer.HeldOnNodes(a.facts, at); {
		case held == nil:
			return listed
		case claim.HolderOf(held) == a.Holder():
			return nil
		default:
			return held
		}
	}
	if at.IsAddress() {
		listed = a.listedByOther(at)
	}
	held, giver := a.claimedByOther(at)
	switch {
	case held != nil:
		return held
	case listed != nil && claim.HolderOf(listed) == giver: // it has handed over some of its ports there already
		return nil
	default:
		return listed
	}
}

// claimedByOther is a claim of somebody else beside which a point can't be had. giver is who hands the point over to the Service, the zero
// Holder for nobody.
func (a *allocator) claimedByOther(at claim.Coordinate) (held *v1beta1.EdgeClaim, giver claim.Holder) {
	names := []claim.Coordinate{at}
	if at.IsAddress() && at.Port() != 0 {
		names = append(names, claim.Address(at.Address()))
	}
	for _, name := range names {
		held := a.facts.Claim(name.Name())
		if held == nil || claim.HolderOf(held) == a.Holder() {
			continue
		}
		if !a.isHanded(at, held) {
			return held, giver
		}
		giver = claim.HolderOf(held)
	}
	if at.IsAddress() && at.Port() == 0 {
		for _, held := range a.facts.ClaimedPorts(at.Address()) {
			if claim.HolderOf(held) != a.Holder() {
				return held, giver
			}
		}
	}
	return nil, giver
}

// Conflict tells a Service that a point of an allocation is held: by whom, since when, and what could be had instead.
// graceLeft is how long the ledger keeps the claim if its holder is gone.
func Conflict(
	facts Facts, s *Subject, allocation Allocation, at claim.Coordinate, held *v1beta1.EdgeClaim, graceLeft time.Duration,
) refusal.Problems {
	leaving := isLeaving(facts, held)
	text, handOver := refusal.Held(held, leaving, graceLeft), ""
	if !leaving && allocation.Pool.SourceOrDefault() == v1beta1.SourceAddresses {
		handOver = s.handOver(facts, at, held)
	}
	if at.Port() == 0 {
		return refusal.One(v1beta1.ReasonAddressConflict,
			refusal.Duplicate(s.AddressesPath, at.Address().String(), text+s.instead(facts, allocation)+handOver))
	}
	path := loadbalancer.TypePath
	if i := slices.Index(allocation.Points, at); i >= 0 {
		path = loadbalancer.PortPath(i)
	}
	where := fmt.Sprintf(" on all nodes of AddressPool %s; choose another port, or a pool with addresses", allocation.Pool.Name)
	if on, err := claim.Of(held); err == nil && on.IsStream() {
		where = fmt.Sprintf(" on class %q, whose proxy listens", on.Class()) + where
	}
	if at.IsAddress() {
		where = fmt.Sprintf(" on %s of AddressPool %s; choose another port%s", at.Address(), allocation.Pool.Name,
			s.instead(facts, allocation)+handOver)
	}
	return refusal.One(v1beta1.ReasonPortConflict, refusal.Duplicate(path, at.Point(), text+where))
}

// isLeaving says whether a Service that holds a point is gone, and no class names it, or is no load balancer any longer, and does not name
// the address itself. Of one that was never given the point, only that counts.
func isLeaving(facts Facts, held *v1beta1.EdgeClaim) bool {
	holder := claim.HolderOf(held)
	if !holder.IsService() {
		return false
	}
	svc := facts.Service(holder.Key())
	if svc == nil {
		return held.Spec.ExternalIP || !slices.Contains(facts.Fronts(), holder.Key())
	}
	at, err := claim.Of(held)
	named := err == nil && loadbalancer.NamesPoint(svc, at)
	return !named && (held.Spec.ExternalIP || svc.Spec.Type != corev1.ServiceTypeLoadBalancer)
}

// instead names an address that is free. One that is not asked for can't be left out.
func (s *Subject) instead(facts Facts, allocation Allocation) string {
	if allocation.Pool.SourceOrDefault() != v1beta1.SourceAddresses {
		return ""
	}
	family := addresspool.FamilyOf(allocation.Address)
	ip, ok := facts.FreeAddress(allocation.Pool, family, s.pointsIn(allocation.Pool))
	if !ok {
		return fmt.Sprintf("; AddressPool %s has no other that is free", allocation.Pool.Name)
	}
	text := fmt.Sprintf("; free in AddressPool %s is %s", allocation.Pool.Name, ip)
	if _, asked := s.Address(family); asked {
		text += ", or leave the address out to be given one"
	}
	return text
}
