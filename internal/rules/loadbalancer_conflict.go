package rules

import (
	"context"
	"fmt"
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

// hindrances are what keeps a Service from having lots beside others, as far as is known without asking the API server:
// limits, ports that are reserved, and points that others hold.
func (a *allotment) hindrances(ctx context.Context, lots []loadbalancer.Lot, beside ...loadbalancer.Lot) (refusal.Problems, error) {
	var problems refusal.Problems
	for n, lot := range lots {
		over, err := a.limits(ctx, slices.Concat(beside, lots[:n]), lot)
		if err != nil || len(over) > 0 {
			return over, err // its points, of which there may be thousands, don't matter then
		}
		for i, at := range lot.Points {
			if slices.Contains(a.Held, at) {
				continue
			}
			if at.IsNode() && a.view.ReservedNodePorts().Has(at.Port()) {
				text := fmt.Sprintf("the nodes reserve this port for themselves, and AddressPool %s would open it on all of them", lot.Pool.Name)
				err := field.Invalid(loadbalancer.PortPath(i), at.Port(), text)
				problems = append(problems, refusal.Problem{Reason: v1beta1.ReasonPortReserved, Err: err})
				continue
			}
			held, err := a.heldByOther(ctx, at)
			if err != nil {
				return nil, err
			}
			if held == nil {
				continue
			}
			problem, err := LoadBalancerConflict(ctx, a.view, a.Balance, lot, at, held, a.graceLeft(held))
			if err != nil {
				return nil, err
			}
			problems = append(problems, problem...)
		}
	}
	return problems, nil
}

// heldByOther finds a claim of somebody else that a point can't be had beside: on the point itself, on the whole address
// of a port, on any port of a whole address, or, for a port of the nodes, on that of a proxy there. Those of an address can meet
// where a pool was made anew.
func (a *allotment) heldByOther(ctx context.Context, at claim.Coordinate) (*v1beta1.EdgeClaim, error) {
	if at.IsNode() {
		held, err := HeldOnNodes(ctx, a.view, at)
		if err != nil || held == nil || claim.HolderOf(held) == a.Holder() {
			return nil, err
		}
		return held, nil
	}
	names := []claim.Coordinate{at}
	if at.IsAddress() && at.Port() != 0 {
		names = append(names, claim.Address(at.Address()))
	}
	for _, name := range names {
		held, err := a.view.Claim(ctx, name.Name())
		if err != nil || held != nil && claim.HolderOf(held) != a.Holder() {
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
	for _, held := range ports {
		if claim.HolderOf(held) != a.Holder() {
			return held, nil
		}
	}
	return nil, nil
}

// LoadBalancerConflict tells a Service that a point of a lot is held: by whom, since when, and what could be had instead.
// graceLeft is how long the ledger keeps the claim if its holder is gone.
func LoadBalancerConflict(
	ctx context.Context, v LoadBalancerView, b *Balance, lot loadbalancer.Lot, at claim.Coordinate, held *v1beta1.EdgeClaim,
	graceLeft time.Duration,
) (refusal.Problems, error) {
	leaving, err := isLeavingBalancer(ctx, v, claim.HolderOf(held))
	if err != nil {
		return nil, err
	}
	text := refusal.Held(held, leaving, graceLeft)
	if at.Port() == 0 {
		return refusal.One(v1beta1.ReasonAddressConflict, refusal.Duplicate(b.AddressesPath, at.Address().String(), text+b.instead(v, lot))), nil
	}
	path := loadbalancer.TypePath
	if i := slices.Index(lot.Points, at); i >= 0 {
		path = loadbalancer.PortPath(i)
	}
	where := fmt.Sprintf(" on all nodes of AddressPool %s; choose another port, or a pool with addresses", lot.Pool.Name)
	if on, err := claim.Of(held); err == nil && on.IsStream() {
		where = fmt.Sprintf(" on class %q, whose proxy listens", on.Class()) + where
	}
	if at.IsAddress() {
		where = fmt.Sprintf(" on %s of AddressPool %s; choose another port%s", at.Address(), lot.Pool.Name, b.instead(v, lot))
	}
	return refusal.One(v1beta1.ReasonPortConflict, refusal.Duplicate(path, at.Point(), text+where)), nil
}

// isLeavingBalancer says whether a Service that holds a point is gone, and no class names it, or is no load balancer any longer.
func isLeavingBalancer(ctx context.Context, v LoadBalancerView, holder claim.Holder) (bool, error) {
	if !holder.IsService() {
		return false, nil
	}
	svc, err := v.Service(ctx, holder.Key())
	if err != nil || svc != nil {
		return err == nil && svc.Spec.Type != corev1.ServiceTypeLoadBalancer, err
	}
	fronts, err := v.Fronts(ctx)
	return err == nil && !slices.Contains(fronts, holder.Key()), err
}

// instead names an address that is free. One that is not asked for can't be left out.
func (b *Balance) instead(v LoadBalancerView, lot loadbalancer.Lot) string {
	if lot.Pool.SourceOrDefault() != v1beta1.SourceAddresses {
		return ""
	}
	family := addresspool.FamilyOf(lot.Address)
	ip, ok := v.FreeAddress(lot.Pool, family, b.pointsIn(lot.Pool))
	if !ok {
		return fmt.Sprintf("; AddressPool %s has no other that is free", lot.Pool.Name)
	}
	text := fmt.Sprintf("; free in AddressPool %s is %s", lot.Pool.Name, ip)
	if _, asked := b.Address(family); asked {
		text += ", or leave the address out to be given one"
	}
	return text
}
