package allocator

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
)

// Entering is what a Service has by its status alone: the ledger was lost, with a backup that lacks it or as Portcullis was installed anew.
// Only Portcullis, and who may do anything, writes that status, and traffic comes in by it.
type Entering struct {
	// Allocations are those of the addresses that a pool gives the Service. It is to hold them before anything else is given away, whatever
	// it asks for and limits are: it keeps, or leaves, them as if it had held them all the time.
	Allocations []Allocation
	// Stays are those that no pool gives it, now: pools may come later. Nobody else gets them.
	Stays []netip.Addr
	// Leaves: it asks for something else than what stays, and has it instead if it can be had.
	Leaves bool
	// Lost are those that somebody else has.
	Lost []Taken
}

// Taken is an address that somebody else has: who holds it, or will.
type Taken struct {
	Address netip.Addr
	By      *v1beta1.EdgeClaim
}

// IsClaimed says whether who has the address holds it already. Else it is an older Service that lists it, too.
func (t Taken) IsClaimed() bool { return t.By.ResourceVersion != "" }

// Enter says what of the addresses in the status of a Service, of whose family it holds nothing, is the Service's. Of two that list one
// address the older has it, unless they have different ports there.
func Enter(facts Facts, s *Subject) (e Entering) {
	listed := loadbalancer.Listed(s.Service.Status.LoadBalancer.Ingress)
	if len(listed) == 0 || slices.ContainsFunc(s.Held, claim.Coordinate.IsNode) {
		return e
	}
	a := &allocator{facts: facts, Subject: s, pools: Serving(facts, s.Service)}
	for _, ip := range listed {
		if s.holdsFamily(addresspool.FamilyOf(ip)) {
			continue
		}
		allocation, given := a.listedAllocation(ip)
		isKnown := func(other Allocation) bool { return other.Address == allocation.Address }
		by := a.firstHeld(allocation)
		switch {
		case by != nil:
			e.Lost = append(e.Lost, Taken{ip, by})
		case !given && s.hasFamily(ip):
			e.Stays = append(e.Stays, ip)
			e.Leaves = e.Leaves || a.asksElse(ip)
		case given && !slices.ContainsFunc(e.Allocations, isKnown): // the ports of the nodes are one, whichever nodes are listed
			e.Allocations = append(e.Allocations, allocation)
		}
	}
	if slices.ContainsFunc(e.Allocations, func(allocation Allocation) bool { return !allocation.Address.IsValid() }) {
		e.Stays, e.Leaves = nil, false // they were of nodes that are gone
	}
	return e
}

// firstHeld is the first claim of somebody else that an allocation can't be had beside, nil for none.
func (a *allocator) firstHeld(allocation Allocation) *v1beta1.EdgeClaim {
	for _, at := range allocation.Points {
		if held := a.heldByOther(at); held != nil {
			return held
		}
	}
	return nil
}

// asksElse says whether a Service asks for something else than an address that no pool gives it: for another one, or for a pool that is
// there. One that is not may be the pool that gave it.
func (a *allocator) asksElse(ip netip.Addr) bool {
	if asked, ok := a.Address(addresspool.FamilyOf(ip)); ok && asked != ip {
		return true
	}
	_, known := a.facts.Pools().Verdict(a.Pool)
	return known
}

// holdsFamily says whether a Service holds anything of an address of a family.
func (s *Subject) holdsFamily(family corev1.IPFamily) bool {
	return slices.ContainsFunc(s.Held, func(at claim.Coordinate) bool {
		return at.IsAddress() && addresspool.FamilyOf(at.Address()) == family
	})
}

// holdsOf says whether a Service holds anything of an address.
func (s *Subject) holdsOf(ip netip.Addr) bool {
	return loadbalancer.HoldsOf(s.Held, ip)
}

