package streams

import (
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// heirAt is the stream to which a port is being handed over, if it is stored and asks for it, nil for none. Who handed it over may be gone
// before the claim is the heir's, and the door is to stay open.
func heirAt(f stream.LimitFacts, at claim.Coordinate, heir claim.Holder) *v1beta1.StreamIngress {
	if !heir.IsStream() {
		return nil
	}
	if si := f.Stream(heir.Key()); si != nil && stream.Inherits(si, at) {
		return si
	}
	return nil
}

// errBehind says that the cache shows that who has a port is gone, and not yet to whom it was handed over.
var errBehind = errors.New("the cache does not show yet who has the port")

// isBehind says whether the cache shows another holder or heir of a claim than is stored, where somebody else asks for the port: each kind
// comes to the cache by itself, so that it may show the end of who has handed the port over before it shows that.
func (b base) isBehind(ctx context.Context, c *v1beta1.EdgeClaim, at claim.Coordinate) (bool, error) {
	streams, err := b.View.Streams.At(ctx, at.Protocol(), at.Port())
	isAnother := func(s v1beta1.StreamIngress) bool {
		return stream.Inherits(&s, at) && claim.StreamHolder(s.Namespace, s.Name) != claim.HolderOf(c)
	}
	if err != nil || !slices.ContainsFunc(streams, isAnother) {
		return false, err
	}
	now, err := b.Ledger.Store.Get(ctx, c.Name)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && (claim.HolderOf(now) != claim.HolderOf(c) || claim.HeirOf(now) != claim.HeirOf(c)), err
}

// noteBehind notes the points that nobody asks for as far as the cache shows, and that it may not know all of: they stay as they are, and
// count as asked for.
func (r *classReconciler) noteBehind(ctx context.Context, s *proxyState, asked map[claim.Coordinate]bool, report *classReport) error {
	s.behind = map[claim.Coordinate]bool{}
	for at, c := range s.claims {
		if asked[at] || !claim.HolderOf(c).IsStream() {
			continue
		}
		behind, err := r.isBehind(ctx, c, at)
		if err != nil {
			return err
		}
		if behind {
			s.behind[at], asked[at] = true, true
			report.retry(watch.CacheLag)
		}
	}
	return nil
}
