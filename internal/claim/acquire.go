package claim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// HeldError says that a point is held by somebody else.
type HeldError struct {
	// At is the point that was asked for. The claim is on it, or on what it can't be held beside.
	At    Coordinate
	Claim *v1beta1.EdgeClaim
}

// Error names the point and its holder.
func (e *HeldError) Error() string {
	return fmt.Sprintf("%s of %s is held by %s", e.Claim.Spec.Point, e.Claim.Spec.Scope, e.Claim.Spec.HeldBy)
}

// IsHeld says whether a point is held by somebody else. Of such an error, errors.AsType tells the point and the claim.
func IsHeld(err error) bool {
	_, held := errors.AsType[*HeldError](err)
	return held
}

// IgnoreHeld is an error unless it says that a point is held by somebody else.
func IgnoreHeld(err error) error {
	if IsHeld(err) {
		return nil
	}
	return err
}

// MayTake says whether the holder of a claim gives way to the claimant. nil stands for never.
type MayTake func(*v1beta1.EdgeClaim) bool

// Acquire asks for points: Ledger.Reserve for an object that is about to be stored, Ledger.Check for one that is only asked
// about. Both give the same verdict.
type Acquire func(ctx context.Context, by Claimant, mayTake MayTake, points ...Coordinate) error

// Reserve claims points for an object that is about to be stored. A claim that its holder has already is renewed. A claim of
// another holder is a *HeldError, unless mayTake says that this holder gives way, or it hands the point over to the claimant, which is
// its heir then; mayTake may be nil. So is a claim of another holder that the point can't be held beside: see rival. Other errors are
// those of the store, and that too much is promised in the claimant's namespace, which is TooManyRequests.
//
// The first point is claimed before the others: who asks for the same as somebody else has claimed nothing when it is
// refused. What has been claimed of others is released like all that is promised and never stored.
func (l *Ledger) Reserve(ctx context.Context, by Claimant, mayTake MayTake, points ...Coordinate) error {
	_, err := l.reserve(ctx, by, mayTake, points)
	return err
}

// ReserveAll reserves all of some points, or none: where one of them is held, what was made for the others is taken back. So does
// withdraw, but for those that the claimant had before, or on which somebody counts by now.
func (l *Ledger) ReserveAll(
	ctx context.Context, by Claimant, points ...Coordinate,
) (withdraw func(context.Context) error, err error) {
	return l.ReserveBeside(ctx, by, nil, points...)
}

// Check says what Reserve would, from what is stored now, and writes nothing.
func (l *Ledger) Check(ctx context.Context, by Claimant, mayTake MayTake, points ...Coordinate) error {
	return l.checkAll(ctx, by, mayTake, false, points)
}

func (l *Ledger) checkAll(ctx context.Context, by Claimant, mayTake MayTake, isStored bool, points []Coordinate) error {
	l = l.AskingOnce(points...)
	return firstOf(l.sideBySide(len(points), func(i int) error { return l.check(ctx, by, mayTake, isStored, points[i]) }))
}

// check says whether the claimant, which is stored or about to be, may have a point.
func (l *Ledger) check(ctx context.Context, by Claimant, mayTake MayTake, isStored bool, at Coordinate) error {
	found, err := l.live(ctx, at.Name())
	if err != nil {
		return fmt.Errorf("reading the claim on %s: %w", at, err)
	}
	if found != nil && !isStored && by.gaveAway(found) {
		return &HeldError{At: at, Claim: found}
	}
	if found != nil && HolderOf(found) != by.Holder && !by.takes(found, mayTake) {
		handed, err := l.isHandedTo(ctx, found, by, isStored)
		if err != nil {
			return fmt.Errorf("looking for %s: %w", found.Spec.HeldBy, err)
		}
		if !handed {
			return &HeldError{At: at, Claim: found}
		}
	}
	return l.checkRival(ctx, at, by.Holder, "")
}

