package allocator

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// Retain finds what a Service keeps of what it holds: what one of the pools gives it. Of several addresses of one family
// it keeps the one that its status lists, else one of which it holds everything.
func Retain(s *Subject, pools []*addresspool.Pool) []Allocation {
	best, ranks := map[corev1.IPFamily]Allocation{}, map[corev1.IPFamily]int{}
	listed := loadbalancer.Listed(s.Service.Status.LoadBalancer.Ingress)
	seen := sets.New[netip.Addr]() // an address is held by each of its ports
	for _, at := range s.Held {
		ip := at.Address()
		if !at.IsAddress() || seen.Has(ip) || !s.mayHave(ip) {
			continue
		}
		seen.Insert(ip)
		allocation, ok := s.allocationOf(ip, pools)
		if !ok {
			continue
		}
		family, rank := addresspool.FamilyOf(ip), s.rank(allocation, listed)
		if other, known := ranks[family]; !known || rank < other {
			best[family], ranks[family] = allocation, rank
		}
	}
	var allocations []Allocation
	for _, family := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
		if allocation, ok := best[family]; ok {
			allocations = append(allocations, allocation)
		}
	}
	if len(allocations) > 0 || !slices.ContainsFunc(s.Held, s.isOwnNodePort) {
		return allocations
	}
	if allocation, ok := s.nodeAllocation(pools); ok {
		return []Allocation{allocation}
	}
	return nil
}

func (s *Subject) isOwnNodePort(at claim.Coordinate) bool {
	return at.IsNode() && s.HasPort(at.Protocol(), at.Port())
}

// mayHave says whether an address is one that the Service asks for, or would do as well.
func (s *Subject) mayHave(ip netip.Addr) bool {
	asked, ok := s.Address(addresspool.FamilyOf(ip))
	return s.hasFamily(ip) && (!ok || asked == ip)
}

// hasFamily says whether the family of an address is one of the Service.
func (s *Subject) hasFamily(ip netip.Addr) bool {
	return len(s.Families) == 0 || slices.Contains(s.Families, addresspool.FamilyOf(ip))
}

// allocationOf is a held address as one of the pools gives it. It stays what it was claimed as, all of it or only ports, also in
// a pool that would now give it otherwise. One that is only listed is as the pool gives it.
func (s *Subject) allocationOf(ip netip.Addr, pools []*addresspool.Pool) (Allocation, bool) {
	pool := giving(pools, s.Service, ip)
	if pool == nil {
		return Allocation{}, false
	}
	sharing := v1beta1.SharingPorts
	switch {
	case slices.Contains(s.Held, claim.Address(ip)):
		sharing = v1beta1.SharingNone
	case !s.holdsOf(ip):
		sharing = sharingOf(pool)
	}
	return AddressAllocation(pool, ip, sharing, s.Ports), true
}

// nodeAllocation is the ports of the nodes as the first of the pools gives them that does.
func (s *Subject) nodeAllocation(pools []*addresspool.Pool) (Allocation, bool) {
	if pool := giving(pools, s.Service, netip.Addr{}); pool != nil {
		return NodeAllocation(pool, s.Ports), true
	}
	return Allocation{}, false
}

// rank orders the allocations that a Service could keep; the lowest is retained.
func (s *Subject) rank(allocation Allocation, listed []netip.Addr) int {
	switch {
	case slices.Contains(listed, allocation.Address):
		return 0
	case len(allocation.Missing(s.Held)) == 0:
		return 1
	default:
		return 2
	}
}

// beyond refuses what a Service that is being deleted asks for beyond what it has, retained is what it keeps of that.
func (s *Subject) beyond(retained []Allocation) (problems refusal.Problems) {
	for _, allocation := range retained {
		for i, at := range allocation.Points {
			if !slices.Contains(s.Held, at) {
				problems = append(problems, refusal.BeingDeleted(loadbalancer.PortPath(i)))
			}
		}
	}
	if len(retained) == 0 && len(s.Held) > 0 {
		problems = append(problems, refusal.BeingDeleted(s.AddressesPath))
	}
	return problems
}

