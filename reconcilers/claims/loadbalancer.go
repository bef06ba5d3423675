package claims

import (
	"context"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/allocator"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// loadBalancerWants says whether the Service that holds an address, or a port of one or of the nodes, is there, and wants it. One
// that does not exist while a class names it keeps what it had: it is about to be made again, and has what streams and others
// reach the proxy at.
func (s *holderReading) loadBalancerWants(ctx context.Context, c *v1beta1.EdgeClaim, at claim.Coordinate) (claim.HolderState, error) {
	if s.holder.IsClass() && at.IsNode() {
		return s.classWants(ctx, c, at)
	}
	if s.holder.IsClass() {
		return s.classWantsAddress(ctx, at)
	}
	if !s.holder.IsService() {
		return claim.HolderState{Exists: true, Wants: true}, nil // not made by Portcullis
	}
	served, err := s.isServed(ctx, c, at)
	if err != nil {
		return claim.HolderState{}, err
	}
	if s.service == nil {
		stays := served || len(s.classes) > 0
		return claim.HolderState{Exists: stays, Wants: stays}, nil
	}
	seen := claim.HolderState{Exists: true, UID: s.service.UID, Generation: claim.Version(s.service.ResourceVersion)}
	if s.view.ExternalIPs.Guarded && loadbalancer.NamesPoint(s.service, at) {
		seen.Wants = true
		return seen, nil
	}
	held := loadbalancer.Own(s.held)
	if !s.view.LoadBalancers.IsOurs(s.service) {
		seen.Wants = loadbalancer.Lists(s.service, held, at)
		return seen, nil
	}
	request, problems := loadbalancer.RequestOf(s.service)
	if served {
		request.Ports = append(request.Ports, loadbalancer.Port{Protocol: corev1.Protocol(at.Protocol()), Number: at.Port()})
	}
	if len(problems) > 0 { // it keeps what it has
		seen.Wants = at.Port() == 0 || request.HasPort(at.Protocol(), at.Port()) || loadbalancer.Lists(s.service, held, at)
		return seen, nil
	}
	subject := &allocator.Subject{Service: s.service, Request: request, Held: held}
	seen.Wants, err = kube.Decide(ctx, s.view, func(f *kube.Facts) bool { return allocator.WantsPoint(f, subject, at) })
	return seen, err
}

// bridgePoll is when it is looked again whether a Service is still listed at what it has handed over.
const bridgePoll = time.Second

// isListedByAnother says whether a Service other than the holder of a claim on an address, or on a port of one, is listed there, and has no
// claim for that: it has handed the point over, and stays listed until who has it is. Were the claim of who has it, and is gone by then,
// released, nobody could tell the giver from one that has lost its claim with the ledger, and has to be given it back.
func (r *claimReconciler) isListedByAnother(ctx context.Context, c *v1beta1.EdgeClaim) (bool, error) {
	at := coordinateOf(c)
	if !at.IsAddress() || !claim.IsHandable(c) {
		return false, nil
	}
	others, err := r.View.LoadBalancers.ListingAmong(ctx, at.Address(), func(svc *corev1.Service) bool {
		hasPort := at.Port() == 0 || loadbalancer.HasPort(svc, at) || loadbalancer.ListsPort(svc.Status.LoadBalancer.Ingress, at)
		return hasPort && claim.ServiceHolder(svc.Namespace, svc.Name) != claim.HolderOf(c)
	})
	if err != nil || len(others) == 0 {
		return false, err
	}
	return kube.Decide(ctx, r.View, func(f *kube.Facts) bool {
		return slices.ContainsFunc(others, func(svc *corev1.Service) bool { return allocator.IsServed(f, svc) })
	})
}

// balancerAsks says whether a Service is stored that asks for an address by name, or for a port of one, and that a pool gives it: what it
// would take of any address is not handed over to it.
func (s *holderReading) balancerAsks(ctx context.Context, at claim.Coordinate) (seen claim.HolderState, err error) {
	if s.service == nil {
		return claim.HolderState{}, nil
	}
	seen = claim.HolderState{Exists: true, UID: s.service.UID, Generation: claim.Version(s.service.ResourceVersion)}
	request, problems := loadbalancer.RequestOf(s.service)
	if len(problems) > 0 || !slices.Contains(request.Addresses, at.Address()) || !s.view.LoadBalancers.IsOurs(s.service) {
		return seen, nil
	}
	subject := &allocator.Subject{Service: s.service, Request: request, Held: loadbalancer.Own(s.held)}
	seen.Wants, err = kube.Decide(ctx, s.view, func(f *kube.Facts) bool { return allocator.AsksForPoint(f, subject, at) })
	return seen, err
}

// isServed says whether the holder of a claim stands in front of the proxy of a class on which somebody has a claim on the port of
// its point: the port is open there, or about to be, and must be its own by then.
func (s *holderReading) isServed(ctx context.Context, c *v1beta1.EdgeClaim, at claim.Coordinate) (bool, error) {
	for _, class := range s.servedClasses(c, at) {
		port := claim.Stream(class, at.Protocol(), at.Port())
		if port.IsZero() { // a whole address, or SCTP
			return false, nil
		}
		found, err := s.read(ctx, types.NamespacedName{Name: port.Name()}, &v1beta1.EdgeClaim{})
		if err != nil || found {
			return found, err
		}
	}
	return false, nil
}

// servedClasses are the classes in front of whose proxies the holder of a claim stands, and those in front of which it stood, as
// far as is known, that do not exist: who has a port of one has it still when the class is back.
func (s *holderReading) servedClasses(c *v1beta1.EdgeClaim, at claim.Coordinate) []string {
	var names []string
	for _, class := range s.classes {
		names = append(names, class.Name)
	}
	if s.service != nil && s.gateways.Has(c.Spec.ClassName) {
		names = append(names, c.Spec.ClassName)
	}
	gone := []string{c.Spec.ClassName}
	if s.holder.IsClass() { // nobody can tell where the proxies of the others were
		gone = s.view.Occupancy.Classes(at.Protocol(), at.Port())
	}
	for _, name := range gone {
		if name != "" && !s.known.Has(name) {
			names = append(names, name)
		}
	}
	return names
}

// enqueueFront asks for a look at what a port of a class takes of what stands in front of its proxy, and shares it.
func (r *claimReconciler) enqueueFront(ctx context.Context, q claimQueue, at claim.Coordinate) {
	r.enqueueOnNodes(ctx, q, at.Protocol(), at.Port())
	class, err := r.View.Class(ctx, at.Class())
	if err != nil {
		return
	}
	if class == nil {
		q.Add(claimRequest{Holder: claim.ClassHolder(at.Class())})
		served, err := r.View.Claims.Serving(ctx, at.Name())
		if err != nil {
			log.FromContext(ctx).Error(err, "could not list the claims for a port of a class that is gone", "class", at.Class())
		}
		for _, c := range served {
			enqueueClaim(q, c)
		}
		return
	}
	if class.Spec.AddressPool != nil {
		r.enqueuePoints(ctx, q, pointsOn(addressesOf(class), at))
		return
	}
	front, err := kube.Decide(ctx, r.View, func(f *kube.Facts) *stream.Front { return stream.FrontOf(f, class) })
	if err != nil {
		return
	}
	r.enqueuePoints(ctx, q, front.Points(at.Protocol(), at.Port()))
}

// mayHaveAll says whether a Service, to which points are being handed over, may have all that it asks for together: it would not be listed
// otherwise, and the giver no longer be. It got past admission then, or what it was promised has been taken from the pool: errParts.
// Or the promise of one point was withdrawn, or was another object's of its name, which only the ledger tells: a *claim.HeldError.
func (r *claimReconciler) mayHaveAll(ctx context.Context, s *holderReading) error {
	held, err := s.view.Claims.Held(ctx, s.holder)
	if err != nil {
		return err
	}
	request, problems := loadbalancer.RequestOf(s.service)
	if len(problems) > 0 {
		return errParts
	}
	held = loadbalancer.Own(append(held, s.held...))
	slices.SortFunc(held, claim.Compare)
	subject := &allocator.Subject{Service: s.service, Request: request, Held: slices.Compact(held)}
	d, err := kube.Decide(ctx, s.view, func(f *kube.Facts) allocator.Decision { return allocator.Allocate(f, subject, s.graceLeft) })
	if err != nil {
		return err
	}
	if len(d.Problems) > 0 {
		return errParts
	}
	var points []claim.Coordinate
	for _, a := range d.Allocations {
		if !a.AutoAssigned { // in whose place any other would do
			points = append(points, a.Points...)
		}
	}
	by := claim.Claimant{Holder: s.holder, UID: s.service.UID, Generation: claim.Version(s.service.ResourceVersion)}
	return r.Ledger.CheckStored(ctx, by, points...)
}

// pointsOn are what a port of a class takes of some addresses.
func pointsOn(addresses []netip.Addr, at claim.Coordinate) (points []claim.Coordinate) {
	for _, ip := range addresses {
		points = append(points, claim.AddressPort(ip, string(at.Protocol()), at.Port()))
	}
	return points
}

// enqueuePoints asks for a look at the claims on some points.
func (r *claimReconciler) enqueuePoints(ctx context.Context, q claimQueue, points []claim.Coordinate) {
	for _, at := range points {
		c, err := r.View.Claim(ctx, at.Name())
		if err != nil {
			log.FromContext(ctx).Error(err, "could not read a claim", "point", at)
		}
		if c != nil {
			enqueueClaim(q, c)
		}
	}
}

// coordinateOf is the coordinate of a claim, no point if it is not as Portcullis writes claims.
func coordinateOf(c *v1beta1.EdgeClaim) claim.Coordinate {
	at, _ := claim.Of(c)
	return at
}