// Claim claims the point for an object that is stored. It writes nothing when the object has the claim already, and
// nobody may take that back. It returns the claim. Errors are as those of Reserve.
func (l *Ledger) Claim(ctx context.Context, by Claimant, mayTake MayTake, at Coordinate) (*v1beta1.EdgeClaim, error) {
	c, _, err := l.acquire(ctx, l.cached(at.Name()), at, by, nil, mayTake)
	return c, err
}

// ClaimUnless claims the point for an object that is stored, as Claim does, and asks then for a claim of another kind beside which it can't
// be: of two that claim, and look then, one at least sees the other. A claim that is made here is taken back where there is one, which is a
// *HeldError. Of one that was there before nothing is asked.
func (l *Ledger) ClaimUnless(
	ctx context.Context, by Claimant, at Coordinate, beside func(context.Context) (*v1beta1.EdgeClaim, error),
) error {
	c, isNew, err := l.acquire(ctx, l.cached(at.Name()), at, by, nil, nil)
	if err != nil || !isNew {
		return err
	}
	other, err := beside(ctx)
	if err == nil && other == nil {
		return nil
	}
	if other != nil {
		err = &HeldError{At: at, Claim: other}
	}
	return errors.Join(err, l.Withdraw(ctx, c))
}

// mostSideBySide is how many claims of one object are made at a time, unless the ledger says otherwise.
const mostSideBySide = 8

// sideBySide does something so many times, side by side, and returns the error of each.
func (l *Ledger) sideBySide(n int, do func(i int) error) []error {
	errs := make([]error, n)
	group := errgroup.Group{}
	group.SetLimit(cmp.Or(l.SideBySide, mostSideBySide))
	for i := range n {
		group.Go(func() error {
			errs[i] = do(i)
			return nil
		})
	}
	_ = group.Wait() // each has its own
	return errs
}

// firstOf is the first error of those of some points, in their order; that one is held says more than that another could not be claimed.
func firstOf(errs []error) error {
	if held := slices.IndexFunc(errs, IsHeld); held >= 0 {
		return errs[held]
	}
	return cmp.Or(errs...)
}

// reservation is what was reserved at a time.
type reservation struct {
	// made are the claims that were made, or promised to the claimant, by the index of their point; nil for what it had before.
	made []*v1beta1.EdgeClaim
	// renewed are the points of what it had before, which binds for longer now.
	renewed []Coordinate
	// drop takes the points off what the namespace has open, but for some.
	drop func(bound ...Coordinate)
}

func (l *Ledger) reserve(ctx context.Context, by Claimant, mayTake MayTake, points []Coordinate) (reservation, error) {
	l = l.AskingOnce(points...)
	return l.reserveBy(ctx, by, points, func(at Coordinate) (*v1beta1.EdgeClaim, bool, error) {
		return l.acquire(ctx, l.cached(at.Name()), at, by, l.now(), mayTake)
	})
}

// reserveBy reserves points, each by acquire, which says whether the claimant had nothing of it before.
func (l *Ledger) reserveBy(
	ctx context.Context, by Claimant, points []Coordinate, acquire func(Coordinate) (*v1beta1.EdgeClaim, bool, error),
) (reservation, error) {
	drop, err := l.Promises.Open(ctx, by, points...)
	r := reservation{made: make([]*v1beta1.EdgeClaim, len(points)), drop: drop}
	if err != nil || len(points) == 0 {
		return r, err
	}
	claim := func(i int) error {
		c, isNew, err := acquire(points[i])
		if isNew {
			r.made[i] = c
		}
		return err
	}
	if err := claim(0); err != nil {
		if IsHeld(err) {
			drop()
		}
		return r, err
	}
	errs := append([]error{nil}, l.sideBySide(len(points)-1, func(i int) error { return claim(i + 1) })...)
	for i, at := range points {
		if errs[i] == nil && r.made[i] == nil {
			r.renewed = append(r.renewed, at)
		}
	}
	return r, firstOf(errs)
}

