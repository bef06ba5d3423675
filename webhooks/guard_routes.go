package webhooks

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// routeGuard decides on the listeners, and host names there, that routes of a kind attach to.
type routeGuard struct {
	listenerGuard
	kind guard.Kind
	// resource is the kind, in plural and lower case.
	resource string
}

var parentRefsPath = field.NewPath("spec", "parentRefs")

// validate judges a new route (before is nil) or the change of one, and claims what it comes to attach to.
func (v routeGuard) validate(ctx context.Context, before, route client.Object) (admission.Warnings, error) {
	return v.answer(ctx, v.kind, route.GetName(), func(ctx context.Context) (decision, error) { return v.decide(ctx, before, route) })
}

// decide judges a new route (before is nil) or the change of one.
func (v routeGuard) decide(ctx context.Context, before, route client.Object) (d decision, err error) {
	if before == nil {
		if err := v.isNew(ctx, route, v.resource); err != nil {
			return d, err
		}
	}
	if err := ready(v.view); err != nil {
		return d, err
	}
	request, err := v.request(ctx, before, route)
	if err != nil {
		return d, err
	}
	d.problems, err = kube.Decide(ctx, kube.LiveReader{View: v.view}, func(f *kube.Facts) refusal.Problems {
		return guard.JudgeRoute(f, request, v.ledger.GraceLeft)
	})
	if points := request.Points(); err == nil && len(d.problems) == 0 && len(points) > 0 {
		d.problems, err = v.claim(ctx, request)
	}
	if err == nil {
		counted(d.problems)
	}
	return d, err
}

// request is what a route asks for.
func (v routeGuard) request(ctx context.Context, before, route client.Object) (*guard.RouteRequest, error) {
	if err := v.view.Gateways.Read(ctx); err != nil {
		return nil, err
	}
	has, err := kube.LiveReader{View: v.view}.NamespaceLabels(ctx, route.GetNamespace())
	if err != nil {
		return nil, err
	}
	r, _ := guard.OfRoute(route)
	request := &guard.RouteRequest{Route: r}
	if request.Places, err = v.view.Gateways.PlacesNow(ctx, r, has); err != nil || before == nil {
		return request, err
	}
	was, _ := guard.OfRoute(before)
	request.Before, err = v.view.Gateways.PlacesNow(ctx, was, has)
	return request, err
}

// claim claims what a route asks for anew.
func (v routeGuard) claim(ctx context.Context, request *guard.RouteRequest) (refusal.Problems, error) {
	held, _, err := reserveAll(ctx, v.ledger, v.asks(ctx, v.kind), request.Claimant, nil, request.Points())
	if err != nil || held == nil {
		return nil, err
	}
	problems, _ := conflictOf(ctx, v.view, held, v1beta1.ReasonRouteConflict, parentRefsPath, held.At.Point(),
		func(f *kube.Facts) refusal.Problems {
			return guard.RouteConflict(f, request, held.At, held.Claim, v.ledger.GraceLeft)
		})
	return problems, nil
}

// kindOf is how the answers of the guard call a kind.
func kindOf(kind guard.Kind) schema.GroupKind {
	if kind == guard.ExternalIPs {
		return serviceKind
	}
	return schema.GroupKind{Group: gatewayv1.GroupName, Kind: string(kind)}
}
