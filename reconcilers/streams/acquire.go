package streams

import (
	"context"
	"errors"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// acquire claims for a stream that holds nothing as far as the cache knows: it got past admission, its claim was
// deleted by hand, or the port it lost to somebody else is free again. It meets the verdict that admission would give.
func (r *streamReconciler) acquire(
	ctx context.Context, si *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass, by claim.Claimant,
) (claim.Coordinate, refusal.Problems, error) {
	var req stream.Request
	adoption, err := kube.Decide(ctx, r.View, func(f *kube.Facts) (a stream.Adoption) {
		if a.Problems = stream.HandedOver(f, si, class); len(a.Problems) > 0 {
			return a
		}
		if req, a.Problems = stream.PortFor(f, si, class); len(a.Problems) > 0 || req.At.IsZero() {
			return a
		}
		return stream.AdoptionOf(f, si, class, req.At)
	})
	if err != nil || len(adoption.Problems) > 0 {
		return claim.Coordinate{}, adoption.Problems, err
	}
	if req.At.IsZero() {
		return r.autoAssign(ctx, si, by, req)
	}
	by.Adopts = adoption.Adopts
	err = r.claimPort(ctx, by, req.Class, req.At)
	if held, ok := errors.AsType[*claim.HeldError](err); ok {
		kube.Conflicts.WithLabelValues(kube.FromReconciler).Inc()
		problems, err := kube.Decide(ctx, r.View, func(f *kube.Facts) refusal.Problems {
			return stream.Conflict(f, si, req.At, held.Claim, r.Ledger.GraceLeft(held.Claim))
		})
		return claim.Coordinate{}, problems, err
	}
	return req.At, nil, err
}

// claimPort claims a port that nobody listens at on the Gateway of its class.
func (r *streamReconciler) claimPort(
	ctx context.Context, by claim.Claimant, class *v1beta1.StreamIngressClass, at claim.Coordinate,
) error {
	return r.Ledger.ClaimUnless(ctx, by, at, func(ctx context.Context) (*v1beta1.EdgeClaim, error) {
		return r.View.Gateways.Listens(ctx, r.Ledger, class, at)
	})
}

// autoAssign claims a free port for a stream that names none. The port it had before is tried first, by its status or by an
// entry, and claims that the cache does not show yet count.
func (r *streamReconciler) autoAssign(
	ctx context.Context, si *v1beta1.StreamIngress, by claim.Claimant, req stream.Request,
) (claim.Coordinate, refusal.Problems, error) {
	held, err := r.View.Claims.HeldLive(ctx, by.Holder)
	if err != nil {
		return claim.Coordinate{}, nil, err
	}
	if at := stream.Wanted(si, req.Class.Name, held); !at.IsZero() {
		return at, nil, nil
	}
	take := func(at claim.Coordinate) (bool, error) {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		assignable, err := kube.Decide(ctx, r.View, func(f *kube.Facts) bool { return stream.IsAssignable(f, si, req.Class, at) })
		if err != nil || !assignable {
			return false, err
		}
		err = r.claimPort(ctx, by, req.Class, at)
		return err == nil, claim.IgnoreHeld(err)
	}
	before := claim.Stream(req.Class.Name, si.ProtocolOrDefault(), si.Status.Listen)
	if !before.IsZero() && (si.Status.ClassName == req.Class.Name || req.Free.Has(before.Port())) {
		if got, err := take(before); got || err != nil {
			return before, nil, err
		}
	}
	offered := func(lost *stream.PortSet) (stream.Offer, error) {
		return kube.Decide(ctx, r.View, func(f *kube.Facts) stream.Offer { return stream.Offered(f, si, req, lost) })
	}
	at, err := stream.AutoAssign(si, req.Class, offered, take)
	if errors.Is(err, stream.ErrNoFreePort) {
		return claim.Coordinate{}, stream.NoFreePort(si, req.Class), nil
	}
	return at, nil, err
}
