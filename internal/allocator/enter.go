package allocator

import (
	"net/netip"
	"slices"
	"time"

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
	// Leaves are those that no pool gives it, either, and in whose place it asks for something else, which it has instead if it can be had.
	Leaves []netip.Addr
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

// All says whether all that the Service lists is to stay listed: no pool gives some of it, and it asks for nothing in the place of that.
func (e Entering) All() bool { return len(e.Stays) > 0 && len(e.Leaves) == 0 }

// Leave has a Service ask only for what is to be in the place of the addresses that it leaves: in the families of those that stay it is
// served.
func (e Entering) Leave(s *Subject) {
	stays := func(family corev1.IPFamily) bool {
		return slices.ContainsFunc(e.Stays, func(ip netip.Addr) bool { return addresspool.FamilyOf(ip) == family })
	}
	s.Families = slices.DeleteFunc(slices.Clone(s.Families), stays)
	s.Addresses = slices.DeleteFunc(slices.Clone(s.Addresses), func(ip netip.Addr) bool { return stays(addresspool.FamilyOf(ip)) })
}

// Enter says what of the addresses in the status of a Service, of whose family it holds nothing, is the Service's. Of two that list one
// address the older has it, unless they have different ports there. Of which it holds some of the ports, it has begun to enter.
func Enter(facts Facts, s *Subject) (e Entering) {
	listed := loadbalancer.Listed(s.Service.Status.LoadBalancer.Ingress)
	onNodes := slices.ContainsFunc(s.Held, claim.Coordinate.IsNode)
	if len(listed) == 0 || onNodes && !s.lacksListed(NodeAllocation(nil, s.Ports)) {
		return e
	}
	a := &allocator{facts: facts, Subject: s, pools: Serving(facts, s.Service)}
	for _, ip := range listed {
		if onNodes && (s.holdsOf(ip) || !loadbalancer.IsOfNodes(s.Service, ip, facts.IsNodeAddress)) || !onNodes && s.hasListed(ip) {
			continue
		}
		a.enter(&e, ip, onNodes || s.holdsOf(ip))
	}
	if slices.ContainsFunc(e.Allocations, func(allocation Allocation) bool { return !allocation.Address.IsValid() }) {
		e.Stays, e.Leaves = nil, nil // they were of nodes that are gone
	}
	for _, leaves := range e.Leaves { // what is asked for is in the place of all that are listed of a family
		isWith := func(ip netip.Addr) bool { return ip.BitLen() == leaves.BitLen() }
		e.Leaves = append(e.Leaves, slices.DeleteFunc(slices.Clone(e.Stays), func(ip netip.Addr) bool { return !isWith(ip) })...)
		e.Stays = slices.DeleteFunc(e.Stays, isWith)
	}
	return e
}

// Judge decides for admission as Allocate does, of a Service that is stored or new. One that has addresses by its status alone, and no pool
// gives it any of them, is judged by what it is to have in the place of those that it leaves; it is to have nothing beside those that stay.
// Ports of the nodes in their place are left to the reconciler to claim: who holds any is taken to be served there.
func Judge(facts Facts, s *Subject, graceLeft func(*v1beta1.EdgeClaim) time.Duration) Decision {
	if !IsServed(facts, s.Service) {
		return Allocate(facts, s, graceLeft)
	}
	e := Enter(facts, s)
	if e.All() {
		return Decision{}
	}
	rest := *s
	e.Leave(&rest)
	d := Allocate(facts, &rest, graceLeft)
	if len(e.Leaves) > 0 {
		d.Allocations = slices.DeleteFunc(d.Allocations, func(allocation Allocation) bool { return !allocation.Address.IsValid() })
	}
	return d
}

// enter says what becomes of an address. Where the Service has begun to enter it, and no pool gives it by now, it goes as one that is held.
func (a *allocator) enter(e *Entering, ip netip.Addr, begun bool) {
	allocation, given := a.listedAllocation(ip)
	isKnown := func(other Allocation) bool { return other.Address == allocation.Address }
	switch hasAnother := !begun && a.holdsFamily(addresspool.FamilyOf(ip)); {
	case !given && begun || given && hasAnother:
		return
	case hasAnother:
		e.Leaves = append(e.Leaves, ip)
		return
	}
	by := a.firstHeld(allocation)
	if by == nil { // of a port, maybe, that it is listed with, and has no longer
		by = succeeding(a.facts, a.Service, allPointsAt(a.Service, ip))
	}
	switch {
	case by != nil:
		e.Lost = append(e.Lost, Taken{ip, by})
	case !given && !a.hasFamily(ip):
	case !given && a.asksElse(ip):
		e.Leaves = append(e.Leaves, ip)
	case !given:
		e.Stays = append(e.Stays, ip)
	case !slices.ContainsFunc(e.Allocations, isKnown): // the ports of the nodes are one, whichever nodes are listed
		e.Allocations = append(e.Allocations, allocation)
	}
}

// hasListed says whether a Service holds an address that its status lists, all of it or each port that is listed there.
func (s *Subject) hasListed(ip netip.Addr) bool {
	ports := AddressAllocation(nil, ip, v1beta1.SharingPorts, s.Ports)
	return s.holdsOf(ip) && (slices.Contains(s.Held, claim.Address(ip)) || !s.lacksListed(ports))
}

// lacksListed says whether a Service does not hold all ports of an allocation that its status lists.
func (s *Subject) lacksListed(allocation Allocation) bool {
	return slices.ContainsFunc(allocation.Missing(s.Held), func(at claim.Coordinate) bool {
		return loadbalancer.ListsPort(s.Service.Status.LoadBalancer.Ingress, at)
	})
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
// there and may have one of its family. One that is not there may be the pool that gave it.
func (a *allocator) asksElse(ip netip.Addr) bool {
	if asked, ok := a.Address(addresspool.FamilyOf(ip)); ok && asked != ip {
		return true
	}
	verdict, known := a.facts.Pools().Verdict(a.Pool)
	return known && (!verdict.Accepted() || verdict.SourceOrDefault() != v1beta1.SourceAddresses ||
		hasFamily(verdict.Pool, []corev1.IPFamily{addresspool.FamilyOf(ip)}))
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
	if pool := giving(a.pools, a.Service, ip); pool != nil {
		sharing := sharingOf(pool)
		if a.isSharedAt(ip) || a.holdsOf(ip) {
			sharing = v1beta1.SharingPorts // as all were given it, or it has begun to claim it
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
// Of two that list it, the older one will. What a pool gives a Service whole, or none gives it, is all its own, as long as it is alone
// there: while others list it, too, or hold ports of it, it has only its own ports.
func (a *allocator) listedByOther(at claim.Coordinate) *v1beta1.EdgeClaim {
	listing := a.facts.Listing(at.Address())
	if len(listing) == 0 { // nobody does, but after a loss of the ledger
		return nil
	}
	lists := a.lists(at)
	byPorts := lists || len(listing) > 1 || len(a.facts.ClaimedPorts(at.Address())) > 0
	others := slices.DeleteFunc(slices.Clone(listing), func(other *corev1.Service) bool {
		hasPort := at.Port() == 0 || loadbalancer.HasPort(other, at)
		return a.isSelf(other) || !hasPort && (byPorts || givesPorts(a.facts, other, at.Address()))
	})
	return a.eldest(others, at, lists)
}

// givesPorts says whether the pool that gives an address to a Service gives only ports of it.
func givesPorts(facts Facts, svc *corev1.Service, ip netip.Addr) bool {
	pool := giving(Serving(facts, svc), svc, ip)
	return pool != nil && sharingOf(pool) == v1beta1.SharingPorts
}

// sharingOf is how a pool shares its addresses; cluster IPs are nobody else's.
func sharingOf(pool *addresspool.Pool) v1beta1.AddressSharing {
	if pool.SourceOrDefault() == v1beta1.SourceClusterIP {
		return v1beta1.SharingNone
	}
	return pool.SharingOrDefault()
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
