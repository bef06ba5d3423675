package kube

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// Addresses knows which addresses, and which ports of addresses, have a claim, or are in the status of a Service. It follows the
// caches of both. What this replica is about to claim it can assume to be taken already, so that its workers do not run for one
// address while the cache does not show yet that it is gone. None of this is binding: the ledger decides.
type Addresses struct {
	clock        clock.PassiveClock
	registration toolscache.ResourceEventHandlerRegistration

	mu sync.RWMutex
	// claimed are the points of each address that have a claim.
	claimed map[netip.Addr][]claim.Coordinate
	// assumed is until when a point without a claim counts as taken, claim.CacheLag from when it was chosen; lapses has the
	// same in the order of time. They are not in claim.Written, as they come before any write.
	assumed map[claim.Coordinate]time.Time
	lapses  []lapse
	// assumedAt is how many points of an address are assumed.
	assumedAt map[netip.Addr]int

	// held are the addresses of which anything has a claim.
	held addresspool.Taken
	// used are those and the ones of which anything is assumed, or that a status lists, whole those that are taken as a whole, and
	// ports those of which that port is.
	used, whole addresspool.Taken
	ports       map[stream.PortKey]*addresspool.Taken

	// listed are those that Services are served at.
	listed listings

	// watchers are called when a claim on an address has come or gone.
	watchers []func(netip.Addr)
}

// lapse is when an assumption ends.
type lapse struct {
	at    claim.Coordinate
	until time.Time
}

// newAddresses makes Addresses that follow a cache. isOurs says whether a Service is Portcullis' to serve.
func newAddresses(ctx context.Context, c cache.Cache, isOurs func(*corev1.Service) bool) (*Addresses, error) {
	a := emptyAddresses(clock.RealClock{})
	a.listed.isOurs = isOurs
	registration, err := followPoints(ctx, c, a.set)
	if err != nil {
		return nil, err
	}
	if a.listed.registration, err = a.followListings(ctx, c); err != nil {
		return nil, err
	}
	a.registration = registration
	return a, nil
}

func emptyAddresses(c clock.PassiveClock) *Addresses {
	return &Addresses{
		clock: c, claimed: map[netip.Addr][]claim.Coordinate{}, assumed: map[claim.Coordinate]time.Time{},
		assumedAt: map[netip.Addr]int{}, ports: map[stream.PortKey]*addresspool.Taken{},
		listed: listings{at: map[netip.Addr]int{}, ports: map[claim.Coordinate]int{}},
	}
}

// Synced says whether all claims, and the status of all Services, that were there at the start are known.
func (a *Addresses) Synced() bool {
	return a.registration.HasSynced() && a.listed.registration.HasSynced()
}

// Free is the lowest address of a set and a family that nobody has anything of, ok is false when there is none.
func (a *Addresses) Free(set addresspool.Set, family corev1.IPFamily) (ip netip.Addr, ok bool) {
	a.lapse()
	a.mu.RLock()
	defer a.mu.RUnlock()
	return set.FirstFree(family, &a.used)
}

// FreePorts is the lowest address of a set and a family of which nobody has any of these ports, nor the whole.
func (a *Addresses) FreePorts(set addresspool.Set, family corev1.IPFamily, ports []stream.PortKey) (ip netip.Addr, ok bool) {
	a.lapse()
	a.mu.RLock()
	defer a.mu.RUnlock()
	taken := []*addresspool.Taken{&a.whole}
	for _, port := range ports {
		if t := a.ports[port]; t != nil {
			taken = append(taken, t)
		}
	}
	return set.FirstFree(family, taken...)
}

// Assume takes points for a while that are about to be claimed, all of them or, if any is taken, none. It says which.
// What is claimed by then stays taken for as long as the claim.
func (a *Addresses) Assume(points ...claim.Coordinate) bool {
	a.lapse()
	a.mu.Lock()
	defer a.mu.Unlock()
	if slices.ContainsFunc(points, a.taken) {
		return false
	}
	until := a.clock.Now().Add(claim.CacheLag)
	for _, at := range points {
		if !at.IsAddress() {
			continue
		}
		a.assumed[at] = until
		a.assumedAt[at.Address()]++
		a.lapses = append(a.lapses, lapse{at: at, until: until})
		a.mark(at)
	}
	return true
}

