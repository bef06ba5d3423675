package loadbalancers

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/allocator"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/reconcilers/write"
)

// attempts is how often another address is auto-assigned, when the ledger says that the one that looked free is not.
const attempts = 64

// errUnlucky says that every address that looked free was taken meanwhile.
var errUnlucky = errors.New("all addresses that looked free were taken meanwhile")

// allocate decides what a Service is to have, and claims it: everything, or, with problems, nothing that it does not hold
// already. made are the claims that this look has made.
func (r *loadBalancerReconciler) allocate(
	ctx context.Context, s *allocator.Subject,
) (_ allocator.Decision, made []claim.Taken, _ error) {
	for range attempts {
		d, err := r.choose(ctx, s)
		if err == nil && len(d.Problems) == 0 {
			var taken claim.Coordinate
			made, taken, d.Problems, err = r.claimAllocations(ctx, s, d.Allocations, made)
			r.release(d.Allocations, s.Held, taken)
			if err == nil && !taken.IsZero() {
				continue
			}
		}
		if err != nil || len(d.Problems) > 0 {
			return allocator.Decision{Problems: d.Problems}, nil, errors.Join(err, r.withdraw(ctx, s, made))
		}
		return d, made, nil
	}
	return allocator.Decision{}, nil, errors.Join(errUnlucky, r.withdraw(ctx, s, made))
}

// choose decides what a Service is to have. What is auto-assigned looks taken from then on, so that no other worker chooses it.
func (r *loadBalancerReconciler) choose(ctx context.Context, s *allocator.Subject) (allocator.Decision, error) {
	r.choosing.Lock()
	defer r.choosing.Unlock()
	d, err := kube.Decide(ctx, r.View, func(f *kube.Facts) allocator.Decision { return allocator.Allocate(f, s, r.Ledger.GraceLeft) })
	if err != nil || len(d.Problems) > 0 {
		return allocator.Decision{Problems: d.Problems}, err
	}
	for _, a := range d.Allocations {
		if a.AutoAssigned {
			r.View.Addresses.Assume(a.Points...) // it was free a moment ago, and if it is not now, the ledger will tell
		}
	}
	return d, nil
}

// release makes what was auto-assigned, and is not held now, look free again, as a look that comes soon may need it. A point
// that somebody else has taken looks taken on: the cache may not show it yet, and it would be chosen again.
func (r *loadBalancerReconciler) release(allocations []allocator.Allocation, held []claim.Coordinate, taken claim.Coordinate) {
	for _, a := range allocations {
		if !a.AutoAssigned { // what is requested by name may be what another worker has chosen
			continue
		}
		for _, at := range a.Missing(held) {
			if at != taken {
				r.View.Addresses.Forget(at)
			}
		}
	}
}

// claimAllocations claims what a Service does not hold yet, and adds it to made and to what it holds. taken is a point that was
// auto-assigned, and that somebody else holds; then nothing of its allocation is claimed.
func (r *loadBalancerReconciler) claimAllocations(
	ctx context.Context, s *allocator.Subject, allocations []allocator.Allocation, made []claim.Taken,
) (_ []claim.Taken, taken claim.Coordinate, problems refusal.Problems, err error) {
	problems, err = r.mayClaim(ctx, s, allocations)
	if err != nil || len(problems) > 0 {
		return made, taken, problems, err
	}
	for _, a := range allocations {
		do := r.Ledger.ClaimEach // of what is asked for by name mayClaim has asked already
		if a.AutoAssigned {
			do = r.Ledger.ClaimAll
		}
		claims, err := r.claimWith(ctx, s, do, a.Missing(s.Held))
		if held, ok := errors.AsType[*claim.HeldError](err); ok {
			if a.AutoAssigned {
				return made, held.At, nil, r.withdraw(ctx, s, claims)
			}
			problems, err = r.conflict(ctx, s, a, held)
		}
		if made = append(made, claims...); err != nil || len(problems) > 0 {
			return made, taken, problems, err
		}
	}
	return made, taken, nil, nil
}

// mayClaim says why a Service can't have all that it asks for by name, before any of that is claimed: what others hand over of one address
// they are not to lose in vain, as it can't have the other.
func (r *loadBalancerReconciler) mayClaim(
	ctx context.Context, s *allocator.Subject, allocations []allocator.Allocation,
) (refusal.Problems, error) {
	var points []claim.Coordinate
	for _, a := range allocations {
		if !a.AutoAssigned {
			points = append(points, a.Missing(s.Held)...)
		}
	}
	err := r.Ledger.MayClaim(ctx, claimantOf(s), points...)
	held, ok := errors.AsType[*claim.HeldError](err)
	if !ok {
		return nil, err
	}
	i := slices.IndexFunc(allocations, func(a allocator.Allocation) bool { return slices.Contains(a.Points, held.At) })
	return r.conflict(ctx, s, allocations[i], held)
}

// conflict says that a point of an allocation is somebody else's, as the ledger has told.
func (r *loadBalancerReconciler) conflict(
	ctx context.Context, s *allocator.Subject, a allocator.Allocation, held *claim.HeldError,
) (refusal.Problems, error) {
	kube.Conflicts.WithLabelValues(kube.FromReconciler).Inc()
	return kube.Decide(ctx, r.View, func(f *kube.Facts) refusal.Problems {
		return allocator.Conflict(f, s, a, held.At, held.Claim, r.Ledger.GraceLeft(held.Claim))
	})
}

