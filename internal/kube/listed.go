package kube

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
)

// indexListed finds the Services of type LoadBalancer that may be ours to serve by the addresses in their status.
const indexListed = "listed"

func addListedIndex(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &corev1.Service{}, indexListed, func(obj client.Object) (keys []string) {
		for _, ip := range listedBy(obj.(*corev1.Service)) {
			keys = append(keys, ip.String())
		}
		return keys
	})
	if err != nil {
		return fmt.Errorf("indexing Services by %s: %w", indexListed, err)
	}
	return nil
}

// listedBy are the addresses at which a Service, which may be ours to serve, is served by its status.
func listedBy(svc *corev1.Service) []netip.Addr {
	if !loadbalancer.IsOurs(svc, true) {
		return nil
	}
	return loadbalancer.Listed(svc.Status.LoadBalancer.Ingress)
}

// Listing are the Services of ours that are served at an address by their status, and do not hold all that it lists there. The cache is
// believed only that there is none: one that it shows is looked at past it, as it may have given the address up a moment ago.
func (l *LoadBalancers) Listing(ctx context.Context, ip netip.Addr) (listing []*corev1.Service, err error) {
	seen, err := l.seenListing(ctx, ip)
	if err != nil {
		return nil, err
	}
	for _, svc := range seen {
		if !l.IsOurs(svc) {
			continue
		}
		held, err := l.claims.Held(ctx, claim.ServiceHolder(svc.Namespace, svc.Name))
		if err != nil {
			return nil, err
		}
		if holdsListed(svc, held, ip) {
			continue
		}
		now, err := readBy[corev1.Service](ctx, l.objects.tenants, client.ObjectKeyFromObject(svc))
		if err != nil {
			return nil, err
		}
		if now != nil && l.IsOurs(now) && slices.Contains(listedBy(now), ip) {
			listing = append(listing, now)
		}
	}
	return listing, nil
}

// seenListing are the Services whose status lists an address, by the cache.
func (l *LoadBalancers) seenListing(ctx context.Context, ip netip.Addr) (seen []*corev1.Service, err error) {
	if kept, known := l.objects.stores.under(reflect.TypeFor[*corev1.Service](), indexListed, ip.String()); known {
		for _, obj := range kept {
			seen = append(seen, obj.(*corev1.Service))
		}
		return seen, nil
	}
	var list corev1.ServiceList
	err = l.objects.Reader.List(ctx, &list, client.MatchingFields{indexListed: ip.String()})
	for i := range list.Items {
		seen = append(seen, &list.Items[i])
	}
	return seen, err
}

// holdsListed says whether a Service holds what its status lists at an address: all of the address, each port there, or ports of the nodes.
// Who has begun to claim its ports one by one does not, before it has the last.
func holdsListed(svc *corev1.Service, held []claim.Coordinate, ip netip.Addr) bool {
	if slices.Contains(held, claim.Address(ip)) || slices.ContainsFunc(held, claim.Coordinate.IsNode) {
		return true
	}
	has := slices.ContainsFunc(held, func(at claim.Coordinate) bool { return at.Address() == ip })
	return has && !slices.ContainsFunc(loadbalancer.ExternalPoints(svc, ip), func(at claim.Coordinate) bool {
		return loadbalancer.ListsPort(svc.Status.LoadBalancer.Ingress, at) && !slices.Contains(held, at)
	})
}

// Listing are the Services that are served at an address by their status, and do not hold all that it lists there.
func (f *Facts) Listing(ip netip.Addr) []*corev1.Service {
	return f.listing.of(f, ip, f.loadBalancerReader.Listing)
}

// IsNodeAddress says whether a node that takes traffic has an address.
func (f *Facts) IsNodeAddress(ip netip.Addr) bool {
	return once(f, func(ctx context.Context) (bool, error) { return f.loadBalancerReader.IsNodeAddress(ctx, ip) })
}

// listings count which addresses, and which ports of them, Services are served at by their status. Where the ledger has no claim on such
// an address, it is not free all the same.
type listings struct {
	registration toolscache.ResourceEventHandlerRegistration
	at           map[netip.Addr]int
	ports        map[claim.Coordinate]int
}

// followListings has a cache tell Addresses what the status of Services lists.
func (a *Addresses) followListings(ctx context.Context, c cache.Cache) (toolscache.ResourceEventHandlerRegistration, error) {
	return follow(ctx, c, &corev1.Service{}, toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { a.list(nil, obj) },
		UpdateFunc: a.list,
		DeleteFunc: func(obj any) { a.list(obj, nil) },
	})
}

// list notes what a Service is served at, in place of what it was served at; either is nil for nothing.
func (a *Addresses) list(before, now any) {
	was, is := a.pointsListed(before), a.pointsListed(now)
	if len(was)+len(is) == 0 || slices.Equal(was, is) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count(was, -1)
	a.count(is, 1)
}

// pointsListed are the addresses in the status of a Service, each followed by its ports there.
func (a *Addresses) pointsListed(obj any) (points []claim.Coordinate) {
	svc, ok := objectOf(obj).(*corev1.Service)
	if !ok {
		return nil
	}
	for _, ip := range listedBy(svc) {
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
