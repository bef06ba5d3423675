package kube

import (
	"context"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
)

// indexListed finds the Services of type LoadBalancer that may be ours to serve by the addresses in their status, one of each family. Those
// with several, which are of nodes, it finds by their ports there: by their addresses each would have as many keys as there are nodes.
const indexListed = "listed"

func listedKeys(svc *corev1.Service) (keys []string) {
	alone, several := listedBy(svc)
	for _, ip := range alone {
		keys = append(keys, ip.String())
	}
	if several {
		for _, p := range svc.Spec.Ports {
			if at := claim.NodePort(string(p.Protocol), p.Port); !at.IsZero() {
				keys = append(keys, at.Name())
			}
		}
	}
	return keys
}

// listedBy are the addresses at which a Service, which may be ours to serve, is served by its status, but for several of one family.
func listedBy(svc *corev1.Service) (alone []netip.Addr, several bool) {
	if !loadbalancer.IsOurs(svc, true) {
		return nil, false
	}
	listed := loadbalancer.Listed(svc.Status.LoadBalancer.Ingress)
	for _, ip := range listed {
		if loadbalancer.IsOneOfSeveral(listed, ip) {
			several = true
		} else {
			alone = append(alone, ip)
		}
	}
	return alone, several
}

// Listing are the Services of ours that are served at an address by their status, and do not hold all that it lists there, by the cache.
// Those that list several of one family are not among them.
func (l *LoadBalancers) Listing(ctx context.Context, ip netip.Addr) ([]*corev1.Service, error) {
	return l.ListingAmong(ctx, ip, func(*corev1.Service) bool { return true })
}

// ListingAmong are those of them that among keeps, which is asked before the ledger is: thousands may list one address.
func (l *LoadBalancers) ListingAmong(ctx context.Context, ip netip.Addr, among func(*corev1.Service) bool) ([]*corev1.Service, error) {
	seen, err := l.seenListing(ctx, ip.String())
	if err != nil {
		return nil, err
	}
	seen = slices.DeleteFunc(seen, func(svc *corev1.Service) bool { return !among(svc) })
	isOfNode := sync.OnceValues(func() (bool, error) { return l.IsNodeAddress(ctx, ip) })
	return l.lacking(seen, func(svc *corev1.Service) (bool, error) {
		if has, err := l.holdsListed(ctx, svc, ip); has || err != nil {
			return false, err
		}
		if ofNode, err := isOfNode(); !ofNode || err != nil {
			return true, err
		}
		held, err := l.heldBy(ctx, svc) // it may hold its ports as those of the nodes
		return loadbalancer.HoldsOf(held, ip) || !slices.ContainsFunc(held, claim.Coordinate.IsNode), err
	})
}

// ListingOnNodes are the Services of ours that have a port of the nodes by their status, and do not hold it, by the cache. Those that list
// one node are found by its address.
func (l *LoadBalancers) ListingOnNodes(ctx context.Context, at claim.Coordinate) ([]*corev1.Service, error) {
	seen, err := l.seenListing(ctx, at.Name())
	if err != nil {
		return nil, err
	}
	nodes, err := l.allNodeAddresses(ctx)
	if err != nil {
		return nil, err
	}
	for ip := range nodes {
		alone, err := l.seenListing(ctx, ip.String())
		if err != nil {
			return nil, err
		}
		seen = append(seen, alone...)
	}
	seen = slices.DeleteFunc(seen, func(svc *corev1.Service) bool { return !loadbalancer.HasPort(svc, at) })
	return l.lacking(seen, func(svc *corev1.Service) (bool, error) {
		if has, err := l.holds(ctx, svc, at); has || err != nil {
			return false, err
		}
		held, err := l.heldBy(ctx, svc)
		return loadbalancer.HasOnNodes(svc, held, at, func(ip netip.Addr) bool { return nodes[ip] }), err
	})
}

// lacking are those of some Services that are ours, and do not hold what their status lists, as lacks says.
func (l *LoadBalancers) lacking(seen []*corev1.Service, lacks func(*corev1.Service) (bool, error)) (listing []*corev1.Service, err error) {
	for _, svc := range seen {
		if !l.IsOurs(svc) {
			continue
		}
		is, err := lacks(svc)
		if err != nil {
			return nil, err
		}
		if is {
			listing = append(listing, svc)
		}
	}
	return listing, nil
}

// seenListing are the Services that the index has under a key, by the cache.
func (l *LoadBalancers) seenListing(ctx context.Context, key string) ([]*corev1.Service, error) {
	return l.objects.servicesUnder(ctx, indexListed, key)
}

// holdsListed says whether a Service holds what its status lists at an address: all of the address, or each port there. Who has begun to
// claim its ports one by one does not, before it has the last. It is asked by the names of the claims: there may be thousands who list one
// address, and each may hold as much.
func (l *LoadBalancers) holdsListed(ctx context.Context, svc *corev1.Service, ip netip.Addr) (bool, error) {
	if has, err := l.holds(ctx, svc, claim.Address(ip)); has || err != nil {
		return has, err
	}
	some := false
	for _, at := range loadbalancer.ExternalPoints(svc, ip) {
		if !loadbalancer.ListsPort(svc.Status.LoadBalancer.Ingress, at) {
			continue
		}
		if has, err := l.holds(ctx, svc, at); !has || err != nil {
			return false, err
		}
		some = true
	}
	if some {
		return true, nil
	}
	held, err := l.heldBy(ctx, svc)
	return loadbalancer.HoldsOf(held, ip), err
}

