package loadbalancers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/internal/rules"
)

// draws is how often another address is drawn, when the ledger says that the one that looked free is not.
const draws = 64

// errUnlucky says that every address that looked free was taken meanwhile.
var errUnlucky = errors.New("all addresses that looked free were taken meanwhile")

// allot decides what a Service is to have, and claims it: everything, or, with problems, nothing that it does not hold
// already.
func (r *loadBalancerReconciler) allot(ctx context.Context, b *rules.Balance) ([]loadbalancer.Lot, refusal.Problems, error) {
	var made []*v1beta1.EdgeClaim
	for range draws {
		lots, problems, err := r.draw(ctx, b)
		if err == nil && len(problems) == 0 {
			var taken claim.Coordinate
			made, taken, problems, err = r.claimLots(ctx, b, lots, made)
			r.undraw(lots, b.Held, taken)
			if err == nil && !taken.IsZero() {
				continue
			}
		}
		if err != nil || len(problems) > 0 {
			return nil, problems, errors.Join(err, r.unclaim(ctx, b, made))
		}
		return lots, nil, nil
	}
	return nil, nil, errors.Join(errUnlucky, r.unclaim(ctx, b, made))
}

// draw decides what a Service is to have. What is drawn looks taken from then on, so that no other worker draws it.
func (r *loadBalancerReconciler) draw(ctx context.Context, b *rules.Balance) ([]loadbalancer.Lot, refusal.Problems, error) {
	r.drawing.Lock()
	defer r.drawing.Unlock()
	lots, problems, err := rules.Allot(ctx, r.View, b, r.Ledger.GraceLeft)
	if err != nil || len(problems) > 0 {
		return nil, problems, err
	}
	for _, lot := range lots {
		if lot.Drawn {
			r.View.Addresses.Assume(lot.Points...) // it was free a moment ago, and if it is not now, the ledger will tell
		}
	}
	return lots, nil, nil
}

// undraw makes what was drawn, and is not held now, look free again, as a look that comes soon may need it. A point that
// somebody else has taken looks taken on: the cache may not show it yet, and it would be drawn again.
func (r *loadBalancerReconciler) undraw(lots []loadbalancer.Lot, held []claim.Coordinate, taken claim.Coordinate) {
	for _, lot := range lots {
		if !lot.Drawn { // what is asked for may be what another worker has drawn
			continue
		}
		for _, at := range lot.Missing(held) {
			if at != taken {
				r.View.Addresses.Forget(at)
			}
		}
	}
}

// claimLots claims what a Service does not hold yet, and adds it to made and to what it holds. taken is a point that was
// drawn, and that somebody else holds; then nothing of its lot is claimed.
func (r *loadBalancerReconciler) claimLots(
	ctx context.Context, b *rules.Balance, lots []loadbalancer.Lot, made []*v1beta1.EdgeClaim,
) (_ []*v1beta1.EdgeClaim, taken claim.Coordinate, problems refusal.Problems, err error) {
	by := claimantOf(b)
	for _, lot := range lots {
		before := len(made)
		for _, at := range lot.Missing(b.Held) {
			c, err := r.Ledger.Claim(ctx, by, nil, at)
			if held, ok := errors.AsType[*claim.HeldError](err); ok {
				if lot.Drawn {
					err := r.unclaim(ctx, b, made[before:])
					return made[:before], at, nil, err
				}
				kube.Conflicts.WithLabelValues(kube.FromReconciler).Inc()
				problems, err = rules.LoadBalancerConflict(ctx, r.View, b, lot, at, held.Claim, r.Ledger.GraceLeft(held.Claim))
				return made, claim.Coordinate{}, problems, err
			}
			if err != nil {
				return made, claim.Coordinate{}, nil, err
			}
			made = append(made, c)
			b.Held = append(b.Held, at)
			r.recent.add(by.Holder, at)
		}
	}
	return made, claim.Coordinate{}, nil, nil
}

// claimantOf is a stored Service that claims what it is to have.
func claimantOf(b *rules.Balance) claim.Claimant {
	return claim.Claimant{Holder: b.Holder(), UID: b.Service.UID, Generation: claim.Version(b.Service.ResourceVersion)}
}

// unclaim takes back claims that were made a moment ago and came to nothing. They were made for an object that is stored,
// so that no admission counts on them, unless it has renewed them: then they are not what is deleted.
func (r *loadBalancerReconciler) unclaim(ctx context.Context, b *rules.Balance, made []*v1beta1.EdgeClaim) error {
	var errs []error
	for _, c := range made {
		at, err := claim.Of(c)
		if err != nil || c.Spec.Renewed != nil {
			continue
		}
		b.Held = slices.DeleteFunc(b.Held, func(held claim.Coordinate) bool { return held == at })
		r.recent.remove(at)
		r.View.Addresses.Forget(at)
		if err := r.Ledger.Store.Delete(ctx, c); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("giving back %s: %w", at, err))
		}
	}
	return errors.Join(errs...)
}

// confirmed makes sure that a Service holds what its status is about to list. What the status does not list yet may have
// been released, and the cache lag behind.
func (r *loadBalancerReconciler) confirmed(ctx context.Context, o *outcome) (bool, error) {
	svc, by := o.balance.Service, claimantOf(o.balance)
	listed := loadbalancer.Listed(svc.Status.LoadBalancer.Ingress)
	for _, lot := range o.lots {
		for _, at := range lot.Points {
			isListed := rules.IsListed(o.balance.Held, at, listed) && loadbalancer.ListsPort(svc.Status.LoadBalancer.Ingress, at)
			if isListed || r.recent.has(by.Holder, at) {
				continue
			}
			if ok, err := r.Ledger.Confirm(ctx, by, at); err != nil || !ok {
				log.FromContext(ctx).V(1).Info("a claim is not what the cache shows", "claim", at.Name())
				return false, err
			}
		}
	}
	return true, nil
}

// adopt makes a Service that another controller has served ask for the addresses that it has.
func adopt(b *rules.Balance) refusal.Problems {
	var addresses []netip.Addr
	for _, ingress := range b.Service.Status.LoadBalancer.Ingress {
		ip, err := netip.ParseAddr(ingress.IP)
		if err != nil || slices.ContainsFunc(addresses, func(other netip.Addr) bool {
			return addresspool.FamilyOf(other) == addresspool.FamilyOf(ip)
		}) {
			return notOurs(b.Service)
		}
		addresses = append(addresses, ip.Unmap())
	}
	for _, ip := range b.Addresses {
		if !slices.Contains(addresses, ip) {
			return notOurs(b.Service)
		}
	}
	b.Addresses = addresses
	return nil
}

func notOurs(svc *corev1.Service) refusal.Problems {
	return refusal.Problems{{Reason: v1beta1.ReasonForeignLoadBalancer,
		Err: field.Invalid(loadbalancer.TypePath, string(svc.Spec.Type), "the addresses that it has are not one of each IP family")}}
}
