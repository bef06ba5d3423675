package allocator

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// complete adds to what a Service retains what is missing.
func (a *allocator) complete(retained []Allocation) ([]Allocation, refusal.Problems) {
	if problems := a.conflicts(retained); len(problems) > 0 {
		return nil, problems
	}
	switch retained[0].Pool.SourceOrDefault() {
	case v1beta1.SourceNodeIP:
		return retained, nil
	case v1beta1.SourceClusterIP:
		return a.fromClusterIP(retained[0].Pool)
	}
	allocations, problems := a.fromSeveral(retained, retained[0].Pool)
	if allocations == nil && len(problems) == 0 {
		problems = a.nothingLeft()
	}
	return allocations, problems
}

// choose finds a pool for a Service that has nothing yet.
func (a *allocator) choose() ([]Allocation, refusal.Problems) {
	candidates := slices.DeleteFunc(slices.Clone(a.pools), func(p *addresspool.Pool) bool { return !a.mayAllocateFrom(p) })
	if len(candidates) == 0 {
		return nil, noPool(a.facts, a.Subject)
	}
	var conflicts refusal.Problems
	for _, pool := range candidates {
		allocations, problems := a.from(pool)
		if allocations != nil {
			return allocations, nil
		}
		conflicts = append(conflicts, problems...)
	}
	allocations, problems := a.fromSeveral(nil, nil)
	if allocations != nil {
		return allocations, nil
	}
	if len(problems) > 0 { // what is asked for by name can't be had
		return nil, problems
	}
	if len(a.full) > 0 || len(conflicts) == 0 {
		return nil, a.nothingLeft()
	}
	return nil, conflicts
}

// mayAllocateFrom says whether a Service may be given anything of a pool that it has nothing of: the pool is asked for, or is for
// everybody.
func (s *Subject) mayAllocateFrom(pool *addresspool.Pool) bool {
	return pool.AutoAssigns() || s.Pool == pool.Name ||
		slices.ContainsFunc(s.Addresses, func(ip netip.Addr) bool { return loadbalancer.Gives(pool, s.Service, ip) })
}

// AwaitsFamily says whether a Service, which has allocations, has no address of one of its families, and is to have one when one
// is free. Where no pool that may serve it has addresses of that family, none will ever be.
func AwaitsFamily(facts Facts, s *Subject, allocations []Allocation) bool {
	if isGiver(s.Service) || len(allocations) == 0 || len(allocations) >= len(s.Families) ||
		allocations[0].Pool.SourceOrDefault() != v1beta1.SourceAddresses {
		return false
	}
	pools, problems := fitting(facts, s)
	if len(problems) > 0 {
		return false
	}
	missing := slices.DeleteFunc(slices.Clone(s.Families), func(family corev1.IPFamily) bool { return has(allocations, family) })
	return slices.ContainsFunc(pools, func(p *addresspool.Pool) bool {
		return (p.Name == allocations[0].Pool.Name || s.mayAllocateFrom(p)) && hasFamily(p, missing)
	})
}

// from tries to serve a Service from one pool alone. allocations is nil if that can't be done; it is empty, and not nil, for the
// cluster IPs of a Service that has none yet.
func (a *allocator) from(pool *addresspool.Pool) (allocations []Allocation, problems refusal.Problems) {
	switch pool.SourceOrDefault() {
	case v1beta1.SourceNodeIP:
		allocations = []Allocation{NodeAllocation(pool, a.Ports)}
		if problems = a.conflicts(allocations); len(problems) > 0 {
			return nil, problems
		}
		return allocations, nil
	case v1beta1.SourceClusterIP:
		return a.fromClusterIP(pool)
	}
	for _, family := range a.wantedFamilies() {
		allocation, problems := a.ofFamily(allocations, pool, family)
		if allocation == nil {
			return nil, problems
		}
		allocations = append(allocations, *allocation)
	}
	return allocations, nil
}

func (a *allocator) fromClusterIP(pool *addresspool.Pool) ([]Allocation, refusal.Problems) {
	allocations := []Allocation{}
	for _, ip := range loadbalancer.ClusterIPs(a.Service) {
		allocations = append(allocations, AddressAllocation(pool, ip, v1beta1.SharingNone, a.Ports))
	}
	if problems := a.conflicts(allocations); len(problems) > 0 {
		return nil, problems
	}
	return allocations, nil
}

// fromSeveral serves each family that a Service has nothing of yet from the first pool that can, beginning with the one that is preferred;
// nil if that can't be done. One address is enough for a Service that does not insist on one of each family.
func (a *allocator) fromSeveral(allocations []Allocation, preferred *addresspool.Pool) ([]Allocation, refusal.Problems) {
	for _, family := range a.wantedFamilies() {
		if has(allocations, family) {
			continue
		}
		allocation, problems := a.fromAny(allocations, family, preferred)
		switch {
		case len(problems) > 0:
			return nil, problems
		case allocation != nil:
			allocations = append(allocations, *allocation)
		case a.EachFamily:
			return nil, nil
		}
	}
	return allocations, nil
}