// errMayBeGone says that only a cache knows of the claim. Its holder may have let go of it, and a no has to be true.
var errMayBeGone = errors.New("the claim may be gone")

// isOutdated says whether an error is that of somebody who went by a claim that is no longer as it was.
func isOutdated(err error) bool {
	return errors.Is(err, errMayBeGone) || apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err)
}

// attempts bounds how often an optimistic write is tried. Each failure means that somebody else wrote, so that more
// than two are rare.
const attempts = 8

// Confirm says whether a stored object has the claim on a point, and nobody has one beside it, so that the point may be
// opened to it. It believes no cache, and claims nothing.
//
// Who made the claim may have ended before it found the other one. That claim is the younger of the two, and is given back
// once no admission can count on it.
func (l *Ledger) Confirm(ctx context.Context, by Claimant, at Coordinate) (bool, error) {
	found, err := l.live(ctx, at.Name())
	if err != nil || found == nil || HolderOf(found) != by.Holder {
		return false, err
	}
	// Before anything is written: this is asked again and again while a rival stands.
	rival, err := l.rival(ctx, at, by.Holder, found.ResourceVersion)
	switch {
	case err != nil:
		return false, fmt.Errorf("reading what %s can't be held beside: %w", at, err)
	case rival == nil:
		_, _, err = l.acquire(ctx, found, at, by, nil, nil)
	case found.CreationTimestamp.Before(&rival.CreationTimestamp) || l.GraceLeft(found) > 0:
		return false, nil
	default:
		return false, l.Withdraw(ctx, found)
	}
	if IsHeld(err) { // lost by now, or a rival that came meanwhile
		return false, nil
	}
	return err == nil, err
}

// acquire claims a point, of which a claim is known, or none is, and looks for a rival then. A claim that is made here, and
// has one, is taken back. isNew says that it was made here, or promised to the claimant, see isNewTo.
func (l *Ledger) acquire(
	ctx context.Context, known *v1beta1.EdgeClaim, at Coordinate, by Claimant, renewed *metav1.MicroTime, mayTake MayTake,
) (_ *v1beta1.EdgeClaim, isNew bool, _ error) {
	c, before, err := l.acquireFrom(ctx, known, at, by, renewed, mayTake)
	return c, c != nil && isNewTo(by.Holder, before, c), err
}

// acquireFrom is acquire, and returns what the claim was before, nil where there was none.
func (l *Ledger) acquireFrom(
	ctx context.Context, known *v1beta1.EdgeClaim, at Coordinate, by Claimant, renewed *metav1.MicroTime, mayTake MayTake,
) (_, before *v1beta1.EdgeClaim, _ error) {
	c, before, err := l.take(ctx, known, at, by, renewed, mayTake)
	if err != nil {
		return nil, nil, err
	}
	if at.ListenerHost() != "" {
		err = l.shares(ctx, at)
	}
	if err == nil {
		err = l.checkRival(ctx, at, by.Holder, c.ResourceVersion)
	}
	if err == nil {
		return c, before, nil
	}
	if !IsHeld(err) {
		err = fmt.Errorf("claiming %s: %w", at, err)
	}
	if isNewTo(by.Holder, before, c) {
		err = errors.Join(err, l.undo(ctx, by.Holder, c))
	}
	return nil, nil, err
}

