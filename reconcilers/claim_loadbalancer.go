package reconcilers

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
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
	held, err := r.view.Held(ctx, holder)
	if err != nil {
		return seen, err
	}
	if held = loadbalancer.Own(held); !slices.Contains(held, at) {
		held = append(held, at)
	}
	if !r.view.Balances(svc) {
		seen.Wants = rules.Lists(svc, held, at)
		return seen, nil
	}
	ask, problems := rules.AsksForAddresses(svc)
	opens, err := r.isAboutToOpen(ctx, reader, svc, at)
	if err != nil {
		return seen, err
	}
	if opens {
		ask.Ports = append(ask.Ports, loadbalancer.Port{Protocol: corev1.Protocol(at.Protocol()), Number: at.Port()})
	}
	if len(problems) > 0 { // it keeps what it has
		seen.Wants = at.Port() == 0 || ask.HasPort(at.Protocol(), at.Port()) || rules.Lists(svc, held, at)
		return seen, nil
	}
	seen.Wants, err = rules.WantsPoint(ctx, r.view, &rules.Balance{Service: svc, Ask: ask, Held: held}, at)
	return seen, err
}

// isAboutToOpen says whether a Service stands in front of the proxy of a class on which somebody has a claim on the port of a
// point: the port is about to be opened on the Service, and must be its own by then.
func (r *claimReconciler) isAboutToOpen(
	ctx context.Context, reader client.Reader, svc *corev1.Service, at claim.Coordinate,
) (bool, error) {
	if at.Port() == 0 {
		return false, nil
	}
	classes, err := r.view.Classes(ctx)
	if err != nil {
		return false, err
	}
	for i := range classes {
		ref := classes[i].Spec.Service
		if ref == nil || ref.Namespace != svc.Namespace || ref.Name != svc.Name {
			continue
		}
		port := claim.Stream(classes[i].Name, at.Protocol(), at.Port())
		found, err := r.read(ctx, reader, types.NamespacedName{Name: port.Name()}, &v1beta1.EdgeClaim{})
		if err != nil || found {
			return found, err
		}
	}
	return false, nil
}

// enqueueFront asks for a look at what a port of a class takes of what the Service in front of its proxy shares.
func (r *claimReconciler) enqueueFront(ctx context.Context, q claimQueue, at claim.Coordinate) {
	class, err := r.view.Class(ctx, at.Class())
	if err != nil || class == nil {
		return
	}
	front, err := rules.FrontOf(ctx, r.view, class)
	if err != nil {
		return
	}
	for _, point := range front.Points(at.Protocol(), at.Port()) {
		q.Add(claimRequest{Name: point.Name()})
	}
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