// claims claims some points for an object that is stored, as claim.Ledger does.
type claims func(ctx context.Context, by claim.Claimant, points ...claim.Coordinate) ([]claim.Taken, error)

// claimWith claims some points for a Service, and adds them to what it holds; with an error, what it has claimed before that.
func (r *loadBalancerReconciler) claimWith(
	ctx context.Context, s *allocator.Subject, do claims, points []claim.Coordinate,
) ([]claim.Taken, error) {
	made, err := do(ctx, claimantOf(s), points...)
	for _, taken := range made {
		if at, err := claim.Of(taken.EdgeClaim); err == nil {
			s.Held = append(s.Held, at)
		}
	}
	return made, err
}

// claimantOf is a stored Service that claims what it is to have.
func claimantOf(s *allocator.Subject) claim.Claimant {
	return claim.Claimant{Holder: s.Holder(), UID: s.Service.UID, Generation: claim.Version(s.Service.ResourceVersion)}
}

// withdraw takes back claims that were made a moment ago and came to nothing, and gives those that were handed over back to the giver. They
// were made for an object that is stored, so that no admission counts on them, unless it has renewed them: then they are not what is
// deleted.
func (r *loadBalancerReconciler) withdraw(ctx context.Context, s *allocator.Subject, made []claim.Taken) error {
	for _, taken := range made {
		at, err := claim.Of(taken.EdgeClaim)
		if err != nil || !taken.IsReturned() {
			continue
		}
		s.Held = slices.DeleteFunc(s.Held, func(held claim.Coordinate) bool { return held == at })
		r.View.Addresses.Forget(at)
	}
	return r.Ledger.Return(ctx, made...)
}

// unconfirmed is a point that the status of a Service is about to list, and that is not its, zero for none. What the status does not list
// yet may have been released, and the cache lag behind. What this very look has claimed, or found claimed already, needs no second one.
func (r *loadBalancerReconciler) unconfirmed(ctx context.Context, o *outcome) (claim.Coordinate, error) {
	svc, by := o.subject.Service, claimantOf(o.subject)
	listed := loadbalancer.Listed(svc.Status.LoadBalancer.Ingress)
	made := sets.New[string]()
	for _, c := range o.made {
		made.Insert(c.Name)
	}
	for _, a := range o.allocations {
		for _, at := range a.Points {
			isListed := loadbalancer.IsListed(o.subject.Held, at, listed) && loadbalancer.ListsPort(svc.Status.LoadBalancer.Ingress, at)
			if isListed || made.Has(at.Name()) {
				continue
			}
			if ok, err := r.Ledger.Confirm(ctx, by, at); err != nil || !ok {
				log.FromContext(ctx).V(1).Info("a claim is not what the cache shows", "claim", at.Name())
				return at, err
			}
		}
	}
	return claim.Coordinate{}, nil
}

// loses has a Service wait for a point that it was about to be listed with, and beside which somebody else has a claim, for as long as both
// stand. Where its own is gone, or is another's, only the cache lags behind.
func (r *loadBalancerReconciler) loses(ctx context.Context, svc *corev1.Service, o *outcome, at claim.Coordinate) error {
	by := claimantOf(o.subject)
	own, err := r.Ledger.Store.Get(ctx, at.Name())
	switch {
	case apierrors.IsNotFound(err), err == nil && claim.HolderOf(own) != by.Holder:
		return write.ErrStale
	case err != nil:
		return err
	}
	err = r.Ledger.CheckStored(ctx, by, at)
	held, ok := errors.AsType[*claim.HeldError](err)
	if !ok {
		return cmp.Or(err, write.ErrStale)
	}
	i := slices.IndexFunc(o.allocations, func(a allocator.Allocation) bool { return slices.Contains(a.Points, at) })
	if o.problems, err = r.conflict(ctx, o.subject, o.allocations[i], held); err != nil {
		return err
	}
	o.allocations, o.ingress, o.denied = nil, nil, at
	o.subject.Held = o.withoutDenied(o.subject.Held)
	return r.retain(ctx, svc, o)
}

// withoutDenied are some points without the one that the Service is denied though it has a claim on it.
func (o *outcome) withoutDenied(points []claim.Coordinate) []claim.Coordinate {
	return slices.DeleteFunc(slices.Clone(points), func(at claim.Coordinate) bool { return at == o.denied })
}

// adopt makes a Service that another controller has served request the addresses that it has.
func adopt(s *allocator.Subject) refusal.Problems {
	var addresses []netip.Addr
	for _, ingress := range s.Service.Status.LoadBalancer.Ingress {
		ip, err := netip.ParseAddr(ingress.IP)
		if err != nil || slices.ContainsFunc(addresses, func(other netip.Addr) bool {
			return addresspool.FamilyOf(other) == addresspool.FamilyOf(ip)
		}) {
			return notOurs(s.Service)
		}
		addresses = append(addresses, ip.Unmap())
	}
	for _, ip := range s.Addresses {
		if !slices.Contains(addresses, ip) {
			return notOurs(s.Service)
		}
	}
	s.Addresses = addresses
	return nil
}

func notOurs(svc *corev1.Service) refusal.Problems {
	return refusal.Problems{{Reason: v1beta1.ReasonForeignLoadBalancer,
		Err: field.Invalid(loadbalancer.TypePath, string(svc.Spec.Type), "the addresses that it has are not one of each IP family")}}
}
