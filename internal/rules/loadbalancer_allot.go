package rules

import (
	"context"
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
)

// allotment is a decision that is being made. Its pools are in the order of preference.
type allotment struct {
	*Balance
	view LoadBalancerView
	// graceLeft is how long the ledger keeps a claim if its holder is gone.
	graceLeft func(*v1beta1.EdgeClaim) time.Duration
	pools     []*addresspool.Pool
	// full are the pools that had no address left, and lacking the families of which they had none.
	full    []*addresspool.Pool
	lacking []corev1.IPFamily
	// limited says why pools that have addresses left give this Service none.
	limited refusal.Problems
}

// complete adds to what a Service keeps what is missing.
func (a *allotment) complete(ctx context.Context, kept []loadbalancer.Lot) ([]loadbalancer.Lot, refusal.Problems, error) {
	problems, err := a.hindrances(ctx, kept)
	if err != nil || len(problems) > 0 {
		return nil, problems, err
	}
	switch kept[0].Pool.SourceOrDefault() {
	case v1beta1.SourceNodeIP:
		return kept, nil, nil
	case v1beta1.SourceClusterIP:
		return a.fromClusterIP(ctx, kept[0].Pool)
	}
	for _, family := range a.wantedFamilies() {
		if slices.ContainsFunc(kept, func(lot loadbalancer.Lot) bool { return addresspool.FamilyOf(lot.Address) == family }) {
			continue
		}
		lot, problems, err := a.fromAny(ctx, kept, family, kept[0].Pool)
		switch {
		case err != nil || len(problems) > 0:
			return nil, problems, err
		case lot != nil:
			kept = append(kept, *lot)
		case a.EachFamily:
			return nil, a.nothingLeft(), nil
		}
	}
	return kept, nil, nil
}

// choose finds a pool for a Service that has nothing yet.
func (a *allotment) choose(ctx context.Context) ([]loadbalancer.Lot, refusal.Problems, error) {
	drawable := slices.DeleteFunc(slices.Clone(a.pools), func(p *addresspool.Pool) bool { return !a.mayDraw(p) })
	if len(drawable) == 0 {
		problems, err := noPool(ctx, a.view, a.Balance)
		return nil, problems, err
	}
	var hindered refusal.Problems
	for _, pool := range drawable {
		lots, problems, err := a.from(ctx, pool)
		if err != nil || lots != nil {
			return lots, nil, err
		}
		hindered = append(hindered, problems...)
	}
	lots, problems, err := a.fromSeveral(ctx)
	if err != nil || lots != nil {
		return lots, nil, err
	}
	if len(problems) > 0 { // what is asked for by name can't be had
		return nil, problems, nil
	}
	if len(a.full) > 0 || len(hindered) == 0 {
		return nil, a.nothingLeft(), nil
	}
	return nil, hindered, nil
}

// mayDraw says whether a Service may be given anything of a pool that it has nothing of: the pool is asked for, or is for
// everybody.
func (b *Balance) mayDraw(pool *addresspool.Pool) bool {
	return pool.AutoAssigns() || b.Pool == pool.Name ||
		slices.ContainsFunc(b.Addresses, func(ip netip.Addr) bool { return gives(pool, b.Service, ip) })
}

// AwaitsFamily says whether a Service, which has lots, has no address of one of its families, and is to have one when one
// is free. Where no pool that may serve it has addresses of that family, none will ever be.
func AwaitsFamily(ctx context.Context, v LoadBalancerView, b *Balance, lots []loadbalancer.Lot) (bool, error) {
	if len(lots) == 0 || len(lots) >= len(b.Families) || lots[0].Pool.SourceOrDefault() != v1beta1.SourceAddresses {
		return false, nil
	}
	pools, problems, err := fitting(ctx, v, b)
	if err != nil || len(problems) > 0 {
		return false, err
	}
	missing := slices.DeleteFunc(slices.Clone(b.Families), func(family corev1.IPFamily) bool {
		return slices.ContainsFunc(lots, func(lot loadbalancer.Lot) bool { return addresspool.FamilyOf(lot.Address) == family })
	})
	return slices.ContainsFunc(pools, func(p *addresspool.Pool) bool {
		return (p.Name == lots[0].Pool.Name || b.mayDraw(p)) && hasFamily(p, missing)
	}), nil
}

// from tries to serve a Service from one pool alone. lots is nil if that can't be done; it is empty, and not nil, for the
// cluster IPs of a Service that has none yet.
func (a *allotment) from(ctx context.Context, pool *addresspool.Pool) (lots []loadbalancer.Lot, problems refusal.Problems, err error) {
	switch pool.SourceOrDefault() {
	case v1beta1.SourceNodeIP:
		lots = []loadbalancer.Lot{loadbalancer.NodeLot(pool, a.Ports)}
		if problems, err = a.hindrances(ctx, lots); err != nil || len(problems) > 0 {
			return nil, problems, err
		}
		return lots, nil, nil
	case v1beta1.SourceClusterIP:
		return a.fromClusterIP(ctx, pool)
	}
	for _, family := range a.wantedFamilies() {
		lot, problems, err := a.ofFamily(ctx, lots, pool, family)
		if err != nil || lot == nil {
			return nil, problems, err
		}
		lots = append(lots, *lot)
	}
	return lots, nil, nil
}