// Retained says what a Service has that may stay while what it asks for can't be had: the addresses that its status lists, it
// holds, and a pool would still give it. They are complete, that is each with all of its ports.
func Retained(facts Facts, s *Subject) []Allocation {
	pools := Serving(facts, s.Service)
	anything := *s
	anything.Request = loadbalancer.Request{Ports: s.Ports}
	listed := loadbalancer.Listed(s.Service.Status.LoadBalancer.Ingress)
	return slices.DeleteFunc(Retain(&anything, pools), func(allocation Allocation) bool {
		return len(allocation.Missing(s.Held)) > 0 ||
			allocation.Address.IsValid() && !slices.Contains(listed, allocation.Address) || len(listed) == 0
	})
}

// Forwarded are the allocations of what the status of a Service lists, with all ports that the Service is to have: kube-proxy
// forwards them there as soon as they are stored, also where the Service asks for something else by now, and waits for it.
// Problems are the ports that it can't have there. graceLeft says how long a claim is retained if its holder is gone.
func Forwarded(facts Facts, s *Subject, graceLeft func(*v1beta1.EdgeClaim) time.Duration) Decision {
	pools := Serving(facts, s.Service)
	var allocations []Allocation
	for _, ip := range loadbalancer.Listed(s.Service.Status.LoadBalancer.Ingress) {
		allocation, ok := s.allocationOf(ip, pools)
		onNodes := func() bool {
			return slices.ContainsFunc(s.Held, claim.Coordinate.IsNode) || loadbalancer.IsOfNodes(s.Service, ip, facts.IsNodeAddress)
		}
		if !ok && !s.holdsOf(ip) && onNodes() {
			allocation, ok = s.nodeAllocation(pools)
		}
		if !ok {
			return Decision{Problems: notGivenAnyLonger(ip)}
		}
		if !slices.ContainsFunc(allocations, func(other Allocation) bool { return other.Address == allocation.Address }) {
			allocations = append(allocations, allocation)
		}
	}
	if s.Service.DeletionTimestamp != nil {
		return Decision{allocations, s.beyond(allocations)}
	}
	if more := s.givesAndAsks(allocations); len(more) > 0 {
		return Decision{allocations, more}
	}
	return Decision{allocations, (&allocator{facts: facts, Subject: s, graceLeft: graceLeft}).conflicts(allocations)}
}

func notGivenAnyLonger(ip netip.Addr) refusal.Problems {
	return refusal.One(v1beta1.ReasonNoAddressPool, field.Forbidden(loadbalancer.PortsPath, fmt.Sprintf(
		"the Service is forwarded at %s, which no AddressPool gives it any longer; change its ports when a pool gives it that again, "+
			"or when its status lists another address instead: the annotation %s asks for one", ip, v1beta1.AnnotationAddresses)))
}

// WantsPoint says whether a Service wants a point that it holds: its status lists it, whoever has written that, or a pool
// gives it what it asks for. A point that is listed is forwarded, so it is nobody else's before it is not.
func WantsPoint(facts Facts, s *Subject, at claim.Coordinate) bool {
	return loadbalancer.Lists(s.Service, s.Held, at) || AsksForPoint(facts, s, at)
}

// AsksForPoint says whether a Service that is Portcullis' to serve asks for a point that it holds: a pool gives it to it as
// it is now, whatever its status lists. One that is being deleted asks for nothing.
func AsksForPoint(facts Facts, s *Subject, at claim.Coordinate) bool {
	if s.Service.DeletionTimestamp != nil || at.Port() != 0 && !s.HasPort(at.Protocol(), at.Port()) {
		return false
	}
	pools, problems := fitting(facts, s)
	return len(problems) == 0 &&
		slices.ContainsFunc(s.keep(facts, pools), func(allocation Allocation) bool { return slices.Contains(allocation.Points, at) })
}
