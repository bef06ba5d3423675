package kube

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// poolBook keeps the pools of the cluster as they are read. It follows the cache of AddressPools, and reads them anew only
// when a spec has changed: their status changes all the time, and each Service needs them.
type poolBook struct {
	registration toolscache.ResourceEventHandlerRegistration

	mu    sync.Mutex
	known map[string]*v1beta1.AddressPool
	// book is nil when it has to be made anew.
	book *addresspool.Book
	// watchers are called when the book has changed.
	watchers []func()
}

func newPoolBook(ctx context.Context, c cache.Cache) (*poolBook, error) {
	p := &poolBook{known: map[string]*v1beta1.AddressPool{}}
	var err error
	p.registration, err = follow(ctx, c, &v1beta1.AddressPool{}, toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { p.set(obj, true) },
		UpdateFunc: func(_, obj any) { p.set(obj, true) },
		DeleteFunc: func(obj any) { p.set(obj, false) },
	})
	return p, err
}

func (p *poolBook) synced() bool { return p.registration.HasSynced() }

func (p *poolBook) set(obj any, there bool) {
	pool, ok := objectOf(obj).(*v1beta1.AddressPool)
	if !ok {
		return
	}
	for _, changed := range p.enter(pool, there) {
		changed()
	}
}

// enter notes a pool, or that it is gone. It returns whom to tell that the book has changed.
func (p *poolBook) enter(pool *v1beta1.AddressPool, there bool) []func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.known[pool.Name]
	switch {
	case !there:
		delete(p.known, pool.Name)
	case was != nil && was.UID == pool.UID && was.Generation == pool.Generation:
		return nil
	default:
		p.known[pool.Name] = pool
	}
	p.book = nil
	return slices.Clone(p.watchers)
}

// OnPoolsChanged has a function called whenever the pools have changed. An event of the cache may come before the view
// shows what it is about.
func (l *LoadBalancers) OnPoolsChanged(changed func()) {
	l.pools.mu.Lock()
	defer l.pools.mu.Unlock()
	l.pools.watchers = append(l.pools.watchers, changed)
}

func (p *poolBook) read() *addresspool.Book {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.book == nil {
		p.book = addresspool.NewBook(slices.Collect(maps.Values(p.known)))
	}
	return p.book
}

// Pools are the pools of the cluster as the cache has them. Only their specs are up to date.
func (l *LoadBalancers) Pools() *addresspool.Book { return l.pools.read() }

// LivePools are the pools of the cluster as they are stored now.
func (l *LoadBalancers) LivePools(ctx context.Context) (*addresspool.Book, error) {
	var list v1beta1.AddressPoolList
	if err := l.objects.live.List(ctx, &list); err != nil {
		return nil, err
	}
	pools := make([]*v1beta1.AddressPool, 0, len(list.Items))
	for i := range list.Items {
		pools = append(pools, &list.Items[i])
	}
	return addresspool.NewBook(pools), nil
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
