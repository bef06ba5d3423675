package webhooks

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/allocator"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// loadBalancerDecision is what was decided about the addresses that a Service is to have.
type loadBalancerDecision struct {
	decision
	subject allocator.Subject
	by      claim.Claimant
	// allocations are what it is to have; the reconciler chooses those that are auto-assigned.
	allocations []allocator.Allocation
}

// judgeLoadBalancer judges what a Service requests as a load balancer: a new one (before is nil), or a change of what it
// requests. Nothing is claimed yet. The result is nil where there is nothing to judge.
func (v *serviceValidator) judgeLoadBalancer(ctx context.Context, before, svc *corev1.Service) (*loadBalancerDecision, error) {
	if !v.view.LoadBalancers.IsOurs(svc) || before != nil && v.view.LoadBalancers.IsOurs(before) && !requestChanged(before, svc) {
		return nil, nil
	}
	if err := ready(v.view); err != nil {
		return nil, err
	}
	j := &loadBalancerDecision{by: claim.Claimant{Holder: claim.ServiceHolder(svc.Namespace, svc.Name), UID: svc.UID}}
	request, problems := loadbalancer.RequestOf(svc)
	if len(problems) > 0 {
		j.problems = problems
		return j, nil
	}
	j.subject = allocator.Subject{Service: svc, Request: request}
	if before != nil {
		j.by.Generation = claim.AfterVersion(before.ResourceVersion)
	}
	var err error
	j.subject.Held, err = kube.Decide(ctx, v.view, func(f *kube.Facts) []claim.Coordinate { return heldBy(f, before, j.by.Holder) })
	if err != nil {
		return nil, err
	}
	others, err := v.isAnothers(ctx, j)
	if err != nil || others {
		return nil, err
	}
	d, err := kube.Decide(ctx, kube.LiveReader{View: v.view}, func(f *kube.Facts) allocator.Decision {
		return allocator.Judge(f, &j.subject, v.ledger.GraceLeft)
	})
	if err != nil {
		return nil, err
	}
	j.allocations = d.Allocations
	if loadbalancer.IsPending(d.Problems) {
		j.warnings = waits(d.Problems)
	} else {
		j.problems = counted(d.Problems)
	}
	if before == nil || len(j.problems) > 0 || !isForwarded(before, svc) {
		return j, nil
	}
	return j, v.judgeForwarded(ctx, j)
}

// heldBy is what a Service has already: a stored one, or one that a class names, which keeps it while it does not exist. Of a new
// one otherwise, what an earlier one of its name has is about to be released.
func heldBy(f *kube.Facts, before *corev1.Service, by claim.Holder) []claim.Coordinate {
	if before == nil && !slices.Contains(f.Fronts(), by.Key()) {
		return nil
	}
	return loadbalancer.Own(f.Held(by))
}

// judgeForwarded judges ports that are forwarded as soon as they are stored, at addresses that the Service has, and may
// no longer request.
func (v *serviceValidator) judgeForwarded(ctx context.Context, j *loadBalancerDecision) error {
	d, err := kube.Decide(ctx, kube.LiveReader{View: v.view}, func(f *kube.Facts) allocator.Decision {
		return allocator.Forwarded(f, &j.subject, v.ledger.GraceLeft)
	})
	j.problems = counted(d.Problems)
	for _, forwarded := range d.Allocations {
		if !slices.ContainsFunc(j.allocations, func(a allocator.Allocation) bool { return !a.AutoAssigned && a.Address == forwarded.Address }) {
			j.allocations = append(j.allocations, forwarded)
		}
	}
	return err
}

// isAnothers says whether another controller serves a Service without a class: it has addresses, and no claim, and not from Portcullis. A
// claim that the cache does not show yet is looked for live, or else its ports could be changed at once to any.
func (v *serviceValidator) isAnothers(ctx context.Context, j *loadBalancerDecision) (_ bool, err error) {
	svc := j.subject.Service
	if svc.Spec.LoadBalancerClass != nil || len(j.subject.Held) > 0 || !loadbalancer.IsAddressed(svc.Status.LoadBalancer.Ingress) {
		return false, nil
	}
	held, err := v.view.Claims.HeldLive(ctx, j.by.Holder)
	if j.subject.Held = loadbalancer.Own(held); err != nil || len(j.subject.Held) > 0 {
		return false, err
	}
	ours, err := kube.Decide(ctx, v.view, func(f *kube.Facts) bool { return allocator.IsServed(f, svc) })
	return !ours, err
}

// requestChanged says whether a change of a Service concerns what it requests as a load balancer.
func requestChanged(before, svc *corev1.Service) bool {
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

// reserve claims what a Service is to have and does not hold yet. What is auto-assigned is left to the reconciler: any will
// do.
func (v *serviceValidator) reserve(ctx context.Context, before *corev1.Service, j *loadBalancerDecision) (refusal.Problems, error) {
	of := map[claim.Coordinate]allocator.Allocation{} // that each of the points is of
	var points []claim.Coordinate
	for _, a := range j.allocations {
		if a.AutoAssigned {
			continue
		}
		for _, at := range a.Points {
			points, of[at] = append(points, at), a
		}
	}
	stays, err := kube.Decide(ctx, v.view, func(f *kube.Facts) map[claim.Coordinate]bool { return v.staying(f, before, j, of) })
	if err != nil {
		return nil, err
	}
	points = slices.DeleteFunc(points, func(at claim.Coordinate) bool { return stays[at] })
	err = reserving(ctx, v.ledger)(ctx, j.by, nil, points...)
	if held, ok := errors.AsType[*claim.HeldError](err); ok {
		problems, err := kube.Decide(ctx, v.view, func(f *kube.Facts) refusal.Problems {
			return allocator.Conflict(f, &j.subject, of[held.At], held.At, held.Claim, v.ledger.GraceLeft(held.Claim))
		})
		return counted(problems), err
	}
	return nil, err
}

// staying are those of some points that a stored Service, nil for none, holds and wants, so that nobody releases them. One that is
// being deleted wants what its status lists.
func (v *serviceValidator) staying(
	f *kube.Facts, stored *corev1.Service, j *loadBalancerDecision, of map[claim.Coordinate]allocator.Allocation,
) map[claim.Coordinate]bool {
	if stored == nil || !v.view.LoadBalancers.IsOurs(stored) {
		return nil
	}
	request, problems := loadbalancer.RequestOf(stored)
	subject := &allocator.Subject{Service: stored, Request: request, Held: j.subject.Held}
	stays := map[claim.Coordinate]bool{}
	for _, at := range subject.Held {
		if _, asked := of[at]; !asked {
			continue
		}
		if stored.DeletionTimestamp != nil {
			stays[at] = loadbalancer.Lists(stored, subject.Held, at)
		} else {
			stays[at] = len(problems) == 0 && allocator.AsksForPoint(f, subject, at)
		}
	}
	return stays
}
