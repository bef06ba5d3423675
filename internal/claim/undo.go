package claim

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// What a request that is refused was promised before would count against its namespace, and keep others out, for the whole grace: who knows
// that it is refused takes it back. It is undone as it was written: whoever has counted on it since has changed it.

// Withdraw deletes claims as they were made a moment ago, except those that somebody has renewed to count on them.
func (l *Ledger) Withdraw(ctx context.Context, made ...*v1beta1.EdgeClaim) error {
	return l.each(made, func(c *v1beta1.EdgeClaim) error { return l.Store.Delete(ctx, c) })
}

// undo takes back what was made for a holder a moment ago, see isNewTo: a claim of its own is deleted, and one of which it is the heir is
// its giver's alone again. What somebody has renewed to count on it stays.
func (l *Ledger) undo(ctx context.Context, by Holder, made ...*v1beta1.EdgeClaim) error {
	return l.each(made, func(c *v1beta1.EdgeClaim) error {
		if HolderOf(c) == by {
			return l.Store.Delete(ctx, c)
		}
		return l.disinherit(ctx, c)
	})
}

// disinherit has a claim forget its heir.
func (l *Ledger) disinherit(ctx context.Context, c *v1beta1.EdgeClaim) error {
	next := c.DeepCopy()
	next.Spec.Heir = nil
	return l.Store.Update(ctx, next)
}

// isNewTo says whether a holder had nothing of a claim before: it was made for it, or it has become the heir of another one's.
func isNewTo(by Holder, before, c *v1beta1.EdgeClaim) bool {
	return before == nil || HeirOf(c) == by && HeirOf(before) != by
}

// each does something with claims, side by side. One that is no longer as it was is left alone.
func (l *Ledger) each(claims []*v1beta1.EdgeClaim, do func(*v1beta1.EdgeClaim) error) error {
	return errors.Join(l.sideBySide(len(claims), func(i int) error {
		if err := do(claims[i]); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("taking back %s: %w", claims[i].Name, err)
		}
		return nil
	})...)
}
