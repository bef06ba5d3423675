package claim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// DefaultGrace is how long a claim that is not settled is kept: an API request lives at most a minute unless the
// API server is told otherwise, two clocks may be half a minute apart, and half a minute is for good measure.
const DefaultGrace = 2 * time.Minute

// Store keeps claims. Its errors are those of the API: AlreadyExists from Create, NotFound from the others, Conflict
// from Update and Delete when the claim is no longer the version that was passed.
type Store interface {
	// Get reads the claim as it is stored now, from no cache.
	Get(ctx context.Context, name string) (*v1beta1.EdgeClaim, error)
	// List reads all claims of a scope as they are stored at a version of claims, or later; empty for now.
	List(ctx context.Context, scope, version string) ([]v1beta1.EdgeClaim, error)
	// Create stores a new claim and fills in what the API server adds.
	Create(ctx context.Context, c *v1beta1.EdgeClaim) error
	// Update stores the claim if the stored version is the one passed.
	Update(ctx context.Context, c *v1beta1.EdgeClaim) error
	// Delete deletes the claim if the stored version is the one passed.
	Delete(ctx context.Context, c *v1beta1.EdgeClaim) error
}

// Ledger claims and releases points.
type Ledger struct {
	Store Store
	// Cached reads a claim from a cache that may lag behind; nil where there is none.
	Cached func(name string) *v1beta1.EdgeClaim
	// Seen says whether an object of the claimant's UID is known to have been stored at any time, so that no creation of
	// it is in flight; nil where nothing is known. It may err towards no.
	Seen  func(ctx context.Context, by Claimant) bool
	Clock clock.PassiveClock
	// Grace is how long a claim that is not settled is kept.
	Grace time.Duration
	// Promises bounds what is promised and not stored; nil for no bound.
	Promises *Promises
}

// HeldError says that a point is held by somebody else.
type HeldError struct {
	Claim *v1beta1.EdgeClaim
}

// Error names the point and its holder.
func (e *HeldError) Error() string {
	return fmt.Sprintf("%s of %s is held by %s", e.Claim.Spec.Point, e.Claim.Spec.Scope, e.Claim.Spec.HeldBy)
}

// IsHeld says whether a point is held by somebody else.
func IsHeld(err error) bool {
	var held *HeldError
	return errors.As(err, &held)
}

// MayTake says whether the holder of a claim gives way to the claimant. nil stands for never.
type MayTake func(*v1beta1.EdgeClaim) bool

// errMayBeGone says that only a cache knows of the claim. Its holder may have let go of it, and a no has to be true.
var errMayBeGone = errors.New("the claim may be gone")

// attempts bounds how often an optimistic write is tried. Each failure means that somebody else wrote, so that more
// than two are rare.
const attempts = 8

// Promise claims the point for an object that is about to be stored. A claim that its holder has already is renewed.
// A claim of another holder is a *HeldError, unless mayTake says that this holder gives way; mayTake may be nil. So is
// a claim of another holder that the point can't be held beside: see rival. Other errors are those of the store, and that
// too much is promised in the claimant's namespace, which is TooManyRequests.
func (l *Ledger) Promise(ctx context.Context, at Coordinate, by Claimant, mayTake MayTake) error {
	_, err := l.PromiseAll(ctx, []Coordinate{at}, by, mayTake)
	return err
}

// sideBySide is how many claims of one object are made at a time.
const sideBySide = 8

// PromiseAll does the same for several points. It returns the first of those that it failed for, and why. The first point is
// claimed before the others: who asks for the same as somebody else has claimed nothing when it is refused. What has been claimed
// of others is released like all that is promised and never stored.
func (l *Ledger) PromiseAll(ctx context.Context, points []Coordinate, by Claimant, mayTake MayTake) (failed Coordinate, err error) {
	drop, err := l.Promises.Open(ctx, by, points...)
	if err != nil || len(points) == 0 {
		return Coordinate{}, err
	}
	if err := l.promise(ctx, points[0], by, mayTake); err != nil {
		if IsHeld(err) {
			drop()
		}
		return points[0], err
	}
	errs := make([]error, len(points))
	group := errgroup.Group{}
	group.SetLimit(sideBySide)
	for i, at := range points[1:] {
		group.Go(func() error {
			errs[1+i] = l.promise(ctx, at, by, mayTake)
			return errs[1+i]
		})
	}
	if group.Wait() == nil {
		return Coordinate{}, nil
	}
	i := slices.IndexFunc(errs, func(err error) bool { return err != nil })
	return points[i], errs[i]
}

func (l *Ledger) promise(ctx context.Context, at Coordinate, by Claimant, mayTake MayTake) error {
	_, _, err := l.acquire(ctx, l.cached(at.Name()), at, by, l.now(), mayTake)
	return err
}

// Draw promises a point in place of which any other would do as well. giveBack takes back what was promised, unless the
// claimant had the point before, or somebody counts on it by now.
func (l *Ledger) Draw(ctx context.Context, at Coordinate, by Claimant) (giveBack func(context.Context) error, err error) {
	drop, err := l.Promises.Open(ctx, by, at)
	if err != nil {
		return nil, err
	}
	c, created, err := l.acquire(ctx, l.cached(at.Name()), at, by, l.now(), nil)
	if err != nil {
		if IsHeld(err) {
			drop()
		}
		return nil, err
	}
	return func(ctx context.Context) error {
		if !created {
			return nil
		}
		drop()
		return l.takeBack(ctx, c)
	}, nil
}