// take makes a point the claimant's, or returns the claim that it has. before is the claim as it was, nil where there was none.
func (l *Ledger) take(
	ctx context.Context, found *v1beta1.EdgeClaim, at Coordinate, by Claimant, renewed *metav1.MicroTime, mayTake MayTake,
) (_, before *v1beta1.EdgeClaim, _ error) {
	fresh := false
	for range attempts {
		next, err := l.tryTake(ctx, found, fresh, at, by, renewed, mayTake)
		switch {
		case err == nil:
			return next, found, nil
		case IsHeld(err):
			return nil, nil, err
		case !isOutdated(err):
			return nil, nil, fmt.Errorf("claiming %s: %w", at, err)
		}
		// The cache lags, or somebody else was faster: look at what is stored.
		fresh = true
		if found, err = l.reread(ctx, found, at, by, renewed == nil); err != nil {
			return nil, nil, fmt.Errorf("claiming %s: %w", at, err)
		}
	}
	return nil, nil, tooFast(at)
}

// reread reads a claim past the cache, nil when there is none. Where another has it as far as is known, the ledger of a request asks
// meanwhile whether that one hands it over, and keeps the answer: mostly that one has it yet, and who is refused waits as for one read.
func (l *Ledger) reread(
	ctx context.Context, known *v1beta1.EdgeClaim, at Coordinate, by Claimant, isStored bool,
) (*v1beta1.EdgeClaim, error) {
	var holder sync.WaitGroup
	if l.asksOnce && known != nil && !HolderOf(known).IsNamespace() {
		holder.Go(func() { _, _ = l.isHandedTo(ctx, known, by, isStored) }) // an error is kept with the answer
	}
	found, err := l.live(ctx, at.Name())
	holder.Wait()
	return found, err
}

func tooFast(at Coordinate) error {
	return apierrors.NewTooManyRequestsError(fmt.Sprintf("the claim on %s changes too fast, try again", at))
}

// tryTake takes a point by the claim that was found on it, nil for none, once. fresh says that it was read past the cache: only of such a
// claim it is said that somebody else has it.
func (l *Ledger) tryTake(
	ctx context.Context, found *v1beta1.EdgeClaim, fresh bool, at Coordinate, by Claimant, renewed *metav1.MicroTime, mayTake MayTake,
) (*v1beta1.EdgeClaim, error) {
	isOwn := found != nil && HolderOf(found) == by.Holder
	switch {
	case found == nil:
		next := New(at, by)
		next.Spec.Renewed = renewed
		return next, l.Store.Create(ctx, next)
	case isOwn && renewed == nil && !mayBeTakenBack(found, at, by) && by.isNoted(found):
		return found, nil
	case isOwn && (renewed == nil || found.Spec.Heir == nil), by.takes(found, mayTake):
		next := by.having(found)
		next.Spec.Renewed = renewed
		l.keepPromises(ctx, found, next)
		return next, l.Store.Update(ctx, next)
	case !fresh:
		return nil, errMayBeGone
	case isOwn: // and promised to an heir
		return nil, &HeldError{At: at, Claim: found}
	default:
		return l.takeOver(ctx, found, at, by, renewed != nil)
	}
}

// keepPromises carries over what an earlier promise to the same holder still binds. The admission that made it may be in
// flight yet, and the new promise must not let the claim settle, or its grace end, any earlier than the old one did.
func (l *Ledger) keepPromises(ctx context.Context, before, next *v1beta1.EdgeClaim) {
	if HolderOf(before) != HolderOf(next) || l.GraceLeft(before) == 0 {
		return
	}
	// By a clock that is behind, or late, or by no promise at all.
	if next.Spec.Renewed == nil || !next.Spec.Renewed.After(before.Spec.Renewed.Time) {
		next.Spec.Renewed = &metav1.MicroTime{Time: before.Spec.Renewed.Add(time.Microsecond)}
	}
	was, is := before.Spec.Holder, &next.Spec.Holder
	switch {
	case was.UID == is.UID:
		is.Generation = max(is.Generation, was.Generation)
	case was.UID == "" || l.Seen == nil || !l.Seen(ctx, Claimant{Holder: HolderOf(before), UID: was.UID, Generation: was.Generation}):
		// Two creations of one name: either may be stored yet. Without a UID only time settles the claim.
		is.UID, is.Generation = "", 0
	}
}
