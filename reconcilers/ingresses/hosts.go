package ingresses

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/hostname"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// hostsOf is what a Service asks for of host names. What its Ingress serves already stands, whatever rules for namespaces say of it by now;
// whose a name is, is in the ledger alone.
func (r *ingressReconciler) hostsOf(svc *corev1.Service, served *networkingv1.Ingress) *hostname.Request {
	request := &hostname.Request{}
	request.User, _ = hostname.Of(svc, r.View.Ingresses.Defaults)
	request.Only(hostname.Exposed)
	if served != nil && exposure.IsOwn(served, svc) {
		serving, _ := hostname.Of(served, r.View.Ingresses.Defaults)
		request.Serving = serving.Names
	}
	return request
}

// claimHosts claims names for the namespace of a Service that is stored, as far as it does not have them. fresh are those of them that
// nothing there uses.
func (r *ingressReconciler) claimHosts(
	ctx context.Context, svc *corev1.Service, points, fresh []claim.Coordinate,
) (refusal.Problems, error) {
	if len(points) == 0 {
		return nil, nil
	}
	user, _ := hostname.Of(svc, r.View.Ingresses.Defaults)
	by := user.Claimant(claim.Version(svc.ResourceVersion))
	if len(fresh) > 0 {
		unlock, err := r.View.Hosts.Entering.Lock(ctx, by.Name)
		if err != nil {
			return nil, err
		}
		defer unlock()
		problems, err := kube.Decide(ctx, r.View, func(facts *kube.Facts) refusal.Problems {
			return hostname.Limit(facts, r.hostsOf(svc, facts.Ingress(client.ObjectKeyFromObject(svc))), fresh)
		})
		if err != nil || len(problems) > 0 {
			return problems, err
		}
	}
	return r.claimEach(ctx, svc, by, nil, points, func(facts *kube.Facts, held *claim.HeldError) refusal.Problems {
		return hostname.Conflict(facts, r.hostsOf(svc, nil), held.At, held.Claim, r.Ledger.GraceLeft)
	})
}