// taken says whether a point, or a part of it, or the whole of which it is a part, is taken.
func (a *Addresses) taken(at claim.Coordinate) bool {
	ip := at.Address()
	if at.Port() == 0 {
		return a.used.Has(ip)
	}
	t := a.ports[portOf(at)]
	return a.whole.Has(ip) || t != nil && t.Has(ip)
}

// Forget ends assumptions: the points could not be claimed.
func (a *Addresses) Forget(points ...claim.Coordinate) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, at := range points {
		a.drop(at)
	}
}

// ClaimedIn lists the points in some ranges that have a claim, in ascending order.
func (a *Addresses) ClaimedIn(ranges ...addresspool.Range) []claim.Coordinate {
	a.mu.RLock()
	defer a.mu.RUnlock()
	var points []claim.Coordinate
	for _, r := range ranges {
		for ip := range a.held.In(r) {
			points = append(points, a.claimed[ip]...)
		}
	}
	slices.SortFunc(points, claim.Compare)
	return points
}

// Assigned is how many addresses of a set have a claim, on the whole or on a port.
func (a *Addresses) Assigned(set addresspool.Set) int64 {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return set.Assigned(&a.held)
}

// lapse ends the assumptions whose time is over.
func (a *Addresses) lapse() {
	now := a.clock.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.lapses) > 0 && !a.lapses[0].until.After(now) {
		if first := a.lapses[0]; a.assumed[first.at].Equal(first.until) {
			a.drop(first.at)
		}
		a.lapses = a.lapses[1:]
	}
}

// drop ends an assumption. The lock must be held, as for mark.
func (a *Addresses) drop(at claim.Coordinate) {
	if _, assumed := a.assumed[at]; !assumed {
		return
	}
	delete(a.assumed, at)
	if ip := at.Address(); a.assumedAt[ip] > 1 {
		a.assumedAt[ip]--
	} else {
		delete(a.assumedAt, ip)
	}
	a.mark(at)
}

func (a *Addresses) set(obj any, claimed bool) {
	at := pointOf(obj)
	if !at.IsAddress() {
		return
	}
	for _, changed := range a.enter(at, claimed) {
		changed(at.Address())
	}
}

// OnChange has a function called whenever a claim on an address has come or gone. An event of the cache may come before
// the Addresses show what it is about.
func (a *Addresses) OnChange(changed func(netip.Addr)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.watchers = append(a.watchers, changed)
}

// enter notes a claim, or that it is gone. It returns whom to tell.
func (a *Addresses) enter(at claim.Coordinate, claimed bool) []func(netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ip := at.Address()
	others := slices.DeleteFunc(a.claimed[ip], func(other claim.Coordinate) bool { return other == at })
	if claimed {
		others = append(others, at)
	}
	if len(others) > 0 {
		a.claimed[ip] = others
	} else {
		delete(a.claimed, ip)
	}
	a.drop(at)
	a.mark(at)
	return slices.Clone(a.watchers)
}

// mark enters whether a point is taken, where that is looked up. An address that one Service lists without any claim is taken as a whole:
// how much of it that had, its claims will tell. What is assumed of it tells, too: the cache may show a status before the claims that
// were made for it. Of one that several list, each has its ports.
func (a *Addresses) mark(at claim.Coordinate) {
	ip := at.Address()
	claimed, listed, whole := a.claimed[ip], a.listed.at[ip], claim.Address(ip)
	taken := func(point claim.Coordinate) bool {
		_, assumed := a.assumed[point]
		return assumed || slices.Contains(claimed, point)
	}
	put(&a.held, ip, len(claimed) > 0)
	put(&a.used, ip, len(claimed) > 0 || a.assumedAt[ip] > 0 || listed > 0)
	put(&a.whole, ip, taken(whole) || listed == 1 && len(claimed) == 0 && a.assumedAt[ip] == 0)
	if at.Port() == 0 {
		return
	}
	key := portOf(at)
	if a.ports[key] == nil {
		a.ports[key] = &addresspool.Taken{}
	}
	put(a.ports[key], ip, taken(at) || a.listed.ports[at] > 0)
	if a.ports[key].Len() == 0 {
		delete(a.ports, key)
	}
}

func put(t *addresspool.Taken, ip netip.Addr, taken bool) {
	if taken {
		t.Add(ip)
	} else {
		t.Remove(ip)
	}
}

func portOf(at claim.Coordinate) stream.PortKey {
	return stream.PortKey{Protocol: at.Protocol(), Port: at.Port()}
}