func (a *allotment) fromClusterIP(ctx context.Context, pool *addresspool.Pool) ([]loadbalancer.Lot, refusal.Problems, error) {
	lots := []loadbalancer.Lot{}
	for _, ip := range clusterIPs(a.Service) {
		lots = append(lots, loadbalancer.AddressLot(pool, ip, v1beta1.SharingNone, a.Ports))
	}
	problems, err := a.hindrances(ctx, lots)
	if err != nil || len(problems) > 0 {
		return nil, problems, err
	}
	return lots, nil, nil
}

// fromSeveral serves each family from the first pool that can. One address is enough for a Service that does not insist
// on one of each family.
func (a *allotment) fromSeveral(ctx context.Context) ([]loadbalancer.Lot, refusal.Problems, error) {
	var lots []loadbalancer.Lot
	for _, family := range a.wantedFamilies() {
		lot, problems, err := a.fromAny(ctx, lots, family, nil)
		switch {
		case err != nil || len(problems) > 0:
			return nil, problems, err
		case lot != nil:
			lots = append(lots, *lot)
		case a.EachFamily:
			return nil, nil, nil
		}
	}
	return lots, nil, nil
}

// wantedFamilies are the families that a Service is to have an address of. While the API server has not chosen them, it
// is those of the addresses that it asks for, or IPv4.
func (a *allotment) wantedFamilies() []corev1.IPFamily {
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
// what the Service is to have already. lot is nil when there is none; there are problems only with an address that is asked
// for.
func (a *allotment) fromAny(
	ctx context.Context, beside []loadbalancer.Lot, family corev1.IPFamily, preferred *addresspool.Pool,
) (lot *loadbalancer.Lot, problems refusal.Problems, err error) {
	pools := a.pools
	if preferred != nil {
		pools = append([]*addresspool.Pool{preferred}, pools...)
	}
	for _, pool := range pools {
		if pool.SourceOrDefault() != v1beta1.SourceAddresses || pool != preferred && !a.mayDraw(pool) {
			continue
		}
		lot, problems, err := a.ofFamily(ctx, beside, pool, family)
		if err != nil || lot != nil || len(problems) > 0 {
			return lot, problems, err
		}
	}
	return nil, nil, nil
}

// ofFamily finds an address of a family in a pool: the one that is asked for, or any. There are problems only with one
// that is asked for. beside is what the Service is to have already.
func (a *allotment) ofFamily(
	ctx context.Context, beside []loadbalancer.Lot, pool *addresspool.Pool, family corev1.IPFamily,
) (*loadbalancer.Lot, refusal.Problems, error) {
	sharing := pool.SharingOrDefault()
	if ip, asked := a.Address(family); asked {
		if !pool.Set.Contains(ip) {
			return nil, nil, nil
		}
		lot := loadbalancer.AddressLot(pool, ip, sharing, a.Ports)
		problems, err := a.hindrances(ctx, []loadbalancer.Lot{lot}, beside...)
		if err != nil || len(problems) > 0 {
			return nil, problems, err
		}
		return &lot, nil, nil
	}
	ip, free := a.view.FreeAddress(pool, family, a.pointsIn(pool))
	exists := free
	if !free { // limits are the same for any other, and nothing is to be waited for where they are reached
		ip, exists = pool.Set.FirstFree(family)
	}
	lot := loadbalancer.AddressLot(pool, ip, sharing, a.Ports)
	lot.Drawn = true
	if exists {
		problems, err := a.limits(ctx, beside, lot)
		if err != nil || len(problems) > 0 {
			a.limited = append(a.limited, problems...)
			return nil, nil, err
		}
	}
	if !free {
		a.isFull(pool, family)
		return nil, nil, nil
	}
	return &lot, nil, nil
}

// isFull notes that a pool has no address of a family left.
func (a *allotment) isFull(pool *addresspool.Pool, family corev1.IPFamily) {
	if !slices.Contains(a.full, pool) {
		a.full = append(a.full, pool)
	}
	if !slices.Contains(a.lacking, family) {
		a.lacking = append(a.lacking, family)
	}
}

// pointsIn are the points that a Service has to have of an address that a pool gives it anew.
func (b *Balance) pointsIn(pool *addresspool.Pool) func(netip.Addr) []claim.Coordinate {
	return func(ip netip.Addr) []claim.Coordinate {
		return loadbalancer.AddressLot(pool, ip, pool.SharingOrDefault(), b.Ports).Points
	}
}

// nothingLeft says why no pool has given anything. One that is full may have something later, and so is what counts.
func (a *allotment) nothingLeft() refusal.Problems {
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
	path, value := a.drawnBy()
	return refusal.One(v1beta1.ReasonNoFreeAddress, field.Invalid(path, value, text))
}

// drawnBy is the field that asks for any address, and its value.
func (b *Balance) drawnBy() (*field.Path, string) {
	if b.Pool != "" {
		return loadbalancer.PoolPath, b.Pool
	}
	return loadbalancer.TypePath, string(corev1.ServiceTypeLoadBalancer)
}
