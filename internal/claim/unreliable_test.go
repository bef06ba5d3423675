package claim

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// errAway is what whoever writes is told, in time or too late.
var errAway = apierrors.NewInternalError(context.DeadlineExceeded)

// fate is whether a write fails, and when.
type fate int

const (
	succeeds fate = iota
	// before it has taken effect, or after.
	failsBefore
	failsAfter
)

// fate is that of the next write: one of so many fails before, and one after.
func (w *world) fate(of int) fate {
	if w.reliable {
		return succeeds
	}
	switch w.rng.IntN(of) {
	case 0:
		return failsBefore
	case 1:
		return failsAfter
	default:
		return succeeds
	}
}

// unreliable is a Store whose writes fail now and then. Of one that fails nobody learns whether it has taken effect.
type unreliable struct {
	Store
	w *world
}

// Create implements Store.
func (u unreliable) Create(ctx context.Context, c *v1beta1.EdgeClaim) error {
	return u.write(ctx, c, u.Store.Create)
}

// Update implements Store.
func (u unreliable) Update(ctx context.Context, c *v1beta1.EdgeClaim) error {
	return u.write(ctx, c, u.Store.Update)
}

// Delete implements Store.
func (u unreliable) Delete(ctx context.Context, c *v1beta1.EdgeClaim) error {
	return u.write(ctx, c, u.Store.Delete)
}

func (u unreliable) write(ctx context.Context, c *v1beta1.EdgeClaim, write func(context.Context, *v1beta1.EdgeClaim) error) error {
	switch u.w.fate(50) {
	case failsBefore:
		u.w.note("writing %s fails", c.Name)
		return errAway
	case failsAfter:
		u.w.note("writing %s fails, after it has taken effect: %v", c.Name, write(ctx, c.DeepCopy()))
		return errAway
	default:
		return write(ctx, c)
	}
}
