package kube

import (
	"context"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// OnPoolsChanged has a function called whenever the pools have changed; see book.onChange.
func (l *LoadBalancers) OnPoolsChanged(changed func()) {
	l.pools.onChange(changed)
}

// Pools are the pools of the cluster as the cache has them. Only their specs are up to date.
func (l *LoadBalancers) Pools() *addresspool.Book { return l.pools.read() }

// LivePools are the pools of the cluster as they are stored now.
func (l *LoadBalancers) LivePools(ctx context.Context) (*addresspool.Book, error) {
	var list v1beta1.AddressPoolList
	if err := l.objects.live.List(ctx, &list); err != nil {
		return nil, err
	}
	return addresspool.NewBook(pointersTo(list.Items)), nil
}

// FreeAddress is the lowest address of a pool and a family of which nobody has any of the points that points returns for
// it, ok is false when there is none.
func (l *LoadBalancers) FreeAddress(
	pool *addresspool.Pool, family corev1.IPFamily, points func(netip.Addr) []claim.Coordinate,
) (ip netip.Addr, ok bool) {
	ip, ok = l.addresses.FreePorts(pool.Set, family, nil)
	if !ok {
		return netip.Addr{}, false
	}
	var ports []stream.PortKey
	for _, at := range points(ip) {
		if at.Port() == 0 {
			return l.addresses.Free(pool.Set, family)
		}
		ports = append(ports, portOf(at))
	}
	return l.addresses.FreePorts(pool.Set, family, ports)
}

// IsStored says whether a Service is stored now.
func (l *LoadBalancers) IsStored(ctx context.Context, service types.NamespacedName) (bool, error) {
	err := l.objects.live.Get(ctx, service, &corev1.Service{})
	return err == nil, client.IgnoreNotFound(err)
}

// PoolCount is how many addresses a pool has, and how many of them are assigned.
type PoolCount struct {
	// Known: the source of the pool has addresses that can be counted.
	Known           bool
	Total, Assigned int64
}

// CountPool counts the addresses of a pool.
func (l *LoadBalancers) CountPool(pool *addresspool.Pool) PoolCount {
	if pool.SourceOrDefault() != v1beta1.SourceAddresses {
		return PoolCount{}
	}
	_, _, total := pool.Set.Size()
	return PoolCount{Known: true, Total: total, Assigned: l.addresses.Assigned(pool.Set)}
}
