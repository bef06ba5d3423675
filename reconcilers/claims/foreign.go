package claims

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// foreignWants looks whether a ConfigMap or a Service still has a foreign entry or port at a point. What is foreign has
// not come through admission, so that there is nothing in flight to wait for. An object that is not there while its class
// names it keeps what it had: it is about to be made again, and its ports are not whose is fastest.
//
// Class, ConfigMap and Service come from the cache, also where the holder of a claim is to be looked at live. A cache that lags
// behind may have a claim released when what was gone stands there again. That is like any foreign entry which is new: admission
// finds it where no claim is (stream.AdoptionOf), and the class reconciler enters it again.
func (s *holderReading) foreignWants(ctx context.Context, c *v1beta1.EdgeClaim, at claim.Coordinate) (claim.HolderState, error) {
	if _, _, left := claim.Adopted(c); left {
		return claim.HolderState{Exists: true, Wants: true}, nil // until the entry is settled
	}
	if s.holder.IsClass() {
		return s.sharedWants(ctx, at)
	}
	class, err := s.view.Class(ctx, at.Class())
	if err != nil || class == nil {
		return claim.HolderState{}, err
	}
	absent, err := s.isAbsent(ctx, class, at.Protocol(), c)
	if err != nil || absent {
		return claim.HolderState{Exists: absent, Wants: absent}, err
	}
	if class.Spec.Gateway != nil {
		by, foreign, err := s.view.Gateways.Foreign(ctx, class, stream.PortKey{Protocol: at.Protocol(), Port: at.Port()})
		if err != nil || !foreign {
			return claim.HolderState{}, err
		}
		return claim.HolderState{Exists: true, UID: by.UID, Wants: by.Holder == s.holder}, nil
	}
	f, foreign, err := s.view.Targets.Foreign(ctx, class, stream.PortKey{Protocol: at.Protocol(), Port: at.Port()})
	if err != nil || !foreign {
		return claim.HolderState{}, err
	}
	return claim.HolderState{Exists: true, UID: f.Holder.UID, Wants: f.Holder.Holder == s.holder}, nil
}

// sharedWants says whether a class that holds a port of another one is there and wants it: their Gateways have an address in common, and
// somebody has the port of the class that holds it.
func (s *holderReading) sharedWants(ctx context.Context, at claim.Coordinate) (seen claim.HolderState, err error) {
	class, other := &v1beta1.StreamIngressClass{}, &v1beta1.StreamIngressClass{}
	if seen.Exists, err = s.read(ctx, s.holder.Key(), class); err != nil || !seen.Exists {
		return seen, err
	}
	seen.UID, seen.Generation = class.UID, class.Generation
	found, err := s.read(ctx, types.NamespacedName{Name: at.Class()}, other)
	if err != nil || !found || !stream.SharesGateway(class, other) {
		return seen, err
	}
	c := &v1beta1.EdgeClaim{}
	found, err = s.read(ctx, types.NamespacedName{Name: claim.Stream(class.Name, at.Protocol(), at.Port()).Name()}, c)
	seen.Wants = found && claim.HolderOf(c).IsStream()
	return seen, err
}

// isAbsent says whether a class names the ConfigMap or Service that holds a claim, and it does not exist. Nor does a ConfigMap
// that only Portcullis has written since it was deleted.
func (s *holderReading) isAbsent(
	ctx context.Context, class *v1beta1.StreamIngressClass, protocol v1beta1.Protocol, c *v1beta1.EdgeClaim,
) (bool, error) {
	if ref := class.ConfigMap(protocol); ref != nil && claim.ConfigMapHolder(ref.Namespace, ref.Name) == s.holder {
		cm, err := s.view.Targets.ConfigMap(ctx, *ref)
		return err == nil && (cm == nil || cm.UID != c.Spec.Holder.UID && stream.AppliedAlone(cm)), err
	}
	if class.Spec.Gateway != nil && s.holder.Group == gatewayv1.GroupName { // it, or what was attached to it
		state, err := s.view.Gateways.State(ctx, class)
		return err == nil && state.Gateway == nil, err
	}
	if ref := class.Spec.Service; ref != nil && claim.ServiceHolder(ref.Namespace, ref.Name) == s.holder {
		svc, err := s.view.Service(ctx, s.holder.Key())
		return err == nil && svc == nil, err
	}
	return false, nil
}