// has says whether an address of a family is among some allocations.
func has(allocations []Allocation, family corev1.IPFamily) bool {
	return slices.ContainsFunc(allocations, func(a Allocation) bool { return addresspool.FamilyOf(a.Address) == family })
}

// wantedFamilies are the families that a Service is to have an address of. While the API server has not chosen them, it
// is those of the addresses that it asks for, or IPv4.
func (a *allocator) wantedFamilies() []corev1.IPFamily {
	if len(a.Families) > 0 {
		return a.Families
	}
	var asked []corev1.IPFamily
	for _, ip := range a.Addresses {
		asked = append(asked, addresspool.FamilyOf(ip))
	}
	if len(asked) == 0 {
		return []corev1.IPFamily{corev1.IPv4Protocol}
	}
	return asked
}

// fromAny finds an address of a family in the first pool that has one, beginning with the one that is preferred. beside is
// what the Service is to have already. allocation is nil when there is none; there are problems only with an address that is asked
// for.
func (a *allocator) fromAny(
	beside []Allocation, family corev1.IPFamily, preferred *addresspool.Pool,
) (allocation *Allocation, problems refusal.Problems) {
	pools := a.pools
	if preferred != nil {
		pools = append([]*addresspool.Pool{preferred}, pools...)
	}
	for _, pool := range pools {
		if pool.SourceOrDefault() != v1beta1.SourceAddresses || pool != preferred && !a.mayAllocateFrom(pool) {
			continue
		}
		allocation, problems := a.ofFamily(beside, pool, family)
		if allocation != nil || len(problems) > 0 {
			return allocation, problems
		}
	}
	return nil, nil
}

// ofFamily finds an address of a family in a pool: the one that is asked for, or any. There are problems only with one
// that is asked for. beside is what the Service is to have already.
func (a *allocator) ofFamily(beside []Allocation, pool *addresspool.Pool, family corev1.IPFamily) (*Allocation, refusal.Problems) {
	sharing := pool.SharingOrDefault()
	if ip, asked := a.Address(family); asked {
		if !pool.Set.Contains(ip) {
			return nil, nil
		}
		allocation := AddressAllocation(pool, ip, sharing, a.Ports)
		if problems := a.conflicts([]Allocation{allocation}, beside...); len(problems) > 0 {
			return nil, problems
		}
		return &allocation, nil
	}
	ip, free := a.facts.FreeAddress(pool, family, a.pointsIn(pool))
	exists := free
	if !free { // limits are the same for any other, and nothing is to be waited for where they are reached
		ip, exists = pool.Set.FirstFree(family)
	}
	allocation := AddressAllocation(pool, ip, sharing, a.Ports)
	allocation.AutoAssigned = true
	if exists {
		if problems := a.limits(beside, allocation); len(problems) > 0 {
			a.limited = append(a.limited, problems...)
			return nil, nil
		}
	}
	if !free {
		a.isFull(pool, family)
		return nil, nil
	}
	return &allocation, nil
}

// isFull notes that a pool has no address of a family left.
func (a *allocator) isFull(pool *addresspool.Pool, family corev1.IPFamily) {
	if !slices.Contains(a.full, pool) {
		a.full = append(a.full, pool)
	}
	if !slices.Contains(a.lacking, family) {
		a.lacking = append(a.lacking, family)
	}
}

// pointsIn are the points that a Service has to have of an address that a pool gives it anew.
func (s *Subject) pointsIn(pool *addresspool.Pool) func(netip.Addr) []claim.Coordinate {
	return func(ip netip.Addr) []claim.Coordinate {
		return AddressAllocation(pool, ip, pool.SharingOrDefault(), s.Ports).Points
	}
}

// nothingLeft says why no pool has given anything. One that is full may have something later, and so is what counts.
func (a *allocator) nothingLeft() refusal.Problems {
	pools, lacking := a.full, a.lacking
	if len(pools) == 0 && len(a.limited) > 0 {
		return a.limited[:1]
	}
	if len(pools) == 0 {
		pools, lacking = a.pools, a.wantedFamilies()
	}
	text := fmt.Sprintf("AddressPool %s has no free address of %s left", poolNames(pools), families(lacking))
	if len(pools) > 1 {
		text = fmt.Sprintf("the AddressPools %s have no free address of %s left", poolNames(pools), families(lacking))
	}
	if slices.ContainsFunc(pools, func(p *addresspool.Pool) bool { return p.SharingOrDefault() == v1beta1.SharingPorts }) {
		text += " with these ports"
	}
	path, value := a.anyAddressField()
	return refusal.One(v1beta1.ReasonNoFreeAddress, field.Invalid(path, value, text))
}

// anyAddressField is the field that asks for any address, and its value.
func (s *Subject) anyAddressField() (*field.Path, string) {
	if s.Pool != "" {
		return loadbalancer.PoolPath, s.Pool
	}
	return loadbalancer.TypePath, string(corev1.ServiceTypeLoadBalancer)
}
