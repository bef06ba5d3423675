package reconcilers

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/rules"
)

// loadBalancerWants says whether the Service that holds an address, or a port of one or of the nodes, is there, and wants it.
func (s *sight) loadBalancerWants(ctx context.Context, at claim.Coordinate) (claim.Sighting, error) {
	if s.holder.IsClass() && at.IsNode() {
		return s.classWants(ctx, at)
	}
	if !s.holder.IsService() {
		return claim.Sighting{Exists: true, Wants: true}, nil // not made by Portcullis
	}
	if s.service == nil {
		return claim.Sighting{}, nil
	}
	seen := claim.Sighting{Exists: true, UID: s.service.UID, Generation: claim.Version(s.service.ResourceVersion)}
	held := loadbalancer.Own(s.held)
	if !s.view.Balances(s.service) {
		seen.Wants = rules.Lists(s.service, held, at)
		return seen, nil
	}
	ask, problems := rules.AsksForAddresses(s.service)
	opens, err := s.isAboutToOpen(ctx, at)
	if err != nil {
		return seen, err
	}
	if opens {
		ask.Ports = append(ask.Ports, loadbalancer.Port{Protocol: corev1.Protocol(at.Protocol()), Number: at.Port()})
	}
	if len(problems) > 0 { // it keeps what it has
		seen.Wants = at.Port() == 0 || ask.HasPort(at.Protocol(), at.Port()) || rules.Lists(s.service, held, at)
		return seen, nil
	}
	seen.Wants, err = rules.WantsPoint(ctx, s.view, &rules.Balance{Service: s.service, Ask: ask, Held: held}, at)
	return seen, err
}

// classWants says whether a class that has a port of the nodes for its proxy is there, and somebody has a claim on that port of
// any class whose proxy is on the nodes.
func (s *sight) classWants(ctx context.Context, at claim.Coordinate) (seen claim.Sighting, err error) {
	class := &v1beta1.StreamIngressClass{}
	if seen.Exists, err = s.read(ctx, s.holder.Key(), class); err != nil {
		return seen, err
	}
	seen.UID, seen.Generation = class.UID, class.Generation
	seen.Wants, err = s.isAboutToOpen(ctx, at)
	seen.Exists = seen.Exists || seen.Wants
	return seen, err
}

// isAboutToOpen says whether the holder stands in front of the proxy of a class on which somebody has a claim on the port of
// a point: the port is about to be opened there, and must be its own by then.
func (s *sight) isAboutToOpen(ctx context.Context, at claim.Coordinate) (bool, error) {
	if at.Port() == 0 {
		return false, nil
	}
	for _, class := range s.classes {
		port := claim.Stream(class, at.Protocol(), at.Port())
		found, err := s.read(ctx, types.NamespacedName{Name: port.Name()}, &v1beta1.EdgeClaim{})
		if err != nil || found {
			return found, err
		}
	}
	return false, nil
}

// enqueueFront asks for a look at what a port of a class takes of what stands in front of its proxy, and shares it.
func (r *claimReconciler) enqueueFront(ctx context.Context, q claimQueue, at claim.Coordinate) {
	onNodes, err := r.view.Claim(ctx, claim.NodePort(string(at.Protocol()), at.Port()).Name())
	if err == nil && onNodes != nil && claim.HolderOf(onNodes).IsClass() {
		q.Add(claimRequest{Holder: claim.HolderOf(onNodes)})
	}
	class, err := r.view.Class(ctx, at.Class())
	if err != nil || class == nil {
		return
	}
	front, err := rules.FrontOf(ctx, r.view, class)
	if err != nil {
		return
	}
	if len(front.Points(at.Protocol(), at.Port())) > 0 {
		q.Add(claimRequest{Holder: front.Holder()})
	}
}

// coordinateOf is the coordinate of a claim, no point if it is not as Portcullis writes claims.
func coordinateOf(c *v1beta1.EdgeClaim) claim.Coordinate {
	at, err := claim.Of(c)
	if err != nil {
		return claim.Coordinate{}
	}
	return at
}
