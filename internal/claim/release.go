package claim

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// HolderState is a holder as it is stored now.
type HolderState struct {
	// Exists: an object of the holder's kind, namespace and name is stored.
	Exists     bool
	UID        types.UID
	Generation int64
	// Wants: the stored object asks for the point of the claim.
	Wants bool
}

// ReadHolder reads the holder of a claim live, from no cache. What is foreign has no admission in flight that a cache could hide: of
// that a cache may tell.
type ReadHolder func(ctx context.Context, c *v1beta1.EdgeClaim) (HolderState, error)

// Release deletes a claim if its holder does not want the point, and no admission that promised it can still be in flight. A
// claim with which an entry was taken over is the ConfigMap's again, in place of nobody's. The claim has to have been read
// before the holder is looked at; it may come from a cache. gone is the UID of a holder that was seen stored and then
// deleted, empty where nothing was seen.
//
// It returns how long the claim has yet to be kept: 0 when there is nothing to come back for, because the claim was
// released, is wanted, or is gone. A Conflict error says that the claim is no longer as it was read.
func (l *Ledger) Release(
	ctx context.Context, c *v1beta1.EdgeClaim, read ReadHolder, gone types.UID,
) (keep time.Duration, released bool, err error) {
	// The order matters: an admission that promises the point after the claim was read changes its version, and the
	// delete below fails; one that did before is either settled by this look at the holder, or has its grace.
	seen, err := read(ctx, c)
	if err != nil {
		return 0, false, fmt.Errorf("looking for %s: %w", c.Spec.HeldBy, err)
	}
	if seen.Exists && seen.Wants {
		return 0, false, nil
	}
	if !settled(c, seen, gone) {
		if keep := l.GraceLeft(c); keep > 0 {
			return keep, false, nil
		}
	}
	if err := l.deleteOrReturn(ctx, c); err != nil {
		if apierrors.IsNotFound(err) {
			return 0, false, nil
		}
		return 0, false, fmt.Errorf("releasing %s: %w", c.Name, err)
	}
	return 0, true, nil
}

// deleteOrReturn deletes a claim, or gives it back. An entry of which it is not noted that a stream was granted the point was never
// touched, and nothing is to become of it.
func (l *Ledger) deleteOrReturn(ctx context.Context, c *v1beta1.EdgeClaim) error {
	entry, in, left := Adopted(c)
	if entry == nil || left {
		return l.Store.Delete(ctx, c)
	}
	back := c.DeepCopy()
	back.Spec.Holder, back.Spec.HeldBy, back.Spec.Renewed = entry.Holder, in.String(), nil
	if !entry.Granted {
		back.Spec.Adopted = nil
	}
	return l.Store.Update(ctx, back)
}

// Identify has a claim say which object of the holder's name it is for now. Errors are those of the store.
func (l *Ledger) Identify(ctx context.Context, c *v1beta1.EdgeClaim, uid types.UID) error {
	next := c.DeepCopy()
	next.Spec.Holder.UID = uid
	return l.Store.Update(ctx, next)
}

// Remember changes what a claim remembers of the entry that was taken over with its point; nil forgets it. Errors are those
// of the store.
func (l *Ledger) Remember(ctx context.Context, c *v1beta1.EdgeClaim, adopted *v1beta1.AdoptedEntry) error {
	next := c.DeepCopy()
	next.Spec.Adopted = adopted
	return l.Store.Update(ctx, next)
}

// Route has a claim say in which namespaces Portcullis writes, or has written, routes for its point. Errors are those of the store.
func (l *Ledger) Route(ctx context.Context, c *v1beta1.EdgeClaim, namespaces []string) error {
	next := c.DeepCopy()
	next.Spec.RouteNamespaces = namespaces
	return l.Store.Update(ctx, next)
}

// settled says whether every admission that promised the claim has ended.
func settled(c *v1beta1.EdgeClaim, seen HolderState, gone types.UID) bool {
	promised := c.Spec.Holder
	switch {
	case c.Spec.Renewed == nil:
		return true // made for an object that was already stored
	case gone != "" && gone == promised.UID:
		return true // it was stored and is gone, whoever bears its name now
	default:
		return seen.Exists && seen.UID == promised.UID && seen.Generation >= promised.Generation
	}
}

// IsFresh says whether a claim was promised within the last second, as far as the clocks agree: whoever did that may be about to take it
// back.
func (l *Ledger) IsFresh(c *v1beta1.EdgeClaim) bool {
	return c.Spec.Renewed != nil && l.Clock.Since(c.Spec.Renewed.Time) < time.Second
}

// GraceLeft is how long an unsettled claim is still kept, 0 when its grace is over. A claim from a clock that is ahead is
// kept for the whole grace from when that time comes; to the caller it is never more than the grace.
func (l *Ledger) GraceLeft(c *v1beta1.EdgeClaim) time.Duration {
	if c.Spec.Renewed == nil {
		return 0
	}
	age := max(l.Clock.Since(c.Spec.Renewed.Time), 0)
	return max(l.Grace-age, 0)
}