// now is the time as it is stored.
func (l *Ledger) now() *metav1.MicroTime {
	return new(metav1.NewMicroTime(l.Clock.Now().Truncate(time.Microsecond)))
}

// Claim claims the point for an object that is stored. It writes nothing when the object has the claim already, and
// nobody may take that back. It returns the claim. Errors are as those of Promise.
func (l *Ledger) Claim(
	ctx context.Context, at Coordinate, by Claimant, mayTake MayTake,
) (*v1beta1.EdgeClaim, error) {
	c, _, err := l.acquire(ctx, l.cached(at.Name()), at, by, nil, mayTake)
	return c, err
}

// Confirm says whether a stored object has the claim on a point, and nobody has one beside it, so that the point may be
// opened to it. It believes no cache, and claims nothing.
//
// Who made the claim may have ended before it found the other one. That claim is the younger of the two, and is given back
// once no admission can count on it.
func (l *Ledger) Confirm(ctx context.Context, at Coordinate, by Claimant) (bool, error) {
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
		return false, l.takeBack(ctx, found)
	}
	var held *HeldError
	if errors.As(err, &held) { // lost by now, or a rival that came meanwhile
		return false, nil
	}
	return err == nil, err
}

// acquire claims a point, of which a claim is known, or none is, and looks for a rival then. A claim that is made here, and
// has one, is taken back. created says that there was none before.
func (l *Ledger) acquire(
	ctx context.Context, known *v1beta1.EdgeClaim, at Coordinate, by Claimant, renewed *metav1.MicroTime, mayTake MayTake,
) (_ *v1beta1.EdgeClaim, created bool, _ error) {
	c, created, err := l.take(ctx, known, at, by, renewed, mayTake)
	if err != nil {
		return nil, false, err
	}
	rival, err := l.rival(ctx, at, by.Holder, c.ResourceVersion)
	switch {
	case err != nil:
		err = fmt.Errorf("claiming %s: %w", at, err)
	case rival != nil:
		err = &HeldError{Claim: rival}
	default:
		return c, created, nil
	}
	if created {
		err = errors.Join(err, l.takeBack(ctx, c))
	}
	return nil, false, err
}

// takeBack deletes a claim, unless somebody has renewed it to count on it.
func (l *Ledger) takeBack(ctx context.Context, c *v1beta1.EdgeClaim) error {
	if err := l.Store.Delete(ctx, c); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("taking back %s: %w", c.Name, err)
	}
	return nil
}

// take makes a point the claimant's, or returns the claim that it has. created says that there was none before.
func (l *Ledger) take(
	ctx context.Context, found *v1beta1.EdgeClaim, at Coordinate, by Claimant, renewed *metav1.MicroTime, mayTake MayTake,
) (_ *v1beta1.EdgeClaim, created bool, _ error) {
	fresh := false
	for range attempts {
		var next *v1beta1.EdgeClaim
		var err error
		switch {
		case found == nil:
			next = New(at, by)
			next.Spec.Renewed = renewed
			err = l.Store.Create(ctx, next)
		case HolderOf(found) == by.Holder && renewed == nil && !mayBeTakenBack(found, at, by) && by.isNoted(found):
			return found, false, nil
		case HolderOf(found) == by.Holder || by.takes(found, mayTake):
			next = by.having(found)
			next.Spec.Renewed = renewed
			l.keepPromises(ctx, found, next)
			err = l.Store.Update(ctx, next)
		case fresh:
			return nil, false, &HeldError{Claim: found}
		default:
			err = errMayBeGone
		}
		if err == nil {
			return next, found == nil, nil
		}
		if !errors.Is(err, errMayBeGone) && !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return nil, false, fmt.Errorf("claiming %s: %w", at, err)
		}
		// The cache lags, or somebody else was faster: look at what is stored.
		fresh = true
		if found, err = l.live(ctx, at.Name()); err != nil {
			return nil, false, fmt.Errorf("claiming %s: %w", at, err)
		}
	}
	return nil, false, apierrors.NewTooManyRequestsError(fmt.Sprintf("the claim on %s changes too fast, try again", at))
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

// Peek says what Promise would, from what is stored now, and writes nothing.
func (l *Ledger) Peek(ctx context.Context, at Coordinate, by Claimant, mayTake MayTake) error {
	found, err := l.live(ctx, at.Name())
	if err != nil {
		return fmt.Errorf("reading the claim on %s: %w", at, err)
	}
	if found == nil || HolderOf(found) == by.Holder || by.takes(found, mayTake) {
		found, err = l.rival(ctx, at, by.Holder, "")
	}
	if err != nil {
		return fmt.Errorf("reading what %s can't be held beside: %w", at, err)
	}
	if found == nil {
		return nil
	}
	return &HeldError{Claim: found}
}

func (l *Ledger) cached(name string) *v1beta1.EdgeClaim {
	if l.Cached == nil {
		return nil
	}
	return l.Cached(name)
}

// live reads a claim, nil when there is none.
func (l *Ledger) live(ctx context.Context, name string) (*v1beta1.EdgeClaim, error) {
	found, err := l.Store.Get(ctx, name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return found, err
}

// New is a claim on a point, not stored yet.
func New(at Coordinate, by Claimant) *v1beta1.EdgeClaim {
	return &v1beta1.EdgeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: at.Name()},
		Spec: v1beta1.EdgeClaimSpec{
			Scope: at.Scope(), Point: at.Point(), Holder: by.spec(), HeldBy: by.String(), ClassName: by.ClassName, Adopted: by.Adopts,
		},
	}
}
