package lint

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/allocator"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
)

// settle does what reconcilers do for an object that was stored, as far as later decisions depend on it: a stream has its class and its port
// from then on, and what leaves the choice of an address to Portcullis has one.
func (l *Linter) settle(ctx context.Context, obj client.Object) error {
	switch o := obj.(type) {
	case *v1beta1.StreamIngress:
		return l.settleStream(ctx, o)
	case *v1beta1.StreamIngressClass:
		return l.settleClass(ctx, o)
	case *corev1.Service:
		return l.settleService(ctx, o)
	}
	return nil
}

func (l *Linter) settleStream(ctx context.Context, s *v1beta1.StreamIngress) error {
	held, err := l.view.Claims.Held(ctx, claim.StreamHolder(s.Namespace, s.Name))
	if err != nil || len(held) != 1 || s.Status.ClassName != "" {
		return err
	}
	s.Status.ClassName, s.Status.Listen = held[0].Class(), held[0].Port()
	return l.objects.put(s)
}

func (l *Linter) settleClass(ctx context.Context, class *v1beta1.StreamIngressClass) error {
	if class.Spec.AddressPool == nil {
		return nil
	}
	d, err := kube.Decide(ctx, l.view, func(f *kube.Facts) allocator.Decision {
		return allocator.ForClass(f, class, l.ledger.GraceLeft)
	})
	if err != nil || len(d.Problems) > 0 {
		return err
	}
	by := claim.Claimant{Holder: claim.ClassHolder(class.Name), UID: class.UID, Generation: class.Generation}
	return l.claim(ctx, by, d.Allocations)
}

func (l *Linter) settleService(ctx context.Context, svc *corev1.Service) error {
	if !l.view.LoadBalancers.IsOurs(svc) {
		return nil
	}
	request, problems := loadbalancer.RequestOf(svc)
	if len(problems) > 0 {
		return nil
	}
	s := &allocator.Subject{Service: svc, Request: request}
	held, err := l.view.Claims.Held(ctx, s.Holder())
	if err != nil {
		return err
	}
	s.Held = loadbalancer.Own(held)
	d, err := kube.Decide(ctx, l.view, func(f *kube.Facts) allocator.Decision { return allocator.Allocate(f, s, l.ledger.GraceLeft) })
	if err != nil || len(d.Problems) > 0 {
		return err
	}
	by := claim.Claimant{Holder: s.Holder(), UID: svc.UID, Generation: claim.Version(svc.ResourceVersion)}
	return l.claim(ctx, by, d.Allocations)
}

// claim claims what somebody is given.
func (l *Linter) claim(ctx context.Context, by claim.Claimant, allocations []allocator.Allocation) error {
	for _, a := range allocations {
		for _, at := range a.Points {
			if _, err := l.ledger.Claim(ctx, by, nil, at); claim.IgnoreHeld(err) != nil {
				return err
			}
		}
	}
	return nil
}
