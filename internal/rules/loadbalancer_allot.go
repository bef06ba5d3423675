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
)

// allotment is a decision that is being made. Its pools are in the order of preference.
type allotment struct {
	*Balance
	view  LoadBalancerView
	pools []*addresspool.Pool
	// full are the pools that had no address left, and lacking the families of which they had none.
	full    []*addresspool.Pool
	lacking []corev1.IPFamily
}

// complete adds to what a Service keeps what is missing.
func (a *allotment) complete(ctx context.Context, kept []loadbalancer.Lot) ([]loadbalancer.Lot, Problems, error) {
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
		lot, problems, err := a.fromAny(ctx, family, kept[0].Pool)
		switch {
		case err != nil:
			return nil, nil, err
		case lot != nil:
			kept = append(kept, *lot)
		case a.EachFamily || len(problems) > 0 && problems[0].Reason != v1beta1.ReasonNoFreeAddress:
			return nil, problems, nil
		}
	}
	return kept, nil, nil
}

// choose finds a pool for a Service that has nothing yet.
func (a *allotment) choose(ctx context.Context) ([]loadbalancer.Lot, Problems, error) {
	drawable := slices.DeleteFunc(slices.Clone(a.pools), func(p *addresspool.Pool) bool { return !a.mayDraw(p) })
	if len(drawable) == 0 {
		problems, err := noPool(ctx, a.view, a.Balance)
		return nil, problems, err
	}
	var hindered Problems
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
	if len(a.full) > 0 {
		return nil, a.noFreeAddress(), nil
	}
	return nil, hindered, nil
}

// mayDraw says whether a Service may be given anything of a pool that it has nothing of: the pool is asked for, or is for
// everybody.
func (a *allotment) mayDraw(pool *addresspool.Pool) bool {
	return pool.AutoAssigns() || a.Pool == pool.Name ||
		slices.ContainsFunc(a.Addresses, func(ip netip.Addr) bool { return gives(pool, a.Service, ip) })
}

// from tries to serve a Service from one pool alone. lots is nil if that can't be done; it is empty, and not nil, for the
// cluster IPs of a Service that has none yet.
func (a *allotment) from(ctx context.Context, pool *addresspool.Pool) (lots []loadbalancer.Lot, problems Problems, err error) {
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
		lot, problems, err := a.ofFamily(ctx, pool, family)
		if err != nil || lot == nil {
			return nil, problems, err
		}
		lots = append(lots, *lot)
	}
	return lots, nil, nil
}

