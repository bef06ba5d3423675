package webhooks

import (
	"context"

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
// whether it could. withdraw takes back what was claimed, for an object that is refused for something else.
func (p pathDesk) decide(
	ctx context.Context, before, ing *networkingv1.Ingress, asks bool,
) (problems refusal.Problems, withdraw func(context.Context) error, err error) {
	request := exposure.PathRequest{Ingress: ing, Before: before, IsOwned: func(host string) bool {
		return p.view.Hosts.Policies().Owner(host) != nil
	}}
	verdict, err := kube.Decide(ctx, kube.LiveReader{View: p.view}, func(f *kube.Facts) exposure.PathVerdict {
		return exposure.JudgePaths(f, request, p.ledger.GraceLeft)
	})
	if err != nil {
		return nil, nothing, err
	}
	withdraw = nothing
	if problems = verdict.Problems; len(problems) == 0 && len(verdict.Points) > 0 {
		problems, withdraw, err = p.claim(ctx, request, verdict.Points, asks)
	}
	return counted(problems), withdraw, err
}

// claim claims points for an Ingress, or relies on the claims of others of its namespace.
func (p pathDesk) claim(
	ctx context.Context, r exposure.PathRequest, points []claim.Coordinate, asks bool,
) (problems refusal.Problems, withdraw func(context.Context) error, err error) {
	ing := r.Ingress
	by := claim.Claimant{Holder: claim.IngressHolder(ing.Namespace, ing.Name), UID: ing.UID, Generation: ing.Generation}
	if r.Before != nil && r.Before.Generation == ing.Generation {
		by.Generation++ // a change of its class by annotation, which no generation tells: only time settles the claims
	}
	held, withdraw, err := reserveAll(ctx, p.ledger, asks, by, r.Beside, points)
	if held == nil {
		return nil, withdraw, err
	}
	return pathConflict(ctx, p.view, held, func(f *kube.Facts) refusal.Problems {
		return exposure.PathConflict(f, r, held.At, held.Claim, p.ledger.GraceLeft(held.Claim))
	}), withdraw, nil
}

// pathConflict says that a path is held, which was found out as it was claimed.
func pathConflict(
	ctx context.Context, view *kube.View, held *claim.HeldError, rule func(*kube.Facts) refusal.Problems,
) refusal.Problems {
	problems, err := conflictOf(ctx, view, held, v1beta1.ReasonHostConflict, field.NewPath("spec", "rules"), held.At.Point(), rule)
	if err != nil { // whatever it is, there is a conflict
		tell(log.FromContext(ctx), err)
	}
	return problems
}
