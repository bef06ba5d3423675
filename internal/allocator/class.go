package allocator

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// ForClass decides which addresses a class is to have of its pool: those that it asks for, or, of each family that the pool has, the
// one that it has already, or else the lowest that is free. Where the pool shares addresses, the class has nothing of one but the
// ports of its streams, and an allocation has no points; else it has the whole. graceLeft says how long a claim is kept if its
// holder is gone.
//
// With allocations, problems say what it asks for beside them and can't have.
func ForClass(facts Facts, class *v1beta1.StreamIngressClass, graceLeft func(*v1beta1.EdgeClaim) time.Duration) (d Decision) {
	asked, problems := stream.RequestedAddresses(class)
	if len(problems) > 0 {
		return Decision{Problems: problems}
	}
	pool, problems := poolOfClass(facts, class)
	if len(problems) > 0 {
		return Decision{Problems: problems}
	}
	c := &forClass{facts: facts, class: class, pool: pool, graceLeft: graceLeft}
	if len(asked) > 0 {
		for _, ip := range asked {
			c.ask(ip)
		}
		return c.Decision
	}
	for _, family := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
		if hasFamily(pool, []corev1.IPFamily{family}) {
			c.give(family)
		}
	}
	if len(c.Allocations) > 0 {
		c.Problems = nil // another family may come later, and is not asked for
	}
	return c.Decision
}

// forClass makes one decision for a class.
type forClass struct {
	Decision
	facts     Facts
	class     *v1beta1.StreamIngressClass
	pool      *addresspool.Pool
	graceLeft func(*v1beta1.EdgeClaim) time.Duration
}

// poolOfClass finds the pool that a class names.
func poolOfClass(facts Facts, class *v1beta1.StreamIngressClass) (*addresspool.Pool, refusal.Problems) {
	pool, problems := poolNamed(facts, class.Spec.AddressPool.Name, stream.PoolNamePath)
	if len(problems) > 0 {
		return nil, problems
	}
	if source := pool.SourceOrDefault(); source != v1beta1.SourceAddresses {
		return nil, refusal.One(v1beta1.ReasonAddressPoolNotAllowed, field.Invalid(stream.PoolNamePath, pool.Name,
			fmt.Sprintf("AddressPool %s has the source %s, and a class needs addresses of its own: name a pool with the source %s",
				pool.Name, source, v1beta1.SourceAddresses)))
	}
	return pool, nil
}

// ask has the class have an address that it asks for.
func (c *forClass) ask(ip netip.Addr) {
	if !c.pool.Set.Contains(ip) {
		c.Problems = append(c.Problems, refusal.Problem{Reason: v1beta1.ReasonAddressNotInPool, Err: field.Invalid(stream.AddressesPath,
			ip.String(), fmt.Sprintf("is not an address of AddressPool %s, which has %s", c.pool.Name, contents(c.pool)))})
		return
	}
	if held := c.heldByOther(ip); held != nil {
		c.Problems = append(c.Problems, ClassConflict(c.facts, c.class, ip, held, c.graceLeft(held))...)
		return
	}
	c.Allocations = append(c.Allocations, c.allocation(ip))
}

// give has the class keep its address of a family, or have the lowest that is free.
func (c *forClass) give(family corev1.IPFamily) {
	for _, ip := range stream.ClassAddresses(c.class) {
		if addresspool.FamilyOf(ip) == family && c.pool.Set.Contains(ip) && c.heldByOther(ip) == nil {
			c.Allocations = append(c.Allocations, c.allocation(ip))
			return
		}
	}
	for _, at := range c.facts.Held(c.holder()) { // and its status does not say so yet
		if ip := at.Address(); at.IsAddress() && addresspool.FamilyOf(ip) == family && c.pool.Set.Contains(ip) && c.heldByOther(ip) == nil {
			c.Allocations = append(c.Allocations, c.allocation(ip))
			return
		}
	}
	points := func(ip netip.Addr) []claim.Coordinate { return c.allocation(ip).Points }
	if ip, ok := c.facts.FreeAddress(c.pool, family, points); ok {
		allocation := c.allocation(ip)
		allocation.AutoAssigned = true
		c.Allocations = append(c.Allocations, allocation)
		return
	}
	c.Problems = append(c.Problems, refusal.Problem{Reason: v1beta1.ReasonNoFreeAddress, Err: field.Invalid(stream.PoolNamePath, c.pool.Name,
		fmt.Sprintf("AddressPool %s has no free address of %s left", c.pool.Name, family))})
}

func (c *forClass) holder() claim.Holder { return claim.ClassHolder(c.class.Name) }

func (c *forClass) allocation(ip netip.Addr) Allocation {
	return AddressAllocation(c.pool, ip, c.pool.SharingOrDefault(), nil)
}

// heldByOther finds a claim of somebody else beside which the class can't have an address: on the whole of it, or, where it is not
// shared, on any port.
func (c *forClass) heldByOther(ip netip.Addr) *v1beta1.EdgeClaim {
	listing := c.facts.Listing(ip) // before its claims: who makes one meanwhile is found by either
	if held := c.facts.Claim(claim.Address(ip).Name()); held != nil && claim.HolderOf(held) != c.holder() {
		return held
	}
	if c.pool.SharingOrDefault() == v1beta1.SharingPorts {
		return nil
	}
	claims := c.facts.ClaimedPorts(ip)
	if i := slices.IndexFunc(claims, func(held *v1beta1.EdgeClaim) bool { return claim.HolderOf(held) != c.holder() }); i >= 0 {
		return claims[i]
	}
	for _, svc := range slices.SortedFunc(slices.Values(listing), loadbalancer.ByAge) {
		if c.facts.StillLists(svc, claim.Address(ip)) {
			return loadbalancer.WillHold(svc, claim.Address(ip))
		}
	}
	return nil
}

// ClassConflict tells a class that an address of its pool is held: by whom, since when, and what could be had instead.
func ClassConflict(
	facts Facts, class *v1beta1.StreamIngressClass, ip netip.Addr, held *v1beta1.EdgeClaim, graceLeft time.Duration,
) refusal.Problems {
	text := refusal.Held(held, isLeaving(facts, held), graceLeft)
	if len(class.Spec.AddressPool.Addresses) > 0 {
		text += "; choose another, or leave the addresses out to be given one"
	}
	return refusal.One(v1beta1.ReasonAddressConflict, refusal.Duplicate(stream.AddressesPath, ip.String(), text))
}
