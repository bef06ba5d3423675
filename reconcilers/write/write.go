// Package write writes as Portcullis: what nobody else has written to since it was read, and no more than differs.
package write

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/internal/stream"
)

// AsOwner applies as Portcullis, and takes back what somebody else has changed in what is ours. What is applied to an
// object that others write to, too, names the version that it was computed from: a leader that was paused, or a cache
// that lags behind, can't undo what is newer.
var AsOwner = []client.ApplyOption{client.FieldOwner(stream.FieldManager), client.ForceOwnership}

// ErrStale says that an object is not what the cache shows.
var ErrStale = errors.New("the cache lags behind")

// ofVersion makes a patch apply to the version that it was computed from only. A cache that lags would otherwise have the
// same status written, and the same events told, twice.
func ofVersion(obj client.Object) client.Patch {
	return client.MergeFromWithOptions(obj, client.MergeFromWithOptimisticLock{})
}

// Create creates an object. There must be none yet.
func Create(ctx context.Context, c client.Client, obj client.Object) error {
	return c.Create(ctx, obj, client.FieldOwner(stream.FieldManager))
}

// Change writes what differs between two versions of an object. It returns a Conflict error if the object has changed meanwhile.
// One that is gone is no error: its end will be seen.
func Change(ctx context.Context, c client.Client, from, to client.Object) error {
	return client.IgnoreNotFound(c.Patch(ctx, to, ofVersion(from), client.FieldOwner(stream.FieldManager)))
}

// ChangeStatus writes what differs between the status of two versions of an object, on the same terms as Change. written is false
// if the object is gone.
func ChangeStatus(ctx context.Context, c client.Client, from, to client.Object) (written bool, err error) {
	err = c.Status().Patch(ctx, to, ofVersion(from), client.FieldOwner(stream.FieldManager))
	return err == nil, client.IgnoreNotFound(err)
}

// Remove deletes an object as it was read. One that is gone already is no error; when another one of its name stands there by now,
// that is a Conflict error, and it stays.
func Remove(ctx context.Context, c client.Client, obj client.Object) error {
	uid := obj.GetUID()
	return client.IgnoreNotFound(c.Delete(ctx, obj, client.Preconditions{UID: &uid}))
}

// RemoveUnchanged deletes an object as it was read, unless it has changed since: that is a Conflict error. One that is gone already is
// no error.
func RemoveUnchanged(ctx context.Context, c client.Client, obj client.Object) error {
	uid, version := obj.GetUID(), obj.GetResourceVersion()
	return client.IgnoreNotFound(c.Delete(ctx, obj, client.Preconditions{UID: &uid, ResourceVersion: &version}))
}