// holds says whether a Service has a claim on a point, other than by naming it alone.
func (l *LoadBalancers) holds(ctx context.Context, svc *corev1.Service, at claim.Coordinate) (bool, error) {
	c, err := l.objects.Claim(ctx, at.Name())
	return c != nil && !c.Spec.ExternalIP && claim.HolderOf(c) == claim.ServiceHolder(svc.Namespace, svc.Name), err
}

// heldBy is all that a Service holds.
func (l *LoadBalancers) heldBy(ctx context.Context, svc *corev1.Service) ([]claim.Coordinate, error) {
	return l.claims.Held(ctx, claim.ServiceHolder(svc.Namespace, svc.Name))
}

// Listing are the Services that are served at an address by their status, and do not hold all that it lists there.
func (f *Facts) Listing(ip netip.Addr) []*corev1.Service {
	return f.listing.of(f, ip, f.loadBalancerReader.Listing)
}

// ListingOnNodes are the Services that have a port of the nodes by their status, and do not hold it.
func (f *Facts) ListingOnNodes(at claim.Coordinate) []*corev1.Service {
	return f.onNodePort.of(f, at, f.loadBalancerReader.ListingOnNodes)
}

// StillLists says whether a Service that was found listing a point lists it now: the cache may not show yet that it has given it up. For
// admission it is looked at live, as what is refused there may be asked for no more; reconcilers look again anyway.
func (f *Facts) StillLists(svc *corev1.Service, at claim.Coordinate) bool {
	now := f.now.of(f, client.ObjectKeyFromObject(svc), f.from.ServiceNow)
	if now == nil || !f.IsOurs(now) {
		return false
	}
	listed := loadbalancer.Listed(now.Status.LoadBalancer.Ingress)
	if at.IsAddress() {
		return slices.Contains(listed, at.Address())
	}
	seen := loadbalancer.Listed(svc.Status.LoadBalancer.Ingress)
	return loadbalancer.HasPort(now, at) && slices.ContainsFunc(seen, func(ip netip.Addr) bool { return slices.Contains(listed, ip) })
}

// IsNodeAddress says whether a node has an address.
func (f *Facts) IsNodeAddress(ip netip.Addr) bool {
	return once(f, func(ctx context.Context) (bool, error) { return f.loadBalancerReader.IsNodeAddress(ctx, ip) })
}

// listings count which addresses, and which ports of them, Services are served at by their status. Where the ledger has no claim on such
// an address, it is not free all the same.
type listings struct {
	registration toolscache.ResourceEventHandlerRegistration
	// isOurs says whether a Service is Portcullis' to serve. What others list is no concern of its pools.
	isOurs func(*corev1.Service) bool
	at     map[netip.Addr]int
	ports  map[claim.Coordinate]int
}

// followListings has a cache tell Addresses what the status of Services lists.
func (a *Addresses) followListings(ctx context.Context, c cache.Cache) (toolscache.ResourceEventHandlerRegistration, error) {
	return follow(ctx, c, &corev1.Service{}, toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { a.list(nil, obj) },
		UpdateFunc: a.list,
		DeleteFunc: func(obj any) { a.list(obj, nil) },
	})
}

// list notes what a Service is served at, in place of what it was served at; either is nil for nothing. Most events of Services are of
// something else.
func (a *Addresses) list(before, now any) {
	if is, there := now.(*corev1.Service); there && ServesAlike(before, is) {
		return
	}
	was, is := a.pointsListed(before), a.pointsListed(now)
	if len(was)+len(is) == 0 || slices.Equal(was, is) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count(was, -1)
	a.count(is, 1)
}

// ServesAlike says whether a Service is served as it was before, if that was one.
func ServesAlike(before any, is *corev1.Service) bool {
	was, had := before.(*corev1.Service)
	if !had {
		return false
	}
	sameIP := func(a, b corev1.LoadBalancerIngress) bool { return a.IP == b.IP }
	samePort := func(a, b corev1.ServicePort) bool { return a.Protocol == b.Protocol && a.Port == b.Port }
	return was.Spec.Type == is.Spec.Type && ptr.Equal(was.Spec.LoadBalancerClass, is.Spec.LoadBalancerClass) &&
		slices.EqualFunc(was.Status.LoadBalancer.Ingress, is.Status.LoadBalancer.Ingress, sameIP) &&
		slices.EqualFunc(was.Spec.Ports, is.Spec.Ports, samePort)
}

// pointsListed are the addresses in the status of a Service, each followed by its ports there. Several of one family are those of nodes,
// which no pool has.
func (a *Addresses) pointsListed(obj any) (points []claim.Coordinate) {
	svc, ok := objectOf(obj).(*corev1.Service)
	if !ok || !a.listed.isOurs(svc) {
		return nil
	}
	alone, _ := listedBy(svc)
	for _, ip := range alone {
		points = append(append(points, claim.Address(ip)), loadbalancer.ExternalPoints(svc, ip)...)
	}
	return points
}

func (a *Addresses) count(points []claim.Coordinate, by int) {
	for _, at := range points {
		if at.Port() == 0 {
			bump(a.listed.at, at.Address(), by)
		} else {
			bump(a.listed.ports, at, by)
		}
		a.mark(at)
	}
}

func bump[K comparable](counts map[K]int, key K, by int) {
	if counts[key] += by; counts[key] <= 0 {
		delete(counts, key)
	}
}
