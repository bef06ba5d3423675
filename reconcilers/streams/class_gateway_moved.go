package streams

import (
	"context"
	"errors"
	"slices"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// A listener is open to the routes of one namespace. Where a port comes to lead to another one, its route there is written first, then
// the listener is opened to that namespace, and closed to the other, in one write, and then the route that was there goes: at no time is
// there none that serves.

// keepUntilRouted leaves listeners as they stand whose routes are yet to be written in the namespace that they are to be opened to.
func (r *classReconciler) keepUntilRouted(
	ctx context.Context, class *v1beta1.StreamIngressClass, stored []stream.StoredSet, wanted map[stream.PortKey]stream.Listener,
	pass *listenerPass,
) error {
	for _, set := range stored {
		for _, l := range set.Listeners {
			want, isWanted := wanted[l.Port]
			if !isWanted || want.Namespace == l.Namespace {
				continue
			}
			comes, err := r.isRouteToCome(ctx, class, want)
			if err != nil {
				return err
			}
			if comes {
				wanted[l.Port] = l
				pass.retry(watch.CacheLag)
			}
		}
	}
	return nil
}

// isRouteToCome says whether the route from a listener is about to be written: it is not there, and nothing is known that keeps it from
// being.
func (r *classReconciler) isRouteToCome(ctx context.Context, class *v1beta1.StreamIngressClass, l stream.Listener) (bool, error) {
	at := claim.Stream(class.Name, l.Port.Protocol, l.Port.Port)
	route, err := r.View.Gateways.Route(ctx, l.Port.Protocol, kube.RouteKey(at, l.Namespace))
	if err != nil || route != nil {
		return false, err
	}
	isRefused := func(p v1beta1.RefusedPort) bool { return portOf(p) == l.Port }
	if slices.ContainsFunc(r.refused.list(class), isRefused) {
		return false, nil
	}
	si, err := r.grantedAt(ctx, class, at)
	if errors.Is(err, errBehind) {
		return true, nil
	}
	if err != nil || si == nil || si.UpstreamNamespace() != l.Namespace {
		return false, err
	}
	number, err := r.backendPort(ctx, si)
	return number != 0, err
}