// listedAllocation is an address in the status of a Service as a pool gives it; given is false where none does, and the allocation is what
// the Service has there in any case: its ports. Several addresses of one family are those of nodes, though they may be gone by now.
func (a *allocator) listedAllocation(ip netip.Addr) (_ Allocation, given bool) {
	for _, pool := range a.pools {
		if !loadbalancer.Gives(pool, a.Service, ip) {
			continue
		}
		sharing := pool.SharingOrDefault()
		if pool.SourceOrDefault() == v1beta1.SourceClusterIP {
			sharing = v1beta1.SharingNone
		}
		if a.isSharedAt(ip) {
			sharing = v1beta1.SharingPorts // as all were given it
		}
		return AddressAllocation(pool, ip, sharing, a.Ports), true
	}
	if loadbalancer.IsOfNodes(a.Service, ip, a.facts.IsNodeAddress) {
		if nodes, given := a.nodeAllocation(a.pools); given {
			return nodes, true
		}
		return NodeAllocation(nil, a.Ports), false
	}
	return AddressAllocation(nil, ip, v1beta1.SharingPorts, a.Ports), false
}

// isSharedAt says whether others have ports of an address: by the ledger, or by their status and none that this Service has.
func (a *allocator) isSharedAt(ip netip.Addr) bool {
	isOthers := func(c *v1beta1.EdgeClaim) bool { return claim.HolderOf(c) != a.Holder() }
	return slices.ContainsFunc(a.facts.Listing(ip), a.isApart) || slices.ContainsFunc(a.facts.ClaimedPorts(ip), isOthers)
}

// isApart says whether another Service has none of the ports of this one.
func (a *allocator) isApart(other *corev1.Service) bool {
	return !a.isSelf(other) && !slices.ContainsFunc(a.Ports, func(p loadbalancer.Port) bool {
		return slices.ContainsFunc(other.Spec.Ports, func(o corev1.ServicePort) bool { return o.Protocol == p.Protocol && o.Port == p.Number })
	})
}

func (a *allocator) isSelf(svc *corev1.Service) bool {
	return svc.Namespace == a.Service.Namespace && svc.Name == a.Service.Name
}

// listedByOther is the claim that another Service will have on a point, as its status lists the address and nobody holds it; nil for none.
// Of two that list it, the older one will. What no pool gives a Service is all its own, but for the ports of others that list it, too.
func (a *allocator) listedByOther(at claim.Coordinate) *v1beta1.EdgeClaim {
	lists := a.lists(at)
	others := slices.DeleteFunc(slices.Clone(a.facts.Listing(at.Address())), func(other *corev1.Service) bool {
		hasPort := at.Port() == 0 || loadbalancer.HasPort(other, at)
		return a.isSelf(other) || !hasPort && (lists || Gives(a.facts, other, at.Address()))
	})
	return a.eldest(others, at, lists)
}

// listedOnNodes is the same for a port of the nodes.
func (a *allocator) listedOnNodes(at claim.Coordinate) *v1beta1.EdgeClaim {
	others := slices.DeleteFunc(slices.Clone(a.facts.ListingOnNodes(at)), a.isSelf)
	return a.eldest(others, at, len(others) > 0 && loadbalancer.HasOnNodes(a.Service, a.Held, at, a.facts.IsNodeAddress))
}

// eldest is the claim that the eldest of some Services will have on a point, nil where this one lists it and is older. Whether it lists the
// point still is asked of that one alone: that may be a question to the API server, and there may be thousands of them.
func (a *allocator) eldest(others []*corev1.Service, at claim.Coordinate, lists bool) *v1beta1.EdgeClaim {
	slices.SortFunc(others, loadbalancer.ByAge)
	for _, other := range others {
		if lists && loadbalancer.ByAge(a.Service, other) < 0 {
			return nil
		}
		if a.facts.StillLists(other, at) {
			return loadbalancer.WillHold(other, at)
		}
	}
	return nil
}

// lists says whether the Service lists a point, or an address of which it holds nothing: it is entering it, or has begun to.
func (a *allocator) lists(at claim.Coordinate) bool {
	ingress := a.Service.Status.LoadBalancer.Ingress
	return slices.Contains(loadbalancer.Listed(ingress), at.Address()) && (at.Port() != 0 && loadbalancer.ListsPort(ingress, at) ||
		!a.holdsOf(at.Address()))
}
