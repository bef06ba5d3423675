package webhooks

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/internal/rules"
)

// balancing is what was found out about the addresses that a Service is to have.
type balancing struct {
	decision
	balance rules.Balance
	by      claim.Claimant
	// lots are what it is to have; the reconciler chooses those that are drawn.
	lots []loadbalancer.Lot
}

// judgeBalancing judges what a Service asks for as a load balancer: a new one (before is nil), or a change of what it asks
// for. Nothing is claimed yet. The result is nil where there is nothing to judge.
func (v *serviceValidator) judgeBalancing(ctx context.Context, before, svc *corev1.Service) (*balancing, error) {
	if !v.view.Balances(svc) || before != nil && v.view.Balances(before) && !asksForOther(before, svc) {
		return nil, nil
	}
	if err := ready(v.view); err != nil {
		return nil, err
	}
	j := &balancing{by: claim.Claimant{Holder: claim.ServiceHolder(svc.Namespace, svc.Name), UID: svc.UID}}
	ask, problems := rules.AsksForAddresses(svc)
	if len(problems) > 0 {
		j.problems = problems
		return j, nil
	}
	j.balance = rules.Balance{Service: svc, Ask: ask}
	if before != nil {
		j.by.Generation = claim.AfterVersion(before.ResourceVersion)
	}
	var err error
	if j.balance.Held, err = v.heldBy(ctx, before, j.by.Holder); err != nil {
		return nil, err
	}
	others, err := v.isAnothers(ctx, j)
	if err != nil || others {
		return nil, err
	}
	j.lots, problems, err = rules.Allot(ctx, kube.Fresh{View: v.view}, &j.balance, v.ledger.GraceLeft)
	if err != nil {
		return nil, err
	}
	if rules.IsPending(problems) {
		j.warnings = waits(problems)
	} else {
		j.problems = v.conflicts(problems)
	}
	if before == nil || len(j.problems) > 0 || !isForwarded(before, svc) {
		return j, nil
	}
	return j, v.judgeForwarded(ctx, j)
}

// heldBy is what a Service has already: a stored one, or one that a class names, which keeps it while it does not exist. Of a new
// one otherwise, what an earlier one of its name has is about to be released.
func (v *serviceValidator) heldBy(ctx context.Context, before *corev1.Service, by claim.Holder) ([]claim.Coordinate, error) {
	if before == nil {
		fronts, err := v.view.Fronts(ctx)
		if err != nil || !slices.Contains(fronts, by.Key()) {
			return nil, err
		}
	}
	held, err := v.view.Held(ctx, by)
	return loadbalancer.Own(held), err
}

// judgeForwarded judges ports that are forwarded as soon as they are stored, at addresses that the Service has, and may
// no longer ask for.
func (v *serviceValidator) judgeForwarded(ctx context.Context, j *balancing) error {
	lots, problems, err := rules.Forwarded(ctx, kube.Fresh{View: v.view}, &j.balance, v.ledger.GraceLeft)
	j.problems = v.conflicts(problems)
	for _, lot := range lots {
		if !slices.ContainsFunc(j.lots, func(other loadbalancer.Lot) bool { return !other.Drawn && other.Address == lot.Address }) {
			j.lots = append(j.lots, lot)
		}
	}
	return err
}

// isAnothers says whether another controller serves a Service without a class: it has addresses, and no claim. A claim that the
// cache does not show yet is looked for live, or else its ports could be changed at once to any.
func (v *serviceValidator) isAnothers(ctx context.Context, j *balancing) (_ bool, err error) {
	svc := j.balance.Service
	if svc.Spec.LoadBalancerClass != nil || len(j.balance.Held) > 0 || !loadbalancer.IsAddressed(svc.Status.LoadBalancer.Ingress) {
		return false, nil
	}
	held, err := v.view.HeldLive(ctx, j.by.Holder)
	j.balance.Held = loadbalancer.Own(held)
	return len(j.balance.Held) == 0, err
}

// asksForOther says whether a change of a Service concerns what it asks for as a load balancer.
func asksForOther(before, svc *corev1.Service) bool {
	was, _ := loadbalancer.Read(before)
	is, _ := loadbalancer.Read(svc)
	return !equality.Semantic.DeepEqual(was.Ports, is.Ports) || !slices.Equal(was.Families, is.Families) || was.EachFamily != is.EachFamily ||
		before.Spec.LoadBalancerIP != svc.Spec.LoadBalancerIP || slices.ContainsFunc(
		[]string{v1beta1.AnnotationAddressPool, v1beta1.AnnotationAddresses, v1beta1.AnnotationSharing},
		func(name string) bool {
			old, had := before.Annotations[name]
			value, has := svc.Annotations[name]
			return old != value || had != has
		})
}

// waits are the warnings for a Service that has to wait for its addresses.
func waits(problems refusal.Problems) admission.Warnings {
	warnings := make(admission.Warnings, 0, len(problems))
	for _, p := range problems {
		warnings = append(warnings, p.Err.Detail+"; the Service waits until that has changed")
	}
	return warnings
}

// promiseLots claims what a Service is to have and does not hold yet. What is drawn is left to the reconciler: any will
// do.
func (v *serviceValidator) promiseLots(ctx context.Context, before *corev1.Service, j *balancing) (refusal.Problems, error) {
	var points []claim.Coordinate
	var lots []loadbalancer.Lot // of each of the points
	for _, lot := range j.lots {
		if lot.Drawn {
			continue
		}
		for _, at := range lot.Points {
			stays, err := v.stays(ctx, before, j.balance.Held, at)
			if err != nil {
				return nil, err
			}
			if !stays {
				points, lots = append(points, at), append(lots, lot)
			}
		}
	}
	err := reserving(ctx, v.ledger)(ctx, j.by, nil, points...)
	if held, ok := errors.AsType[*claim.HeldError](err); ok {
		lot := lots[slices.Index(points, held.At)]
		problems, err := rules.LoadBalancerConflict(ctx, v.view, &j.balance, lot, held.At, held.Claim, v.ledger.GraceLeft(held.Claim))
		return v.conflicts(problems), err
	}
	return nil, err
}

// stays says whether a stored Service, nil for none, holds a point and wants it, so that nobody releases it. One that is being
// deleted wants what its status lists.
func (v *serviceValidator) stays(
	ctx context.Context, stored *corev1.Service, held []claim.Coordinate, at claim.Coordinate,
) (bool, error) {
	if stored == nil || !v.view.Balances(stored) || !slices.Contains(held, at) {
		return false, nil
	}
	if stored.DeletionTimestamp != nil {
		return rules.Lists(stored, held, at), nil
	}
	ask, problems := rules.AsksForAddresses(stored)
	if len(problems) > 0 {
		return false, nil
	}
	return rules.AsksForPoint(ctx, v.view, &rules.Balance{Service: stored, Ask: ask, Held: held}, at)
}
