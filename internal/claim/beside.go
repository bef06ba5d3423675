package claim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// Beside is what becomes of a claim that another holder has on a point that somebody asks for.
type Beside int

const (
	// Apart says that only one of the two can have the point, and the other holder has it.
	Apart Beside = iota
	// Relied says that both have the point by this claim, which stays for as long as the request lives that relies on it, whatever becomes of
	// its holder.
	Relied
	// Kept says that both have the point by this claim, which its holder looks after.
	Kept
)

// ReserveBeside reserves all of some points, or none, as ReserveAll does. beside says of a claim of another holder what becomes of it, nil
// that all are apart.
func (l *Ledger) ReserveBeside(
	ctx context.Context, by Claimant, beside func(*v1beta1.EdgeClaim) Beside, points ...Coordinate,
) (withdraw func(context.Context) error, err error) {
	l = l.AskingOnce(points...)
	r, err := l.reserveBy(ctx, by, points, func(at Coordinate) (*v1beta1.EdgeClaim, bool, error) {
		return l.acquireBeside(ctx, at, by, beside)
	})
	withdraw = func(ctx context.Context) error {
		made := slices.DeleteFunc(slices.Clone(r.made), func(c *v1beta1.EdgeClaim) bool { return c == nil })
		r.drop(r.renewed...)
		return l.undo(ctx, by.Holder, made...)
	}
	if IsHeld(err) {
		return nil, errors.Join(err, withdraw(ctx))
	}
	return withdraw, err
}

// acquireBeside claims a point, or relies on the claim that another holder has.
func (l *Ledger) acquireBeside(
	ctx context.Context, at Coordinate, by Claimant, beside func(*v1beta1.EdgeClaim) Beside,
) (*v1beta1.EdgeClaim, bool, error) {
	for range attempts {
		c, isNew, err := l.acquire(ctx, l.cached(at.Name()), at, by, l.now(), nil)
		held, isHeld := errors.AsType[*HeldError](err)
		if !isHeld || beside == nil {
			return c, isNew, err
		}
		switch relied := beside(held.Claim); {
		case relied == Apart:
			return nil, false, err
		case relied == Kept, held.Claim.Name != at.Name(): // of an earlier version, which is for all classes as long as nothing is promised
			return held.Claim, false, nil
		}
		next := held.Claim.DeepCopy()
		next.Spec.Renewed = l.now()
		l.keepPromises(ctx, held.Claim, next)
		next.Spec.Holder.UID, next.Spec.Holder.Generation = "", 0 // so that only time settles it
		if err = l.Store.Update(ctx, next); err == nil {
			return next, false, nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return nil, false, fmt.Errorf("relying on the claim on %s: %w", at, err)
		}
	}
	return nil, false, tooFast(at)
}

// CheckBeside says what ReserveBeside would, from what is stored now, and writes nothing.
func (l *Ledger) CheckBeside(ctx context.Context, by Claimant, beside func(*v1beta1.EdgeClaim) Beside, points ...Coordinate) error {
	l = l.AskingOnce(points...)
	return cmp.Or(l.sideBySide(len(points), func(i int) error {
		err := l.check(ctx, by, nil, false, points[i])
		if held, isHeld := errors.AsType[*HeldError](err); isHeld && beside(held.Claim) != Apart {
			return nil
		}
		return err
	})...)
}
