package webhooks

import (
	"context"
	"errors"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// pathDesk decides on the hosts and paths of Ingresses that others write, where no policy gives the host to one namespace.
type pathDesk struct {
	view   *kube.View
	ledger *claim.Ledger
}

// decide has the rules decide on what an Ingress (before is nil for a new one) asks for anew, and claims it; if it only asks, it finds out
// whether it could.
func (p pathDesk) decide(ctx context.Context, before, ing *networkingv1.Ingress, asks bool) (problems refusal.Problems, err error) {
	request := exposure.PathRequest{Ingress: ing, Before: before, IsOwned: func(host string) bool {
		return p.view.Hosts.Policies().Owner(host) != nil
	}}
	verdict, err := kube.Decide(ctx, p.view, func(f *kube.Facts) exposure.PathVerdict {
		return exposure.JudgePaths(f, request, p.ledger.GraceLeft)
	})
	if err != nil {
		return nil, err
	}
	if problems = verdict.Problems; len(problems) == 0 {
		problems, err = p.claim(ctx, request, verdict, asks)
	}
	if len(problems) > 0 {
		kube.Conflicts.WithLabelValues(kube.FromAdmission).Inc()
	}
	return problems, err
}

// claim claims what an Ingress has to have, and counts on the claims of others in its namespace at which it is served, too. Those that turn
// up only now may be of either kind.
func (p pathDesk) claim(
	ctx context.Context, r exposure.PathRequest, v exposure.PathVerdict, asks bool,
) (problems refusal.Problems, err error) {
	ing := r.Ingress
	by := claim.Claimant{Holder: claim.IngressHolder(ing.Namespace, ing.Name), UID: ing.UID, Generation: ing.Generation}
	if r.Before != nil && r.Before.Generation == by.Generation { // by an annotation, which no generation counts
		by.Generation++
	}
	points, beside := v.Points, v.Beside
	withdraw := func(context.Context) error { return nil }
	for len(points) > 0 {
		var taken func(context.Context) error
		if asks {
			err = p.ledger.Check(ctx, by, nil, points...)
		} else if taken, err = p.ledger.ReserveAll(ctx, by, points...); taken != nil {
			withdraw = taken
		}
		held, isHeld := errors.AsType[*claim.HeldError](err)
		if !isHeld {
			break
		}
		holder := claim.HolderOf(held.Claim)
		if holder.Tenant() != by.Namespace {
			return p.conflict(ctx, r, held)
		}
		beside = append(beside, claim.Entry{By: claim.Claimant{Holder: holder}, At: held.At})
		points = slices.DeleteFunc(slices.Clone(points), func(at claim.Coordinate) bool { return at == held.At })
		err = nil
	}
	if err != nil || asks {
		return nil, err
	}
	for _, e := range beside {
		held, err := p.countOn(ctx, e)
		if held != nil {
			problems, err = p.conflict(ctx, r, held)
		}
		if held != nil || err != nil {
			return problems, errors.Join(err, withdraw(ctx))
		}
	}
	return nil, nil
}

// countOn has a claim stay for as long as a request lives, whatever becomes of its holder: another Ingress of that one's namespace is about
// to be served there as well, and then the claim is that one's. held is that of another namespace, if it has the point by now.
func (p pathDesk) countOn(ctx context.Context, e claim.Entry) (held *claim.HeldError, err error) {
	const holders = 3 // that the point may have had one after the other
	by := e.By
	for range holders {
		err = p.ledger.Reserve(ctx, by, nil, e.At)
		found, isHeld := errors.AsType[*claim.HeldError](err)
		if !isHeld {
			return nil, err
		}
		if claim.HolderOf(found.Claim).Tenant() != by.Tenant() {
			return found, nil
		}
		by = claim.Claimant{Holder: claim.HolderOf(found.Claim)}
	}
	return nil, err
}

// conflict says that a point is held, which was found out as it was claimed.
func (p pathDesk) conflict(ctx context.Context, r exposure.PathRequest, held *claim.HeldError) (refusal.Problems, error) {
	problems, err := kube.Decide(ctx, p.view, func(f *kube.Facts) refusal.Problems {
		return exposure.PathConflict(f, r, held.At, held.Claim, p.ledger.GraceLeft(held.Claim))
	})
	if err != nil { // whatever it is, there is a conflict
		tell(log.FromContext(ctx), err)
		problems = refusal.One(v1beta1.ReasonHostConflict,
			refusal.Duplicate(field.NewPath("spec", "rules"), held.At.Point(), refusal.Held(held.Claim, false, 0)))
	}
	return problems, nil
}
