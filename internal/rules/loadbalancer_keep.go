package rules

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// Keep finds what a Service keeps of what it holds: what one of the pools gives it. Of several addresses of one family
// it keeps the one that its status lists, else one of which it holds everything.
func Keep(b *Balance, pools []*addresspool.Pool) []loadbalancer.Lot {
	best, ranks := map[corev1.IPFamily]loadbalancer.Lot{}, map[corev1.IPFamily]int{}
	listed := loadbalancer.Listed(b.Service.Status.LoadBalancer.Ingress)
	seen := sets.New[netip.Addr]() // an address is held by each of its ports
	for _, at := range b.Held {
		ip := at.Address()
		if !at.IsAddress() || seen.Has(ip) || !b.mayHave(ip) {
			continue
		}
		seen.Insert(ip)
		lot, ok := b.lotOf(ip, pools)
		if !ok {
			continue
		}
		family, rank := addresspool.FamilyOf(ip), b.rank(lot, listed)
		if other, known := ranks[family]; !known || rank < other {
			best[family], ranks[family] = lot, rank
		}
	}
	var lots []loadbalancer.Lot
	for _, family := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
		if lot, ok := best[family]; ok {
			lots = append(lots, lot)
		}
	}
	if len(lots) > 0 || !slices.ContainsFunc(b.Held, b.isOwnNodePort) {
		return lots
	}
	if lot, ok := b.lotOfNodes(pools); ok {
		return []loadbalancer.Lot{lot}
	}
	return nil
}

func (b *Balance) isOwnNodePort(at claim.Coordinate) bool {
	return at.IsNode() && b.HasPort(at.Protocol(), at.Port())
}

// mayHave says whether an address is one that the Service asks for, or would do as well.
func (b *Balance) mayHave(ip netip.Addr) bool {
	family := addresspool.FamilyOf(ip)
	if len(b.Families) > 0 && !slices.Contains(b.Families, family) {
		return false
	}
	asked, ok := b.Address(family)
	return !ok || asked == ip
}

// lotOf is a held address as one of the pools gives it. It stays what it was claimed as, all of it or only ports, also in
// a pool that would now give it otherwise.
func (b *Balance) lotOf(ip netip.Addr, pools []*addresspool.Pool) (loadbalancer.Lot, bool) {
	for _, pool := range pools {
		if !gives(pool, b.Service, ip) {
			continue
		}
		sharing := v1beta1.SharingPorts
		if slices.Contains(b.Held, claim.Address(ip)) {
			sharing = v1beta1.SharingNone
		}
		return loadbalancer.AddressLot(pool, ip, sharing, b.Ports), true
	}
	return loadbalancer.Lot{}, false
}

// lotOfNodes is the ports of the nodes as the first of the pools gives them that does.
func (b *Balance) lotOfNodes(pools []*addresspool.Pool) (loadbalancer.Lot, bool) {
	for _, pool := range pools {
		if pool.SourceOrDefault() == v1beta1.SourceNodeIP {
			return loadbalancer.NodeLot(pool, b.Ports), true
		}
	}
	return loadbalancer.Lot{}, false
}

// rank orders the lots that a Service could keep; the lowest is kept.
func (b *Balance) rank(lot loadbalancer.Lot, listed []netip.Addr) int {
	switch {
	case slices.Contains(listed, lot.Address):
		return 0
	case len(lot.Missing(b.Held)) == 0:
		return 1
	default:
		return 2
	}
}

// beyond refuses what a Service that is being deleted asks for beyond what it has, kept is what it keeps of that.
func (b *Balance) beyond(kept []loadbalancer.Lot) (problems refusal.Problems) {
	for _, lot := range kept {
		for i, at := range lot.Points {
			if !slices.Contains(b.Held, at) {
				problems = append(problems, refusal.BeingDeleted(loadbalancer.PortPath(i)))
			}
		}
	}
	if len(kept) == 0 && len(b.Held) > 0 {
		problems = append(problems, refusal.BeingDeleted(b.AddressesPath))
	}
	return problems
}

// Stands says what a Service has that may stay while what it asks for can't be had: the addresses that its status lists, it
// holds, and a pool would still give it. They are complete, that is each with all of its ports.
func Stands(ctx context.Context, v LoadBalancerView, b *Balance) ([]loadbalancer.Lot, error) {
	pools, err := Serving(ctx, v, b.Service)
	if err != nil {
		return nil, err
	}
	anything := *b
	anything.Ask = loadbalancer.Ask{Ports: b.Ports}
	listed := loadbalancer.Listed(b.Service.Status.LoadBalancer.Ingress)
	return slices.DeleteFunc(Keep(&anything, pools), func(lot loadbalancer.Lot) bool {
		return len(lot.Missing(b.Held)) > 0 ||
			lot.Address.IsValid() && !slices.Contains(listed, lot.Address) || len(listed) == 0
	}), nil
}

