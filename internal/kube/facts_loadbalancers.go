package kube

import (
	"context"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/allocator"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
)

// loadBalancerReader answers the questions of the rules for load balancers and for pools. As it does so from memory, rules ask it
// themselves.
type loadBalancerReader interface {
	IsOurs(svc *corev1.Service) bool
	ReservedNodePorts() loadbalancer.PortRanges
	MaxPorts() int
	Pools() *addresspool.Book
	GivesNodes() bool
	FreeAddress(pool *addresspool.Pool, family corev1.IPFamily, points func(netip.Addr) []claim.Coordinate) (ip netip.Addr, ok bool)
	Listing(ctx context.Context, ip netip.Addr) ([]*corev1.Service, error)
	ListingOnNodes(ctx context.Context, at claim.Coordinate) ([]*corev1.Service, error)
	IsNodeAddress(ctx context.Context, ip netip.Addr) (bool, error)
}

var (
	_ allocator.Facts        = &Facts{}
	_ loadbalancer.PoolFacts = &Facts{}
)

// Pools are all pools as they are read.
func (f *Facts) Pools() *addresspool.Book {
	if f.pools == nil {
		f.pools = f.loadBalancerReader.Pools()
	}
	return f.pools
}

// AddressPool is a pool that may not be in the book yet, nil for none.
func (f *Facts) AddressPool(name string) *v1beta1.AddressPool {
	return once(f, func(ctx context.Context) (*v1beta1.AddressPool, error) { return f.from.AddressPool(ctx, name) })
}

// AddressClaims are the claims on addresses in some ranges, and on ports of these.
func (f *Facts) AddressClaims(in ...addresspool.Range) []*v1beta1.EdgeClaim {
	return once(f, func(ctx context.Context) ([]*v1beta1.EdgeClaim, error) { return f.ask.claims.OnAddresses(ctx, in...) })
}
