package reconcilers

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/cluster"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/rules"
)

// loadBalancerWants looks whether the Service that holds an address, or a port of one or of the nodes, is there, and wants
// it. The Service is read by reader.
func (r *claimReconciler) loadBalancerWants(
	ctx context.Context, reader client.Reader, at claim.Coordinate, holder claim.Holder,
) (claim.Sighting, error) {
	if !holder.IsService() {
		return claim.Sighting{Exists: true, Wants: true}, nil // not made by Portcullis
	}
	svc := &corev1.Service{}
	if there, err := r.read(ctx, reader, holder.Key(), svc); !there {
		return claim.Sighting{}, err
	}
	seen := claim.Sighting{Exists: true, UID: svc.UID, Generation: claim.Version(svc.ResourceVersion)}
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return seen, nil
	}
	held, err := r.view.Held(ctx, holder)
	if err != nil {
		return seen, err
	}
	if held = loadbalancer.Own(held); !slices.Contains(held, at) {
		held = append(held, at)
	}
	listed := cluster.OwnListed(svc)
	if !r.view.Balances(svc) {
		seen.Wants = rules.IsListed(held, at, listed)
		return seen, nil
	}
	ask, problems := rules.AsksForAddresses(svc)
	if len(problems) > 0 { // it keeps what it has
		seen.Wants = at.Port() == 0 || ask.HasPort(at.Protocol(), at.Port())
		return seen, nil
	}
	seen.Wants, err = rules.WantsPoint(ctx, r.view, &rules.Balance{Service: svc, Ask: ask, Held: held}, at, listed)
	return seen, err
}

// awaitTurn waits until nobody else looks at the Service that holds a claim on an address or on a port of one or of the
// nodes. It returns what ends the turn.
func (r *claimReconciler) awaitTurn(c *v1beta1.EdgeClaim) (end func()) {
	if !isBalancers(c) {
		return func() {}
	}
	return r.turns.take(claim.HolderOf(c).Key())
}

// isBalancers says whether a claim is on an address or on a port of one or of the nodes.
func isBalancers(c *v1beta1.EdgeClaim) bool {
	at := coordinateOf(c)
	return at.IsAddress() || at.IsNode()
}

// coordinateOf is the coordinate of a claim, no point if it is not as Portcullis writes claims.
func coordinateOf(c *v1beta1.EdgeClaim) claim.Coordinate {
	at, err := claim.Of(c)
	if err != nil {
		return claim.Coordinate{}
	}
	return at
}
