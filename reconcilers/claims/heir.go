package claims

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// enqueueHeir asks for a look at the heir of a claim, if it has one.
func enqueueHeir(q claimQueue, c *v1beta1.EdgeClaim) {
	if c.Spec.Heir != nil {
		q.Add(claimRequest{Holder: claim.HeirOf(c)})
	}
}

// asks says whether an heir is stored, and asks for the point of a claim. That the door of the point is open to another is of no matter.
func (s *holderReading) asks(ctx context.Context, c *v1beta1.EdgeClaim) (claim.HolderState, error) {
	switch at := coordinateOf(c); {
	case at.IsStream() && s.stream != nil:
		return claim.HolderState{
			Exists: true, UID: s.stream.UID, Generation: s.stream.Generation, Wants: stream.Inherits(s.stream, at),
		}, nil
	case at.IsAddress() && s.holder.IsService():
		return s.balancerAsks(ctx, at)
	case at.IsHTTP():
		return s.httpAsks(ctx, at)
	case at.IsRoute() && s.holder.IsRoute():
		return s.routeWants(ctx, at)
	case s.holder.IsNamespace():
		return s.namespaceAsks(ctx, c)
	default:
		return claim.HolderState{}, nil // not stored, or nothing that is handed over
	}
}

// errEarly says that an heir is stored, and not in the cache yet.
var errEarly = errors.New("the cache does not show the heir yet")

// errParts says that an heir can't have all that it asks for together with a point.
var errParts = errors.New("the heir can't have all that it asks for")

// inherit gives an object what others have handed over to it, once it is stored, and has their claims forget it where it does not ask for
// that. It returns when to look again, 0 for never.
func (r *claimReconciler) inherit(ctx context.Context, req claimRequest) (again time.Duration, err error) {
	claims, err := r.View.Claims.ToInherit(ctx, req.Holder)
	if err != nil || len(claims) == 0 {
		return 0, err
	}
	as := make([]*v1beta1.EdgeClaim, 0, len(claims))
	for _, c := range claims {
		as = append(as, claim.AsHeirs(c))
	}
	known, err := r.readHolder(ctx, r.View.Reader, req.Holder, as)
	if err != nil {
		return 0, err
	}
	now, err := r.readHolder(ctx, kube.SlimReader{Reader: r.Live}, req.Holder, as)
	if err != nil {
		return 0, err
	}
	all := sync.OnceValue(func() error { return r.mayHaveAll(ctx, now) }) // before the first of them is the heir's
	for i, c := range claims {
		gone := req.Gone
		if uid := as[i].Spec.Holder.UID; gone == "" && r.View.Claims.Departed(uid) {
			gone = uid
		}
		seen, err := known.asks(ctx, as[i])
		if err != nil {
			return 0, err
		}
		keep, err := r.Ledger.Inherit(ctx, c, r.readHeir(now, seen.Wants, all), gone)
		switch {
		case errors.Is(err, errParts):
			keep = bridgePoll
		case errors.Is(err, errEarly):
			keep = watch.CacheLag
		case apierrors.IsConflict(err), apierrors.IsNotFound(err):
			keep = settling // it changed meanwhile
		case err != nil:
			return 0, err
		}
		log.FromContext(ctx).V(1).Info("looked at an heir", "claim", c.Name, "heir", req.Holder, "keep", keep)
		again = watch.Soonest(again, keep)
	}
	return again, nil
}

// readHeir says by a live look whether an heir is stored, and asks for the point of a claim. seen says that it does by the cache, too, and
// all whether a Service may have all that it asks for, see mayHaveAll.
func (r *claimReconciler) readHeir(now *holderReading, seen bool, all func() error) claim.ReadHolder {
	return func(ctx context.Context, c *v1beta1.EdgeClaim) (claim.HolderState, error) {
		stored, err := now.asks(ctx, c)
		if err != nil || !stored.Wants {
			return stored, err
		}
		if !seen { // until the cache shows it too: who writes what it opens goes by that
			return claim.HolderState{}, errEarly
		}
		if at := coordinateOf(c); at.IsAddress() && now.service != nil {
			err = without(at, all())
		}
		if errors.Is(err, errParts) && r.Ledger.GraceLeft(c) == 0 {
			stored.Wants, err = false, nil
		}
		return stored, err
	}
}

// without is why an heir can't have all that it asks for, but for a point of which the ledger is about to tell.
func without(at claim.Coordinate, err error) error {
	held, ok := errors.AsType[*claim.HeldError](err)
	switch {
	case ok && held.At == at:
		return nil
	case ok:
		return errParts
	default:
		return err
	}
}
