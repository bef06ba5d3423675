package claims

import (
	"context"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// streamWants says whether the stream that holds a port is there and wants it, or has yet to move from it, or the Service or the route that
// opens the port is still there: a port is open until then, and nobody else is to have it before.
func (s *holderReading) streamWants(ctx context.Context, c *v1beta1.EdgeClaim, at claim.Coordinate) (seen claim.HolderState, err error) {
	if s.stream != nil {
		seen = claim.HolderState{Exists: true, UID: s.stream.UID, Generation: s.stream.Generation}
		seen.Wants = stream.Opens(s.stream, at.Class(), s.held) == at
	}
	if seen.Wants {
		return seen, nil
	}
	open, err := s.isForwarded(ctx, at)
	if err == nil && !open {
		open, err = s.isRouted(ctx, c, at)
	}
	if err == nil && open {
		seen.Exists, seen.Wants = true, true
	}
	return seen, err
}

// isForwarded says whether the Service of a port is there. Only the one in the namespace of the class counts: tenants can make others
// look like it. Which that was nobody knows when the class is gone, or writes elsewhere by now; then it is one that is open at an
// address, which no tenant can write.
func (s *holderReading) isForwarded(ctx context.Context, at claim.Coordinate) (bool, error) {
	open, err := s.view.Streams.OpenAt(ctx, at)
	name := v1beta1.StreamServiceName(at.Class(), at.Protocol(), at.Port())
	if err != nil || slices.ContainsFunc(open, func(svc corev1.Service) bool { return svc.Name == name }) {
		return err == nil, err
	}
	class, err := s.view.Class(ctx, at.Class())
	if err != nil || class == nil || class.Spec.AddressPool == nil {
		return false, err
	}
	svc := &corev1.Service{}
	found, err := s.read(ctx, kube.ServiceKey(class, stream.PortKey{Protocol: at.Protocol(), Port: at.Port()}), svc)
	return found && kube.IsForwarded(svc), err
}

// forwardedBy is the port of a class that is open as long as a claim is there, if the class has no proxy: the claim is on the port, or
// on the same one of an address of the class. Zero if it is neither.
func forwardedBy(c *v1beta1.EdgeClaim) claim.Coordinate {
	at, holder := coordinateOf(c), claim.HolderOf(c)
	switch {
	case at.IsStream() && holder.IsStream():
		return at
	case at.IsAddress() && holder.IsClass():
		return claim.Stream(holder.Name, at.Protocol(), at.Port())
	default:
		return claim.Coordinate{}
	}
}

// classWantsAddress says whether a class that holds an address, or a port of one, is there and wants it: the class has it, or asks for
// it, or Services of its streams are still open there. A port is wanted as long as somebody has a claim on it. What a class that is
// gone has stays as long as its streams have their ports: it may come back.
func (s *holderReading) classWantsAddress(ctx context.Context, at claim.Coordinate) (seen claim.HolderState, err error) {
	class := &v1beta1.StreamIngressClass{}
	if seen.Exists, err = s.read(ctx, s.holder.Key(), class); err != nil {
		return seen, err
	}
	seen.UID, seen.Generation = class.UID, class.Generation
	gone := !seen.Exists
	switch {
	case at.Port() != 0:
		port := claim.Stream(s.holder.Name, at.Protocol(), at.Port())
		if seen.Wants, err = s.read(ctx, types.NamespacedName{Name: port.Name()}, &v1beta1.EdgeClaim{}); err != nil {
			return seen, err
		}
		seen.Wants = seen.Wants && (gone || hasAddress(class, at.Address()))
	case gone:
		ports, err := s.view.Claims.OfClass(ctx, s.holder.Name)
		if err != nil {
			return seen, err
		}
		seen.Wants = len(ports) > 0
	default:
		seen.Wants = hasAddress(class, at.Address())
	}
	seen.Exists = seen.Exists || seen.Wants
	if seen.Wants {
		return seen, nil
	}
	open, err := s.openAt(ctx, class, at)
	for i := range open {
		if slices.Contains(kube.OpenAt(&open[i]), at) {
			seen.Exists, seen.Wants = true, true
		}
	}
	return seen, err
}

// openAt lists the Services of a class that may be open at an address, or at a port of one: those that are known to be, wherever the
// class has written them, and that of the port as it is now.
func (s *holderReading) openAt(ctx context.Context, class *v1beta1.StreamIngressClass, at claim.Coordinate) ([]corev1.Service, error) {
	open, err := s.view.Streams.OpenAt(ctx, at)
	open = slices.DeleteFunc(open, func(svc corev1.Service) bool {
		of, _, ok := kube.ForwardedPort(&svc)
		return !ok || of != s.holder.Name
	})
	if err != nil || at.Port() == 0 || class.Spec.AddressPool == nil {
		return open, err
	}
	svc := &corev1.Service{}
	found, err := s.read(ctx, kube.ServiceKey(class, stream.PortKey{Protocol: at.Protocol(), Port: at.Port()}), svc)
	if found {
		open = append(open, *svc)
	}
	return open, err
}

// hasAddress says whether a class has an address, or asks for it. One that is new, or has changed, has what it had until its status says
// what it is given.
func hasAddress(class *v1beta1.StreamIngressClass, ip netip.Addr) bool {
	if class.Spec.AddressPool == nil {
		return false
	}
	if class.Status.ObservedGeneration != class.Generation {
		return true
	}
	return slices.Contains(addressesOf(class), ip)
}

// addressesOf are the addresses that a class asks for, and those that it has.
func addressesOf(class *v1beta1.StreamIngressClass) []netip.Addr {
	asked, _ := stream.RequestedAddresses(class)
	return append(asked, stream.ClassAddresses(class)...)
}

// onForwarded looks at the claims of a stream, and of its class, when a Service does not forward their port any more, and at those of
// the class when it is open at other addresses.
func (r *claimReconciler) onForwarded() handler.TypedEventHandler[client.Object, claimRequest] {
	return handler.TypedFuncs[client.Object, claimRequest]{
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q claimQueue) {
			still := doorsOf(e.ObjectNew.(*corev1.Service))
			r.enqueuePoints(ctx, q, slices.DeleteFunc(doorsOf(e.ObjectOld.(*corev1.Service)), func(at claim.Coordinate) bool {
				return slices.Contains(still, at)
			}))
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q claimQueue) {
			svc := e.Object.(*corev1.Service)
			points := doorsOf(svc)
			class, port, err := r.View.PortAt(ctx, client.ObjectKeyFromObject(svc)) // whatever it said of itself in the end
			if err == nil && class != nil {
				points = append(points, claim.Stream(class.Name, port.Protocol, port.Port))
			}
			r.enqueuePoints(ctx, q, points)
		},
	}
}

// doorsOf are the port that a Service forwards, and where it is open for it.
func doorsOf(svc *corev1.Service) []claim.Coordinate {
	points := kube.OpenAt(svc)
	if class, port, ok := kube.ForwardedPort(svc); ok && kube.IsForwarded(svc) {
		points = append(points, claim.Stream(class, port.Protocol, port.Port))
	}
	return points
}
