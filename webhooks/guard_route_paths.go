package webhooks

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/hostname"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// routePathDesk decides on the paths that HTTPRoutes and GRPCRoutes serve on Gateways, where no policy gives the host to one namespace.
type routePathDesk struct {
	view   *kube.View
	ledger *claim.Ledger
}

// decide has the rules decide on what a route (before is nil for a new one) asks for anew, and claims it for its namespace; if it only
// asks, it finds out whether it could. withdraw takes back what was claimed, for an object that is refused for something else.
func (p routePathDesk) decide(
	ctx context.Context, before, route client.Object, asks bool,
) (problems refusal.Problems, withdraw func(context.Context) error, err error) {
	if err := p.view.Gateways.Read(ctx); err != nil {
		return nil, nothing, err
	}
	request, err := p.request(ctx, before, route)
	if err != nil {
		return nil, nothing, err
	}
	verdict, err := kube.Decide(ctx, kube.LiveReader{View: p.view}, func(f *kube.Facts) hostname.Verdict {
		return hostname.JudgePaths(f, request, p.ledger.GraceLeft)
	})
	if err != nil {
		return nil, nothing, err
	}
	withdraw = nothing
	if problems = verdict.Problems; len(problems) == 0 && len(verdict.Points) > 0 {
		problems, withdraw, err = p.claim(ctx, request, before, verdict.Points, asks)
	}
	return counted(problems), withdraw, err
}

// request is what a route asks for.
func (p routePathDesk) request(ctx context.Context, before, route client.Object) (*hostname.PathRequest, error) {
	has, err := kube.LiveReader{View: p.view}.NamespaceLabels(ctx, route.GetNamespace())
	if err != nil {
		return nil, err
	}
	versions := []metav1.Object{route}
	if before != nil {
		versions = append(versions, before)
	}
	served, err := p.view.Hosts.ServedNow(ctx, has, versions...)
	if err != nil {
		return nil, err
	}
	user, _ := hostname.Of(route, p.view.Ingresses.Defaults)
	request := &hostname.PathRequest{User: user, Serves: served[0]}
	if before != nil {
		request.Before = served[1]
	}
	return request, nil
}

// claim claims points for the namespace of a route.
func (p routePathDesk) claim(
	ctx context.Context, r *hostname.PathRequest, before client.Object, points []claim.Coordinate, asks bool,
) (problems refusal.Problems, withdraw func(context.Context) error, err error) {
	by := r.Claimant(0)
	if before != nil {
		by.Generation = claim.AfterVersion(before.GetResourceVersion())
	}
	held, withdraw, err := reserveAll(ctx, p.ledger, asks, by, nil, points)
	if held == nil {
		return nil, withdraw, err
	}
	return pathConflict(ctx, p.view, held, func(f *kube.Facts) refusal.Problems {
		return hostname.PathConflict(f, r, held.At, held.Claim, p.ledger.GraceLeft(held.Claim))
	}), withdraw, nil
}
