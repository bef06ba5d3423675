package claims

import (
	"context"

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
	class, err := s.view.Class(ctx, at.Class())
	if err != nil || class == nil {
		return claim.HolderState{}, err
	}
	absent, err := s.isAbsent(ctx, class, at.Protocol(), c)
	if err != nil || absent {
		return claim.HolderState{Exists: absent, Wants: absent}, err
	}
	f, foreign, err := s.view.Targets.Foreign(ctx, class, stream.PortKey{Protocol: at.Protocol(), Port: at.Port()})
	if err != nil || !foreign {
		return claim.HolderState{}, err
	}
	return claim.HolderState{Exists: true, UID: f.Holder.UID, Wants: f.Holder.Holder == s.holder}, nil
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
	if ref := class.Spec.Service; ref != nil && claim.ServiceHolder(ref.Namespace, ref.Name) == s.holder {
		svc, err := s.view.Service(ctx, s.holder.Key())
		return err == nil && svc == nil, err
	}
	return false, nil
}
