package claim

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// Taken is a claim that a stored object has come to have.
type Taken struct {
	*v1beta1.EdgeClaim
	// Before is the claim as it was, nil where there was none.
	Before *v1beta1.EdgeClaim
}

// IsReturned says whether Return leaves the object without the claim, unless somebody has changed that: it was made, and no admission
// counts on it, or another has handed it over.
func (t Taken) IsReturned() bool { return t.isMade() || t.isHandedOver() }

func (t Taken) isMade() bool { return t.Before == nil && t.Spec.Renewed == nil }

func (t Taken) isHandedOver() bool {
	return t.Before != nil && HolderOf(t.Before) != HolderOf(t.EdgeClaim)
}

// ClaimAll claims points for an object that is stored, as Claim does. Where others hand some of them over, all are looked at before
// anything is written, and those are claimed last: of the points of an address, a giver is to lose all or none. What has been claimed is
// returned with an error, too, for Return.
func (l *Ledger) ClaimAll(ctx context.Context, by Claimant, points ...Coordinate) ([]Taken, error) {
	l = l.AskingOnce(points...)
	if err := l.MayClaim(ctx, by, points...); err != nil {
		return nil, err
	}
	return l.ClaimEach(ctx, by, points...)
}

// ClaimEach claims points of all of which, and maybe of more, MayClaim has just said that the object could claim them, as ClaimAll does.
func (l *Ledger) ClaimEach(ctx context.Context, by Claimant, points ...Coordinate) ([]Taken, error) {
	l = l.AskingOnce(points...)
	var free, others []Coordinate // by one look: the cache may change meanwhile
	for _, at := range points {
		if l.isOthers(by, at) {
			others = append(others, at)
		} else {
			free = append(free, at)
		}
	}
	taken := make([]Taken, 0, len(points))
	for _, at := range append(free, others...) {
		c, before, err := l.acquireFrom(ctx, l.cached(at.Name()), at, by, nil, nil)
		if err != nil {
			return taken, err
		}
		taken = append(taken, Taken{c, before})
	}
	return taken, nil
}

// MayClaim says whether a stored object could claim all of some points now, with a *HeldError if not. Nothing is asked where nobody else
// has any of them as far as the cache shows: what is claimed in vain then is taken back, and nobody has lost anything.
func (l *Ledger) MayClaim(ctx context.Context, by Claimant, points ...Coordinate) error {
	if !slices.ContainsFunc(points, func(at Coordinate) bool { return l.isOthers(by, at) }) {
		return nil
	}
	return l.CheckStored(ctx, by, points...)
}

// CheckStored says whether a stored object has all of some points, or could claim them, as they are stored now, with a *HeldError if not.
func (l *Ledger) CheckStored(ctx context.Context, by Claimant, points ...Coordinate) error {
	return l.checkAll(ctx, by, nil, true, points)
}

// isOthers says whether somebody else has a point as far as the cache shows.
func (l *Ledger) isOthers(by Claimant, at Coordinate) bool {
	c := l.cached(at.Name())
	return c != nil && HolderOf(c) != by.Holder
}

// Return undoes what was claimed a moment ago and came to nothing: a claim that was made is deleted, one that was handed over is its
// giver's again, and one that the object had before stays. What somebody has changed since stays as it is.
func (l *Ledger) Return(ctx context.Context, taken ...Taken) error {
	var errs []error
	for _, t := range taken {
		var err error
		switch {
		case t.isMade():
			err = l.Store.Delete(ctx, t.EdgeClaim)
		case t.isHandedOver():
			back := t.DeepCopy()
			back.Spec = *t.Before.Spec.DeepCopy()
			err = l.handOver(ctx, t.EdgeClaim, back)
		}
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("giving back %s: %w", t.Name, err))
		}
	}
	return errors.Join(errs...)
}