// Forwarded are the lots of what the status of a Service lists, with all ports that the Service is to have: kube-proxy
// forwards them there as soon as they are stored, also where the Service asks for something else by now, and waits for it.
// Problems are the ports that it can't have there. graceLeft says how long a claim is kept if its holder is gone.
func Forwarded(
	ctx context.Context, v LoadBalancerView, b *Balance, graceLeft func(*v1beta1.EdgeClaim) time.Duration,
) ([]loadbalancer.Lot, refusal.Problems, error) {
	pools, err := Serving(ctx, v, b.Service)
	if err != nil {
		return nil, nil, err
	}
	var lots []loadbalancer.Lot
	for _, ip := range loadbalancer.Listed(b.Service.Status.LoadBalancer.Ingress) {
		lot, ok := b.lotOf(ip, pools)
		if !ok && !slices.ContainsFunc(b.Held, func(at claim.Coordinate) bool { return at.Address() == ip }) {
			lot, ok = b.lotOfNodes(pools)
		}
		if !ok {
			return nil, notGivenAnyLonger(ip), nil
		}
		if !slices.ContainsFunc(lots, func(other loadbalancer.Lot) bool { return other.Address == lot.Address }) {
			lots = append(lots, lot)
		}
	}
	if b.Service.DeletionTimestamp != nil {
		return lots, b.beyond(lots), nil
	}
	problems, err := (&allotment{view: v, Balance: b, graceLeft: graceLeft}).hindrances(ctx, lots)
	return lots, problems, err
}

func notGivenAnyLonger(ip netip.Addr) refusal.Problems {
	return refusal.One(v1beta1.ReasonNoAddressPool, field.Forbidden(loadbalancer.PortsPath, fmt.Sprintf(
		"the Service is forwarded at %s, which no AddressPool gives it any longer; change its ports when its status no longer lists that", ip)))
}

// WantsPoint says whether a Service wants a point that it holds: its status lists it, whoever has written that, or a pool
// gives it what it asks for. A point that is listed is forwarded, so it is nobody else's before it is not.
func WantsPoint(ctx context.Context, v LoadBalancerView, b *Balance, at claim.Coordinate) (bool, error) {
	if Lists(b.Service, b.Held, at) {
		return true, nil
	}
	return AsksForPoint(ctx, v, b, at)
}

// AsksForPoint says whether a Service that is Portcullis' to serve asks for a point that it holds: a pool gives it to it as
// it is now, whatever its status lists. One that is being deleted asks for nothing.
func AsksForPoint(ctx context.Context, v LoadBalancerView, b *Balance, at claim.Coordinate) (bool, error) {
	if b.Service.DeletionTimestamp != nil || at.Port() != 0 && !b.HasPort(at.Protocol(), at.Port()) {
		return false, nil
	}
	pools, problems, err := fitting(ctx, v, b)
	if err != nil || len(problems) > 0 {
		return false, err
	}
	return slices.ContainsFunc(Keep(b, pools), func(lot loadbalancer.Lot) bool { return slices.Contains(lot.Points, at) }), nil
}

// Lists says whether the status of a Service lists a point: the address is there, or, for a port of the nodes, one that is
// nobody's claim; and the port is there, or one of the Service, as kube-proxy forwards all of those at each address.
func Lists(svc *corev1.Service, held []claim.Coordinate, at claim.Coordinate) bool {
	isPort := func(p corev1.ServicePort) bool {
		return v1beta1.Protocol(p.Protocol) == at.Protocol() && p.Port == at.Port()
	}
	return slices.ContainsFunc(svc.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) bool {
		one := []corev1.LoadBalancerIngress{i}
		return IsListed(held, at, loadbalancer.Listed(one)) &&
			(at.Port() == 0 || slices.ContainsFunc(svc.Spec.Ports, isPort) || loadbalancer.ListsPort(one, at))
	})
}

// IsListed says whether the addresses in a status need a point: its address is among them, or, for a port of the nodes, an
// address that is nobody's claim.
func IsListed(held []claim.Coordinate, at claim.Coordinate, listed []netip.Addr) bool {
	if at.IsAddress() {
		return slices.Contains(listed, at.Address())
	}
	return slices.ContainsFunc(listed, func(ip netip.Addr) bool {
		return !slices.ContainsFunc(held, func(other claim.Coordinate) bool { return other.Address() == ip })
	})
}

// Backs says whether something is held for each address in a status: on the address itself, or on ports of the nodes.
func Backs(held []claim.Coordinate, listed []netip.Addr) bool {
	if slices.ContainsFunc(held, claim.Coordinate.IsNode) {
		return true
	}
	return !slices.ContainsFunc(listed, func(ip netip.Addr) bool {
		return !slices.ContainsFunc(held, func(at claim.Coordinate) bool { return at.Address() == ip })
	})
}
