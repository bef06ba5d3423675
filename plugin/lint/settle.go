package lint

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/allocator"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// settle does what reconcilers do for an object that was stored, as far as later decisions depend on it: a stream has its class and its
// port from then on, what leaves the choice of an address to Portcullis has one, and what is no longer asked for is released.
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
	by := claim.StreamHolder(s.Namespace, s.Name)
	held, err := l.view.Claims.Held(ctx, by)
	if err != nil {
		return err
	}
	var wanted claim.Coordinate
	_, err = kube.Decide(ctx, l.view, func(f *kube.Facts) bool {
		class, problems := stream.ClassOf(f, s)
		if len(problems) == 0 {
			wanted = stream.Wanted(s, class.Name, held)
		}
		return true
	})
	if err != nil || wanted.IsZero() {
		return err
	}
	if !slices.Contains(held, wanted) { // as it was only warned of, or is yet to be handed over; a door of another class stays until it is
		return l.release(ctx, by, func(at claim.Coordinate) bool { return at.Class() != wanted.Class() })
	}
	if err := l.release(ctx, by, func(at claim.Coordinate) bool { return at == wanted }); err != nil {
		return err
	}
	s.Status.ClassName, s.Status.Listen = wanted.Class(), wanted.Port()
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
	s := &allocator.Subject{Service: svc}
	held, err := l.view.Claims.Held(ctx, s.Holder())
	if err != nil {
		return err
	}
	wanted, err := l.exposed(ctx, svc)
	if err != nil {
		return err
	}
	var allocations []allocator.Allocation
	request, problems := loadbalancer.RequestOf(svc)
	if l.view.LoadBalancers.IsOurs(svc) && len(problems) == 0 {
		s.Request, s.Held = request, loadbalancer.Own(held)
		d, err := kube.Decide(ctx, l.view, func(f *kube.Facts) allocator.Decision { return allocator.Allocate(f, s, l.ledger.GraceLeft) })
		if err != nil {
			return err
		}
		allocations = d.Allocations
	}
	for _, a := range allocations {
		wanted = append(wanted, a.Points...)
	}
	if err := l.release(ctx, s.Holder(), func(at claim.Coordinate) bool { return slices.Contains(wanted, at) }); err != nil {
		return err
	}
	by := claim.Claimant{Holder: s.Holder(), UID: svc.UID, Generation: claim.Version(svc.ResourceVersion)}
	return l.claim(ctx, by, allocations)
}

// exposed are the hosts and paths that a Service asks for.
func (l *Linter) exposed(ctx context.Context, svc *corev1.Service) (points []claim.Coordinate, err error) {
	if _, requests := exposure.Annotation(svc); !requests {
		return nil, nil
	}
	return kube.Decide(ctx, l.view, func(f *kube.Facts) []claim.Coordinate {
		e, problems := exposure.RequestOf(svc, f.Defaults(client.ObjectKeyFromObject(svc)))
		if len(problems) > 0 {
			return nil
		}
		return exposure.Wanted(f, e)
	})
}

// release has the ledger release what somebody has and does not want any longer. Claims for external IPs are none of its business.
func (l *Linter) release(ctx context.Context, by claim.Holder, wants func(claim.Coordinate) bool) error {
	claims, err := l.view.Claims.Of(ctx, by)
	if err != nil {
		return err
	}
	for _, c := range claims {
		at, err := claim.Of(c)
		if err != nil || c.Spec.ExternalIP || wants(at) {
			continue
		}
		_, _, err = l.ledger.Release(ctx, c, func(context.Context, *v1beta1.EdgeClaim) (claim.HolderState, error) {
			// The object was stored a moment ago, and nothing else is going on.
			return claim.HolderState{Exists: true, UID: c.Spec.Holder.UID, Generation: c.Spec.Holder.Generation}, nil
		}, "")
		if err != nil {
			return err
		}
	}
	return nil
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
