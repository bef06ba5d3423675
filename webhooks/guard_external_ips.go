package webhooks

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/allocator"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// externalIPsPath is where the API server asks about spec.externalIPs. What else Services ask for has the path of their kind.
const externalIPsPath = "/guard-external-ips"

// externalIPsGuard decides on the addresses that Services name in spec.externalIPs.
type externalIPsGuard struct{ listenerGuard }

// decide judges a new Service (before is nil) or the change of one, and claims the ports of the addresses that it comes to name.
func (v externalIPsGuard) decide(ctx context.Context, before, svc *corev1.Service) (d decision, err error) {
	if len(svc.Spec.ExternalIPs) == 0 {
		return d, nil
	}
	if err := ready(v.view); err != nil {
		return d, err
	}
	by := allocator.ExternalClaimant(svc)
	if before == nil {
		by.Generation = 0
		if err := isNew(ctx, v.view, svc, corev1.Resource("services")); err != nil {
			return d, err
		}
	} else {
		by.Generation = claim.AfterVersion(before.ResourceVersion)
	}
	points, err := kube.Decide(ctx, kube.LiveReader{View: v.view}, func(f *kube.Facts) (points []claim.Coordinate) {
		points, d.problems = allocator.External(f, before, svc, v.ledger.GraceLeft)
		return points
	})
	if err == nil && len(d.problems) == 0 && len(points) > 0 {
		d.problems, err = v.claim(ctx, svc, by, points)
	}
	if err == nil {
		counted(d.problems)
	}
	return d, err
}

// claim claims the points that a Service comes to have.
func (v externalIPsGuard) claim(
	ctx context.Context, svc *corev1.Service, by claim.Claimant, points []claim.Coordinate,
) (refusal.Problems, error) {
	held, _, err := reserveAll(ctx, v.ledger, v.asks(ctx, guard.ExternalIPs), by, nil, points)
	if err != nil || held == nil {
		return nil, err
	}
	problems, _ := conflictOf(ctx, v.view, held, v1beta1.ReasonAddressConflict, loadbalancer.ExternalIPsPath, held.At.Address().String(),
		func(f *kube.Facts) refusal.Problems {
			return allocator.ExternalConflict(f, svc, held.At, held.Claim, v.ledger.GraceLeft)
		})
	return problems, nil
}
