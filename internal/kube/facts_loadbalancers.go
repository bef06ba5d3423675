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

// loadBalancerReader answers what only the rules of load balancers and of pools ask. Questions without a context are answered
// from memory.
type loadBalancerReader interface {
	Pools() *addresspool.Book
	AddressPool(ctx context.Context, name string) (*v1beta1.AddressPool, error)
	AddressClaims(ctx context.Context, in ...addresspool.Range) ([]*v1beta1.EdgeClaim, error)
	FreeAddress(pool *addresspool.Pool, family corev1.IPFamily, points func(netip.Addr) []claim.Coordinate) (ip netip.Addr, ok bool)
	MaxPorts() int
}

var (
	_ allocator.Facts        = &Facts{}
	_ loadbalancer.PoolFacts = &Facts{}
)

// Pools are all pools as they are read.
func (f *Facts) Pools() *addresspool.Book {
	if f.pools == nil {
		f.pools = f.from.Pools()
	}
	return f.pools
}

// AddressPool is a pool that may not be in the book yet, nil for none.
func (f *Facts) AddressPool(name string) *v1beta1.AddressPool {
	return once(f, func(ctx context.Context) (*v1beta1.AddressPool, error) { return f.from.AddressPool(ctx, name) })
}

// AddressClaims are the claims on addresses in some ranges, and on ports of these.
func (f *Facts) AddressClaims(in ...addresspool.Range) []*v1beta1.EdgeClaim {
	return once(f, func(ctx context.Context) ([]*v1beta1.EdgeClaim, error) { return f.from.AddressClaims(ctx, in...) })
}

// FreeAddress is the lowest address of a pool and a family of which nobody has any of the points that points returns for it;
// ok is false when there is none.
func (f *Facts) FreeAddress(
	pool *addresspool.Pool, family corev1.IPFamily, points func(netip.Addr) []claim.Coordinate,
) (ip netip.Addr, ok bool) {
	return f.from.FreeAddress(pool, family, points)
}

// MaxPorts is how many ports one Service gets of what it shares with others, 0 for any number.
func (f *Facts) MaxPorts() int { return f.from.MaxPorts() }