func (a *allotment) fromClusterIP(ctx context.Context, pool *addresspool.Pool) ([]loadbalancer.Lot, Problems, error) {
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
func (a *allotment) fromSeveral(ctx context.Context) ([]loadbalancer.Lot, Problems, error) {
	var lots []loadbalancer.Lot
	for _, family := range a.wantedFamilies() {
		lot, problems, err := a.fromAny(ctx, family, nil)
		switch {
		case err != nil:
			return nil, nil, err
		case lot != nil:
			lots = append(lots, *lot)
		case len(problems) > 0 && problems[0].Reason != v1beta1.ReasonNoFreeAddress:
			return nil, problems, nil
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

// fromAny finds an address of a family in the first pool that has one, beginning with the one that is preferred.
func (a *allotment) fromAny(ctx context.Context, family corev1.IPFamily, preferred *addresspool.Pool) (*loadbalancer.Lot, Problems, error) {
	pools := a.pools
	if preferred != nil {
		pools = append([]*addresspool.Pool{preferred}, pools...)
	}
	for _, pool := range pools {
		if pool.SourceOrDefault() != v1beta1.SourceAddresses || pool != preferred && !a.mayDraw(pool) {
			continue
		}
		lot, problems, err := a.ofFamily(ctx, pool, family)
		if err != nil || lot != nil || len(problems) > 0 {
			return lot, problems, err
		}
	}
	return nil, a.noFreeAddress(), nil
}

// ofFamily finds an address of a family in a pool: the one that is asked for, or any. There are problems only with one
// that is asked for.
func (a *allotment) ofFamily(ctx context.Context, pool *addresspool.Pool, family corev1.IPFamily) (*loadbalancer.Lot, Problems, error) {
	sharing := pool.SharingOrDefault()
	if ip, asked := a.Address(family); asked {
		if !pool.Set.Contains(ip) {
			return nil, nil, nil
		}
		lot := loadbalancer.AddressLot(pool, ip, sharing, a.Ports)
		problems, err := a.hindrances(ctx, []loadbalancer.Lot{lot})
		if err != nil || len(problems) > 0 {
			return nil, problems, err
		}
		return &lot, nil, nil
	}
	ip, ok := a.view.FreeAddress(pool, family, a.pointsIn(pool))
	if !ok {
		if !slices.Contains(a.full, pool) {
			a.full = append(a.full, pool)
		}
		if !slices.Contains(a.lacking, family) {
			a.lacking = append(a.lacking, family)
		}
		return nil, nil, nil
	}
	lot := loadbalancer.AddressLot(pool, ip, sharing, a.Ports)
	lot.Drawn = true
	return &lot, nil, nil
}

// pointsIn are the points that a Service has to have of an address that a pool gives it anew.
func (b *Balance) pointsIn(pool *addresspool.Pool) func(netip.Addr) []claim.Coordinate {
	return func(ip netip.Addr) []claim.Coordinate {
		return loadbalancer.AddressLot(pool, ip, pool.SharingOrDefault(), b.Ports).Points
	}
}

func (a *allotment) noFreeAddress() Problems {
	pools, lacking := a.full, a.lacking
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
	path, value := loadbalancer.TypePath, string(corev1.ServiceTypeLoadBalancer)
	if a.Pool != "" {
		path, value = loadbalancer.PoolPath, a.Pool
	}
	return one(v1beta1.ReasonNoFreeAddress, field.Invalid(path, value, text))
}

// hindrances are what keeps a Service from having lots, as far as is known without asking the API server: ports that are
// reserved, and points that others hold.
func (a *allotment) hindrances(ctx context.Context, lots []loadbalancer.Lot) (Problems, error) {
	var problems Problems
	for _, lot := range lots {
		for i, at := range lot.Points {
			if slices.Contains(a.Held, at) {
				continue
			}
			if at.IsNode() && a.view.ReservedNodePorts().Has(at.Port()) {
				text := fmt.Sprintf("the nodes reserve this port for themselves, and AddressPool %s would open it on all of them", lot.Pool.Name)
				err := field.Invalid(loadbalancer.PortPath(i), at.Port(), text)
				problems = append(problems, Problem{Reason: v1beta1.ReasonPortReserved, Err: err})
				continue
			}
			held, err := a.heldByOther(ctx, at)
			if err != nil {
				return nil, err
			}
			if held == nil {
				continue
			}
			problem, err := LoadBalancerConflict(ctx, a.view, a.Balance, lot, at, held, 0)
			if err != nil {
				return nil, err
			}
			problems = append(problems, problem...)
		}
	}
	return problems, nil
}

// heldByOther finds a claim of somebody else that a point can't be had beside: on the point itself, on the whole address
// of a port, or on any port of a whole address. The latter two can meet where a pool was made anew.
func (a *allotment) heldByOther(ctx context.Context, at claim.Coordinate) (*v1beta1.EdgeClaim, error) {
	names := []claim.Coordinate{at}
	if at.IsAddress() && at.Port() != 0 {
		names = append(names, claim.Address(at.Address()))
	}
	for _, name := range names {
		held, err := a.view.Claim(ctx, name.Name())
		if err != nil || held != nil && claim.HolderOf(held) != a.holder() {
			return held, err
		}
	}
	if !at.IsAddress() || at.Port() != 0 {
		return nil, nil
	}
	ports, err := a.view.ClaimedPorts(ctx, at.Address())
	if err != nil {
		return nil, err
	}
	for i := range ports {
		if claim.HolderOf(&ports[i]) != a.holder() {
			return &ports[i], nil
		}
	}
	return nil, nil
}

// LoadBalancerConflict tells a Service that a point of a lot is held: by whom, since when, and what could be had instead.
// graceLeft is how long the ledger keeps the claim if its holder is gone.
func LoadBalancerConflict(
	ctx context.Context, v LoadBalancerView, b *Balance, lot loadbalancer.Lot, at claim.Coordinate, held *v1beta1.EdgeClaim,
	graceLeft time.Duration,
) (Problems, error) {
	holder := claim.HolderOf(held)
	text := "held by " + holder.String() + sinceCreated(held)
	svc, err := v.Service(ctx, holder.Key())
	if err != nil {
		return nil, err
	}
	if svc == nil || svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		text = fmt.Sprintf("held for %s, which is not stored or no longer asks for it; it is free again %s, try again then",
			holder, soon(graceLeft))
	}
	if at.Port() == 0 {
		return one(v1beta1.ReasonAddressConflict, duplicate(b.AddressesPath, at.Address().String(), text+b.instead(v, lot))), nil
	}
	path := loadbalancer.TypePath
	if i := slices.Index(lot.Points, at); i >= 0 {
		path = loadbalancer.PortPath(i)
	}
	where := fmt.Sprintf(" on all nodes of AddressPool %s; choose another port, or a pool with addresses", lot.Pool.Name)
	if at.IsAddress() {
		where = fmt.Sprintf(" on %s of AddressPool %s; choose another port%s", at.Address(), lot.Pool.Name, b.instead(v, lot))
	}
	return one(v1beta1.ReasonPortConflict, duplicate(path, at.Point(), text+where)), nil
}

// instead names an address that is free.
func (b *Balance) instead(v LoadBalancerView, lot loadbalancer.Lot) string {
	if lot.Pool.SourceOrDefault() != v1beta1.SourceAddresses {
		return ""
	}
	ip, ok := v.FreeAddress(lot.Pool, addresspool.FamilyOf(lot.Address), b.pointsIn(lot.Pool))
	if !ok {
		return fmt.Sprintf("; AddressPool %s has no other that is free", lot.Pool.Name)
	}
	return fmt.Sprintf("; free in AddressPool %s is %s, or leave the address out to be given one", lot.Pool.Name, ip)
}

func duplicate(path *field.Path, value, detail string) *field.Error {
	return &field.Error{Type: field.ErrorTypeDuplicate, Field: path.String(), BadValue: value, Detail: detail}
}

// IsPending says whether problems are such as time may solve: a Service may wait for a pool, an address or a node.
func (p Problems) IsPending() bool {
	return !slices.ContainsFunc(p, func(problem Problem) bool {
		return problem.Reason != v1beta1.ReasonNoAddressPool && problem.Reason != v1beta1.ReasonNoFreeAddress &&
			problem.Reason != v1beta1.ReasonNoReadyNode
	})
}

// Ports are those of the ports of a Service that problems are about, with the reason of each.
func (p Problems) Ports(ports []loadbalancer.Port) map[loadbalancer.Port]string {
	refused := map[loadbalancer.Port]string{}
	for i, port := range ports {
		path := loadbalancer.PortPath(i).String()
		for _, problem := range p {
			if problem.Err.Field == path {
				refused[port] = problem.Reason
			}
		}
	}
	return refused
}

// AsksForAddresses is what a Service of type LoadBalancer asks for.
func AsksForAddresses(svc *corev1.Service) (loadbalancer.Ask, Problems) {
	ask, errs := loadbalancer.Read(svc)
	problems := make(Problems, 0, len(errs))
	for _, err := range errs {
		problems = append(problems, Problem{Reason: v1beta1.ReasonInvalidRequest, Err: err})
	}
	return ask, problems
}
